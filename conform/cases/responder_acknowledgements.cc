// When the responder acknowledges and what its AETHs say (IBA 9.7.5.1, 9.7.7).
#include "conform/case/case_list.h"
#include "conform/case/responder_packets.h"

namespace urnic::conform {
namespace {

CONFORM_CASE(ResponderAck, NothingUnlessAsked, "9.7.5.1.2",
             "requests without AckReq draw no ACK, however long; the next that asks answers for all") {
    connect();
    peer({unasked(write_only(2000, 8)), unasked(write_only(2001, 8))});
    silence(kSecond);
    peer(unasked(write_only(2002, 8)));
    silence(kSecond);
    peer(write_only(2003, 8));
    sends(acked(2003, 4));
}

CONFORM_CASE(ResponderAck, AtOnceWhenAsked, "9.7.5.1.2",
             "a request with AckReq is acknowledged without waiting for another") {
    connect();
    for (std::uint32_t i = 0; i < 5; ++i) {
        peer(write_only(2000 + i, 8));
        sends(acked(2000 + i, i + 1));
    }
}

CONFORM_CASE(ResponderAck, CoalescedInABurst, "9.7.5.1.2",
             "a burst of requests with AckReq gets one ACK, for the newest") {
    connect();
    peer({write_only(2000, 8), write_only(2001, 8), write_only(2002, 8), unasked(write_only(2003, 8))});
    sends(acked(2003, 4));
}

CONFORM_CASE(ResponderAck, InsideAMessage, "9.7.5.1.2",
             "AckReq in First or Middle is answered at once; the MSN does not move") {
    connect({.mtu = 256});
    peer(write_first(2000, 520, 256).ackreq());
    sends(acked(2000, 0));
    peer(write_middle(2001, 256, 256).ackreq());
    sends(acked(2001, 0));
    peer(write_last(2002, 8, 512));
    sends(acked(2002, 1));
}

CONFORM_CASE(ResponderAck, ReadResponseStandsForIt, "9.7.5.1.2",
             "a READ's response acknowledges the requests before it: no ACK besides") {
    connect();
    peer({write_only(2000, 8, 4096), read_request(2001, 8)});
    sends(response_only(2001, 2, 8).credits(0));
}

CONFORM_CASE(ResponderAck, AtomicResponseStandsForIt, "9.7.5.1.2",
             "an ATOMIC Acknowledge acknowledges the requests before it") {
    connect();
    set_word(64, 3);
    peer({write_only(2000, 8, 4096), fetch_add_request(2001, 1, 64)});
    sends(atomic_ack(2001, 2, 3).credits(0));
}

CONFORM_CASE(ResponderAck, MsnCountsMessages, "9.7.7.1 (C9-148)",
             "MSN goes up by one for each message of each kind") {
    connect({.mtu = 256});
    post_receive(100, std::vector<abi::Sge>{});
    peer({send_only(2000, 0)});
    sends(acked(2000, 1));
    peer({write_first(2001, 300, 256), write_last(2002, 44, 256)});
    sends(acked(2002, 2));
    peer(read_request(2003, 300, 4096));
    sends({response_first(2003, 3, 256, 4096).credits(0), response_last(2004, 3, 44, 4352).credits(0)});
    set_word(64, 1);
    peer(fetch_add_request(2005, 1, 64));
    sends(atomic_ack(2005, 4, 1).credits(0));
    peer(write_only(2006, 0));
    sends(acked(2006, 5));
    receives(ok(100));
}

CONFORM_CASE(ResponderAck, PsnWraps, "9.7.1", "requests and READ responses go over PSN 0xffffff to 0") {
    connect({.mtu = 256, .psn_b = 0xfffffe});
    post_receive(100, 1024);
    peer({send_first(0xfffffe, 256), send_middle(0xffffff, 256, 256), send_last(0, 8, 512)});
    sends(acked(0, 1));
    receives(ok(100).bytes(520));
    holds_peer_data(0, 520, 0);
    connect({.mtu = 256, .psn_b = 0xffffff});
    peer(read_request(0xffffff, 600));
    sends({response_first(0xffffff, 1, 256).credits(0), response_middle(0, 256, 256),
           response_last(1, 1, 88, 512).credits(0)});
    peer(write_only(2, 8));
    sends(acked(2, 2));
    connect({.psn_b = 0xffffff});
    peer(unasked(write_only(0, 8)));
    sends(sequence_nak(0xffffff, 0));
}

CONFORM_CASE(ResponderAck, CreditsAreTheReceivesLeft, "9.7.7.2",
             "AETH credits: the code of the receives left, rounded down") {
    // Receives left behind the SEND, and the code of wire table 43 that does not exceed it.
    const struct {
        std::uint32_t left;
        std::uint8_t code;
    } rows[] = {{0, 0},   {1, 1},   {2, 2},    {3, 3},    {4, 4},    {5, 4},    {6, 5},   {7, 5},   {8, 6},
                {11, 6},  {12, 7},  {15, 7},   {16, 8},   {24, 9},   {31, 9},   {32, 10}, {63, 11}, {64, 12},
                {95, 12}, {96, 13}, {127, 13}, {128, 14}, {191, 14}, {192, 15}, {255, 15}};
    for (const auto& row : rows) {
        connect();
        for (std::uint32_t i = 0; i <= row.left; ++i) {
            post_receive(100 + i, std::vector<abi::Sge>{});
        }
        // A receive queue of any depth is looked at a bounded part at a time: ask twice.
        peer(send_only(2000, 0));
        receives(ok(100));
        sends(acked(2000, 1).any_credits());
        peer(write_only(2001, 0));
        sends(acked(2001, 2, row.code));
    }
}

CONFORM_CASE(
    ResponderAck, CreditsCountTheReceiveInUse, "9.7.7.2",
    "the receive that a message under way fills counts until the message, and the MSN with it, ends") {
    connect({.mtu = 256});
    post_receive(100, 1024);
    post_receive(101, 1024);
    peer(send_first(2000, 256).ackreq());
    sends(acked(2000, 0, 2));
    peer(send_last(2001, 8, 256));
    sends(acked(2001, 1, 1));
    receives(ok(100));
}

CONFORM_CASE(ResponderAck, CreditsOverTheEndOfTheRing, "9.7.7.2",
             "the credits count the receives posted, over the end of the ring, acknowledged or not") {
    connect({}, {.recv_entries = 2});
    post_receive(100, 8);
    post_receive(101, 8);
    peer({unasked(send_only(2000, 8)), unasked(send_only(2001, 8))});
    receives({ok(100), ok(101)});
    post_receive(102, 8);
    post_receive(103, 8);
    peer(send_only(2002, 8));
    sends(acked(2002, 3, 1));
    receives(ok(102));
}

CONFORM_CASE(ResponderAck, ResponsesCarryCredits, "9.7.7.2",
             "READ responses and ATOMIC Acknowledges carry credits as ACKs do") {
    connect({.mtu = 256});
    for (std::uint64_t i = 0; i < 6; ++i) {
        post_receive(100 + i, std::vector<abi::Sge>{});
    }
    set_word(64, 8);
    peer(read_request(2000, 300, 4096));
    sends({response_first(2000, 1, 256, 4096).credits(5), response_last(2001, 1, 44, 4352).credits(5)});
    peer(fetch_add_request(2002, 1, 64));
    sends(atomic_ack(2002, 2, 8).credits(5));
}

CONFORM_CASE(ResponderAck, CreditsComeBackWithReceives, "9.7.7.2",
             "receives posted later show in the next ACK") {
    connect();
    peer(write_only(2000, 8));
    sends(acked(2000, 1, 0));
    post_receive(100, 64);
    post_receive(101, 64);
    peer(write_only(2001, 8));
    sends(acked(2001, 2, 2));
    peer(send_only(2002, 8));
    sends(acked(2002, 3, 1));
    receives(ok(100));
}

}  // namespace
}  // namespace urnic::conform
