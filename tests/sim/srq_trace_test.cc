// Which QP took a receive of a queue that it shares, in the trace that simulators write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "observe/trace/engine_trace.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/srq_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;

constexpr std::uint32_t kMessageBytes = 64;

class SrqTrace : public ::testing::Test {
  protected:
    /// A sender of a connection, its receiver, and what both have of memory.
    struct Pair {
        std::unique_ptr<SimHost> sender;
        std::unique_ptr<SimHost> receiver;
        SimRegion* memory = nullptr;
    };
    Pair connected(std::uint32_t number, QpType sender, const SimHost::Options& receiver) {
        Pair pair;
        const std::string name = std::to_string(number);
        pair.sender = std::make_unique<SimHost>(net_, name, number, SimHost::Options{.type = sender});
        pair.receiver = std::make_unique<SimHost>(net_, "to " + name, 0x10 + number, receiver);
        pair.memory = &pair.sender->add_region(1U << 12U);
        connect(*pair.sender, *pair.receiver);
        return pair;
    }
    /// A message arrives, and the trace looks at its receiver.
    void send(Pair& pair, std::uint32_t srq_number = 0) {
        pair.sender->post_send({.opcode = WrOpcode::kSend,
                                .sge = {pair.memory->sge(0, kMessageBytes)},
                                .srq_number = srq_number});
        net_.run();
        watcher_.progressed(net_.now(), "host", pair.receiver->qp());
    }
    /// "QP INDEX" of each receive that was taken, in order.
    std::vector<std::string> taken() {
        lines_.finish();
        std::istringstream lines(out_.str());
        std::vector<std::string> result;
        for (std::string line; std::getline(lines, line);) {
            const auto event = nlohmann::json::parse(line);
            if (event.value("name", "") == "rdma:wqe_fetched" && event["data"]["queue"] == "receive") {
                result.push_back(event["group_id"].get<std::string>() + " " +
                                 std::to_string(event["data"]["wqe_index"].get<int>()));
            }
        }
        return result;
    }

    SimNetwork net_;
    std::ostringstream out_;
    trace::JsonLines lines_{out_, "host"};
    trace::PacketTrace events_{lines_, {}};
    trace::EngineTrace watcher_{events_};
};

TEST_F(SrqTrace, EachReceiveIsOfTheQpThatTookIt) {
    KeyTable keys;
    SimSrq srq(8);
    Pair one = connected(1, QpType::kRc, {.srq = &srq.queue(), .keys = &keys});
    Pair two = connected(2, QpType::kRc, {.srq = &srq.queue(), .keys = &keys});
    SimRegion& memory = one.receiver->add_region(1U << 12U);
    for (std::uint64_t i = 0; i < 4; ++i) {
        srq.post(i, {memory.sge(0, kMessageBytes)});
    }
    send(two);
    send(one);
    watcher_.progressed(net_.now(), "host", two.receiver->qp());  // it took nothing more
    send(one);
    send(two);
    EXPECT_THAT(taken(), ElementsAre("host/0x12 0", "host/0x11 1", "host/0x11 2", "host/0x12 3"));
}

TEST_F(SrqTrace, OfXrcEachQueueCountsItsOwn) {
    constexpr std::uint32_t kFirst = 0x101;
    constexpr std::uint32_t kSecond = 0x202;
    SimSrq first(8, 1, kFirst, true);
    SimSrq second(8, 1, kSecond, true);
    XrcSrqTable domain;
    domain.add(first.queue());
    domain.add(second.queue());
    Pair pair = connected(1, QpType::kXrcSend, {.type = QpType::kXrcRecv, .xrc_srqs = &domain});
    SimRegion& memory = pair.receiver->add_region(1U << 12U);
    for (SimSrq* srq : {&first, &second}) {
        srq->post(1, {memory.sge(0, kMessageBytes)});
        srq->post(2, {memory.sge(0, kMessageBytes)});
    }
    send(pair, kSecond);
    send(pair, kSecond);
    send(pair, kFirst);
    EXPECT_THAT(taken(), ElementsAre("host/0x11 0", "host/0x11 1", "host/0x11 0"));
}

}  // namespace
}  // namespace urnic::sim
