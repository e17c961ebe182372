// What holds a request back: fences and the number of READs and atomics outstanding.
#include "conform/case/case_list.h"

namespace urnic::conform {
namespace {

CONFORM_CASE(RequesterOrder, FenceWaitsForRead, "10.8.3.3",
             "a fenced WRITE waits for the data of the READ before it") {
    connect({.mtu = 256});
    post({read(1, 512), fenced(write(2, 8, 4096)), write(3, 8, 8192)});
    sends(read_request(1000, 512));
    peer(response_first(1000, 1, 256));
    silence(1000);
    peer(response_last(1001, 1, 256, 256));
    completes(ok(1));
    sends({write_only(1002, 8, 4096), write_only(1003, 8, 8192)});
    peer(ack(1003, 3));
    completes({ok(2), ok(3)});
}

CONFORM_CASE(RequesterOrder, FenceWaitsForAtomic, "10.8.3.3",
             "a fenced SEND waits for the value of the atomic before it") {
    connect();
    post({fetch_add(1, 1, 64), fenced(send(2, 8))});
    sends(fetch_add_request(1000, 1, 64));
    silence(1000);
    peer(atomic_ack(1000, 1, 5));
    completes(ok(1));
    sends(send_only(1001, 8));
    peer(ack(1001, 2));
    completes(ok(2));
}

CONFORM_CASE(RequesterOrder, FenceWaitsForAll, "10.8.3.3",
             "a fence waits for every READ and atomic before it") {
    connect();
    post({read(1, 8, 64), fetch_add(2, 1, 128), read(3, 8, 192), fenced(write(4, 8))});
    sends({read_request(1000, 8, 64), fetch_add_request(1001, 1, 128), read_request(1002, 8, 192)});
    peer({response_only(1000, 1, 8, 64), atomic_ack(1001, 2, 1)});
    completes({ok(1), ok(2)});
    silence(1000);
    peer(response_only(1002, 3, 8, 192));
    completes(ok(3));
    sends(write_only(1003, 8));
}

CONFORM_CASE(RequesterOrder, FenceDoesNotWaitForWrites, "10.8.3.3",
             "a fence does not wait for SENDs and WRITEs") {
    connect();
    post({write(1, 8), send(2, 8), fenced(write(3, 8)), fenced(read(4, 8, 64))});
    sends({write_only(1000, 8), send_only(1001, 8), write_only(1002, 8), read_request(1003, 8, 64)});
}

CONFORM_CASE(RequesterOrder, FencedRead, "10.8.3.3", "a fenced READ waits for the READ before it") {
    connect();
    post({read(1, 8, 64), fenced(read(2, 8, 128))});
    sends(read_request(1000, 8, 64));
    silence(1000);
    peer(response_only(1000, 1, 8, 64));
    completes(ok(1));
    sends(read_request(1001, 8, 128));
}

CONFORM_CASE(RequesterOrder, FenceAcrossALoss, "10.8.3.3",
             "the fence holds while the READ before it is asked for again") {
    connect({.timeout = kTimeout});
    post({read(1, 8, 64), fenced(write(2, 8))});
    sends(read_request(1000, 8, 64));
    sends_within(kLeast, kMost, read_request(1000, 8, 64));
    silence(1000);
    peer(response_only(1000, 1, 8, 64));
    completes(ok(1));
    sends(write_only(1001, 8));
}

CONFORM_CASE(
    RequesterOrder, MaxRdAtomic, "9.4.4",
    "max_rd_atomic 1, 2, 3 and 16: never more READs and atomics outstanding; each response lets one go") {
    for (const std::uint8_t depth : {1, 2, 3, 16}) {
        given("depth", depth);
        connect({.max_rd_atomic = depth});
        const std::uint32_t count = depth + 3U;
        const auto request = [this](std::uint32_t i) {
            return i % 2 == 0 ? read_request(1000 + i, 8, std::size_t{64} * i)
                              : fetch_add_request(1000 + i, 1, std::size_t{64} * i);
        };
        for (std::uint32_t i = 0; i < count; ++i) {
            post(i % 2 == 0 ? read(i, 8, std::size_t{64} * i) : fetch_add(i, 1, std::size_t{64} * i));
        }
        for (std::uint32_t i = 0; i < depth; ++i) {
            sends(request(i));
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            silence(1000);
            peer(i % 2 == 0 ? response_only(1000 + i, i + 1, 8, std::size_t{64} * i)
                            : atomic_ack(1000 + i, i + 1, 9));
            completes(ok(i));
            if (i + depth < count) {
                sends(request(i + depth));
            }
        }
    }
}

CONFORM_CASE(RequesterOrder, WaitingReadHoldsTheQueue, "9.5",
             "what is behind a READ that waits for its turn waits too") {
    connect({.max_rd_atomic = 1});
    post({read(1, 8, 64), write(2, 8), read(3, 8, 128), write(4, 8)});
    sends({read_request(1000, 8, 64), write_only(1001, 8)});
    silence(1000);
    peer(response_only(1000, 1, 8, 64));
    completes(ok(1));
    sends({read_request(1002, 8, 128), write_only(1003, 8)});
}

CONFORM_CASE(RequesterOrder, MaxRdAtomicAcrossALoss, "9.4.4",
             "asking again does not count twice, nor let one more go") {
    connect({.timeout = kTimeout, .max_rd_atomic = 2});
    post({read(1, 8, 64), read(2, 8, 128), read(3, 8, 192)});
    sends({read_request(1000, 8, 64), read_request(1001, 8, 128)});
    resends_within(kLeast, kMost, {read_request(1000, 8, 64), read_request(1001, 8, 128)});
    silence(1000);
    peer(response_only(1000, 1, 8, 64));
    completes(ok(1));
    sends(read_request(1002, 8, 192));
    peer({response_only(1001, 2, 8, 128), response_only(1002, 3, 8, 192)});
    completes({ok(2), ok(3)});
}

CONFORM_CASE(RequesterOrder, PartOfAReadDoesNotLetOneGo, "9.4.4", "a READ counts until its last response") {
    connect({.mtu = 256, .max_rd_atomic = 1});
    post({read(1, 768), read(2, 8, 4096)});
    sends(read_request(1000, 768));
    peer({response_first(1000, 1, 256), response_middle(1001, 256, 256)});
    silence(1000);
    peer(response_last(1002, 1, 256, 512));
    completes(ok(1));
    sends(read_request(1003, 8, 4096));
}

CONFORM_CASE(RequesterOrder, CompletionsInOrder, "10.8.5",
             "requests complete in the order in which they were posted, whatever answers them") {
    connect();
    post({write(1, 8), read(2, 8, 64), send(3, 8), fetch_add(4, 1, 128), write(5, 8)});
    sends({write_only(1000, 8), read_request(1001, 8, 64), send_only(1002, 8),
           fetch_add_request(1003, 1, 128), write_only(1004, 8)});
    peer({ack(1000, 1), response_only(1001, 2, 8, 64), atomic_ack(1003, 4, 7), ack(1004, 5)});
    completes({ok(1), ok(2), ok(3), ok(4), ok(5)});
}

}  // namespace
}  // namespace urnic::conform
