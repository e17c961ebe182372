// The text of a status is made in steps, between which clients and objects come and go.
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "abi/netlink.h"
#include "daemon/control/long_answer.h"
#include "daemon/control/metrics.h"
#include "daemon/control/status_text.h"
#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

using abi::Op;

constexpr std::uint32_t kCqs = 10 * LongAnswer::kObjectsPerStep;

class StatusSteps : public ControlTest {
  protected:
    void begin(bool is_privileged) {
        user_ = std::make_unique<User>(0, is_privileged, limits_, kWorkers);
        text_ = std::make_unique<StatusText>(control, *user_, 0);
    }
    /// Returns whether there are more.
    bool step() {
        bool has_more = false;
        on_control_thread([&] {
            has_more = text_->write_some([&](std::uint32_t id) {
                const ClientState* found = nullptr;
                for (const ClientState* client : clients()) {
                    if (client->id >= id && client->id != hidden_ && (!found || client->id < found->id)) {
                        found = client;
                    }
                }
                return found;
            });
        });
        return has_more;
    }
    void steps(int count) {
        for (int i = 0; i < count; ++i) {
            ASSERT_TRUE(step());
        }
    }
    [[nodiscard]] nlohmann::json rest() {
        while (step()) {
        }
        const auto& pieces = text_->pieces();
        return nlohmann::json::parse(std::accumulate(pieces.begin(), pieces.end(), std::string()));
    }
    [[nodiscard]] std::uint32_t lowest_id() {
        std::uint32_t lowest = 0;
        on_control_thread([&] { lowest = clients().front()->id; });
        return lowest;
    }

    std::uint32_t hidden_ = 0;  // a client that is not there any more
    UserLimits limits_;
    std::unique_ptr<User> user_;
    std::unique_ptr<StatusText> text_;
};

void make_cqs(const TestClient& client, std::uint32_t context) {
    for (std::uint32_t i = 0; i < kCqs; ++i) {
        (void)client.cq(context, 1);
    }
}

TEST_F(StatusSteps, HaveFewObjectsEach) {
    TestClient rich = client();
    const std::uint32_t context = rich.open();
    make_cqs(rich, context);
    const std::uint32_t pd = rich.pd(context);
    const std::uint32_t cq = rich.cq(context);
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t i = 0; i < 3 * LongAnswer::kObjectsPerStep; ++i) {
        numbers.push_back(rich.qp(pd, cq).qp_num);
    }
    begin(true);
    int count = 1;
    while (step()) {
        ++count;
    }
    EXPECT_GE(count, 1 + 10 + 3);
    const auto status = rest();
    const auto& shown = status["clients"][0];
    EXPECT_EQ(shown["cqs"].size(), kCqs + 1);
    std::vector<std::uint32_t> shown_numbers;
    for (const auto& qp : shown["qps"]) {
        EXPECT_EQ(qp["state"], "RESET");
        shown_numbers.push_back(qp["qpn"]);
    }
    EXPECT_EQ(shown_numbers, numbers);
    EXPECT_EQ(status["devices"][0]["cqs"], kCqs + 1);
}

TEST_F(StatusSteps, ObjectsThatEndMeanwhileAreThereOrNot) {
    TestClient owner = client();
    const std::uint32_t context = owner.open();
    make_cqs(owner, context);
    begin(true);
    steps(5);
    for (const std::uint32_t handle : {1U, 4 * 64U, kCqs / 2 + 100, kCqs}) {
        EXPECT_EQ(owner.on_handle(Op::kDestroyCq, handle), 0);
    }
    (void)owner.cq(context, 3);
    const auto shown = rest()["clients"][0]["cqs"];
    EXPECT_LE(shown.size(), kCqs - 1);
    EXPECT_GE(shown.size(), kCqs - 3);
    EXPECT_GE(shown.back()["entries"], 3);
}

TEST_F(StatusSteps, AClientThatEndsMeanwhileLeavesTheOthers) {
    TestClient doomed = client();
    make_cqs(doomed, doomed.open());
    TestClient next = client();
    (void)next.cq(next.open());
    begin(true);
    steps(5);
    hidden_ = lowest_id();
    const auto status = rest();
    ASSERT_EQ(status["clients"].size(), 2U);
    const auto& ended = status["clients"][0];
    EXPECT_GT(ended["cqs"].size(), 0U);
    EXPECT_LT(ended["cqs"].size(), kCqs);
    for (const char* const name : {"qps", "srqs", "mrs"}) {
        EXPECT_EQ(ended[name], nlohmann::json::array()) << name;
    }
    EXPECT_EQ(status["clients"][1]["cqs"].size(), 1U);
}

TEST_F(StatusSteps, WhoIsNotPrivilegedHasHisOwnObjectsCounted) {
    TestClient owner = client();
    const std::uint32_t context = owner.open();
    make_cqs(owner, context);
    const std::uint32_t pd = owner.pd(context);
    const auto qp = owner.qp(pd, 1);
    TestClient other = client();
    (void)other.pd(other.open());
    hidden_ = lowest_id();
    begin(false);
    const auto of_the_other = rest();
    EXPECT_EQ(of_the_other["devices"][0]["cqs"], 0);
    EXPECT_EQ(of_the_other["devices"][0]["pds"], 1);
    EXPECT_EQ(of_the_other["clients"].size(), 1U);
    hidden_ = 0;
    begin(false);
    const auto of_both = rest();
    EXPECT_EQ(of_both["devices"][0]["cqs"], kCqs);
    EXPECT_EQ(of_both["devices"][0]["pds"], 2);
    EXPECT_EQ(of_both["devices"][0]["qps"], 1);
    EXPECT_EQ(of_both["workers"][qp.worker]["qps"], 1);
    EXPECT_EQ(of_both["devices"][1]["cqs"], 0);
}

// Each look at this clock is longer than a turn, so that a round has one step.
class StatusTurns : public ControlTest {
  protected:
    StatusTurns() : StatusTurns(std::make_shared<std::atomic<TimeNs>>(0)) {}

  private:
    explicit StatusTurns(const std::shared_ptr<std::atomic<TimeNs>>& now)
        : ControlTest({.clock = [now] { return now->fetch_add(10'000'000); }}) {}
};

TEST_F(StatusTurns, OthersAreServedBetweenItsSteps) {
    TestClient rich = client();
    make_cqs(rich, rich.open());
    TestClient other = client();
    abi::CreateCqRequest make_cq{};
    make_cq.context = other.open();
    make_cq.entries = 1;
    make_cq.header = {abi::kControlMagic, Op::kCreateCq, 1, sizeof make_cq};
    const TestClient asker = connect();
    abi::StatusRequest question{};
    question.header = {abi::kControlMagic, Op::kStatus, 2, sizeof question};
    // Both wait when the server looks.
    on_control_thread([&] {
        EXPECT_TRUE(asker.send(&question, sizeof question));
        EXPECT_TRUE(other.send(&make_cq, sizeof make_cq));
    });
    (void)other.receive();
    const Answer answer = asker.receive();
    ASSERT_EQ(answer.error(), 0);
    std::string text(1 << 20, '\0');
    text.resize(static_cast<std::size_t>(pread(answer.fds.at(0).get(), text.data(), text.size(), 0)));
    const auto clients = nlohmann::json::parse(text)["clients"];
    EXPECT_EQ(clients[0]["cqs"].size(), kCqs);
    EXPECT_EQ(clients[1]["cqs"].size(), 1U) << "made behind the question, and before the answer";
}

TEST_F(StatusTurns, RatesAndNetlinkHaveStepsToo) {
    TestClient rich = client();
    const std::uint32_t context = rich.open();
    make_cqs(rich, context);
    const std::uint32_t pd = rich.pd(context);
    for (std::size_t i = 0; i < kCqs; ++i) {
        (void)rich.qp(pd, 1);
    }
    const auto steps = [this] {
        std::uint64_t number = 0;
        on_control_thread([&] { number = control.turns.steps.number(); });
        return number;
    };
    std::uint64_t before = steps();
    abi::CongestionRequest rates{};
    rates.action = abi::CongestionAction::kShow;
    EXPECT_EQ(connect().ask(Op::kCongestion, rates).error(), 0);
    EXPECT_GE(steps() - before, 10U);
    for (const auto& [command, least] :
         {std::pair{RDMA_NLDEV_CMD_RES_CQ_GET, 9U}, std::pair{RDMA_NLDEV_CMD_RES_QP_GET, 9U},
          std::pair{RDMA_NLDEV_CMD_RES_GET, 3U}}) {
        before = steps();
        abi::NetlinkRequest request{};
        const nlmsghdr header{sizeof(nlmsghdr) + 8,
                              static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)),
                              NLM_F_REQUEST | NLM_F_DUMP, 1, 1};
        const nlattr index{8, RDMA_NLDEV_ATTR_DEV_INDEX};
        request.message_bytes = header.nlmsg_len;
        std::memcpy(request.message, &header, sizeof header);
        std::memcpy(request.message + sizeof header, &index, sizeof index);
        EXPECT_EQ(connect().ask(Op::kNetlink, request).error(), 0);
        EXPECT_GE(steps() - before, least) << command;
    }
}

TEST_F(StatusTurns, AnAskerThatEndsMeanwhileLeavesNothing) {
    TestClient rich = client();
    make_cqs(rich, rich.open());
    for (int i = 0; i < 5; ++i) {
        const TestClient asker = connect();
        abi::StatusRequest question{};
        question.header = {abi::kControlMagic, Op::kStatus, 2, sizeof question};
        EXPECT_TRUE(asker.send(&question, sizeof question));
    }
    wait_for_connections(1);
    EXPECT_EQ(connect().ask(Op::kStatus, abi::StatusRequest{}).error(), 0);
}

/// Whoever misses packets on a fabric finds them.
TEST_F(StatusSteps, FramesForNobody) {
    on_control_thread([&] { control.fabrics.push_back({"lab", [] { return std::uint64_t{3}; }}); });
    begin(true);
    const nlohmann::json fabrics = rest().at("fabrics");
    ASSERT_EQ(fabrics.size(), 1U);
    EXPECT_EQ(fabrics[0].at("fabric"), "lab");
    EXPECT_EQ(fabrics[0].at("unknown_destinations"), 3);
    MetricsText metrics;
    on_control_thread([&] { metrics = metrics_text(control, clients(), 0); });
    EXPECT_NE(metrics.prometheus.find("urnic_fabric_unknown_destinations_total{fabric=\"lab\"} 3\n"),
              std::string::npos);
}

}  // namespace
}  // namespace urnic::daemon
