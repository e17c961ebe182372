// The request of `urnic cc`: who may, what is refused, what reaches the QPs.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/control/long_answer.h"
#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

using abi::CongestionAction;

class ControlCongestion : public ControlTest {
  protected:
    explicit ControlCongestion(const ControlServer::Options& options = {}) : ControlTest(options) {}

    [[nodiscard]] Answer set(const char* device, std::uint32_t qpn, const std::string& values) const {
        abi::CongestionRequest request{};
        request.action = CongestionAction::kSet;
        request.qpn = qpn;
        std::strncpy(request.device, device, sizeof request.device - 1);
        std::strncpy(request.values, values.c_str(), sizeof request.values - 1);
        return connect().ask(abi::Op::kCongestion, request);
    }
    [[nodiscard]] nlohmann::json show() const {
        abi::CongestionRequest request{};
        request.action = CongestionAction::kShow;
        const Answer answer = connect().ask(abi::Op::kCongestion, request);
        EXPECT_EQ(answer.error(), 0);
        EXPECT_EQ(answer.fds.size(), 1U);
        std::string text(1 << 20, '\0');
        const ssize_t got = ::pread(answer.fds.at(0).get(), text.data(), text.size(), 0);
        text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
        return nlohmann::json::parse(text)["devices"];
    }
    static std::string words(const Answer& answer) { return answer.as<abi::CongestionReply>().message; }
};

TEST_F(ControlCongestion, ADeviceAndItsQps) {
    TestClient user = client();
    user.attach_memory();
    const std::uint32_t context = user.open();
    const std::uint32_t pd = user.pd(context);
    const std::uint32_t cq = user.cq(context);
    const std::uint32_t first = user.qp(pd, cq).qp_num;
    const std::uint32_t second = user.qp(pd, cq).qp_num;
    EXPECT_EQ(show()[0]["algorithm"], "none");
    ASSERT_EQ(show()[0]["qps"].size(), 2U);
    EXPECT_EQ(show()[0]["qps"][0]["rate_mbps"], 100'000);

    EXPECT_EQ(set("urnic0", first, "algorithm=fixed\nrate_mbps=12.5\n").error(), 0);
    EXPECT_EQ(set("urnic0", 0, "algorithm=dcqcn\nline_rate_mbps=1000\nprofile=connectx\n").error(), 0);
    const nlohmann::json devices = show();
    EXPECT_EQ(devices[0]["algorithm"], "dcqcn");
    EXPECT_EQ(devices[0]["cnp"], true);
    EXPECT_EQ(devices[1]["algorithm"], "none");
    for (const nlohmann::json& qp : devices[0]["qps"]) {
        EXPECT_EQ(qp["rate_mbps"], qp["qpn"] == first ? 12.5 : 1000);
        EXPECT_EQ(qp.contains("own_settings"), qp["qpn"] == first);
    }
    const Answer former = set("urnic0", 0, "cnp_gap_us=7\n");
    EXPECT_EQ(former.error(), 0);
    EXPECT_NE(words(former).find("'cnp_gap_us' is now 'min_time_between_cnps_us'"), std::string::npos);
    EXPECT_EQ(show()[0]["min_time_between_cnps_us"], 7);
    EXPECT_EQ(words(set("urnic0", 0, "min_time_between_cnps_us=7\n")), "");
    // What is not named stays as it is.
    EXPECT_EQ(set("urnic0", first, "burst_bytes=5000\n").error(), 0);
    EXPECT_EQ(set("urnic0", second, "algorithm=fixed\nrate_mbps=3\n").error(), 0);
    const nlohmann::json later = show();
    for (const nlohmann::json& qp : later[0]["qps"]) {
        EXPECT_EQ(qp["rate_mbps"], qp["qpn"] == first ? 12.5 : 3);
        EXPECT_EQ(qp["own_settings"]["profile"], qp["qpn"] == first ? "paper" : "connectx");
    }
}

TEST_F(ControlCongestion, AllOfManyQpsAreThereOnce) {
    TestClient owner = client();
    const std::uint32_t context = owner.open("urnic1");
    const std::uint32_t pd = owner.pd(context);
    const std::uint32_t cq = owner.cq(context, 1);
    std::set<std::uint32_t> made;
    for (std::size_t i = 0; i < 3 * LongAnswer::kObjectsPerStep; ++i) {
        made.insert(owner.qp(pd, cq).qp_num);
    }
    const nlohmann::json devices = show();
    ASSERT_EQ(devices.size(), 2U);
    EXPECT_EQ(devices[0]["qps"].size(), 0U);
    std::set<std::uint32_t> shown;
    for (const nlohmann::json& qp : devices[1]["qps"]) {
        EXPECT_TRUE(shown.insert(qp["qpn"].get<std::uint32_t>()).second);
    }
    EXPECT_EQ(shown, made);
}

TEST_F(ControlCongestion, WhatIsWrongIsSaidAndChangesNothing) {
    EXPECT_EQ(words(set("mlx5_0", 0, "algorithm=none\n")),
              "there is no RNIC \"mlx5_0\"; there are urnic0, urnic1");
    EXPECT_EQ(set("mlx5_0", 0, "algorithm=none\n").error(), ENODEV);
    EXPECT_EQ(set("urnic0", 17, "algorithm=none\n").error(), ENOENT);
    EXPECT_EQ(words(set("urnic0", 17, "algorithm=none\n")),
              "urnic0 has no RC, UC or XRC QP 17: urnic cc show lists them");
    EXPECT_EQ(words(set("urnic0", 0, "algorithm\n")),
              "\"algorithm\" must be NAME=VALUE, for example algorithm=dcqcn");
    EXPECT_EQ(set("urnic0", 0, "=dcqcn\n").error(), EINVAL);
    EXPECT_EQ(words(set("urnic0", 0, "algorithm=dcqcn\ncnp_priority=8\n")),
              "'cnp_priority' is \"8\"; it must be a whole number from 0 to 7");
    EXPECT_EQ(show()[0]["algorithm"], "none");
    abi::CongestionRequest request{};
    for (const std::uint32_t action : {0U, 3U, ~0U}) {
        request.action = static_cast<CongestionAction>(action);
        EXPECT_EQ(connect().ask(abi::Op::kCongestion, request).error(), EINVAL);
    }
    request.action = CongestionAction::kSet;  // text without an end
    std::memset(request.device, 'x', sizeof request.device);
    std::memset(request.values, 'x', sizeof request.values);
    EXPECT_EQ(connect().ask(abi::Op::kCongestion, request).error(), ENODEV);
    std::strcpy(request.device, "urnic0");
    EXPECT_EQ(connect().ask(abi::Op::kCongestion, request).error(), EINVAL);
}

// Each look at the server's clock takes 15 ms, and so each answer.
class CongestionQuestions : public ControlCongestion {
  protected:
    explicit CongestionQuestions() : CongestionQuestions(std::make_shared<std::atomic<TimeNs>>(0)) {}
    [[nodiscard]] int ask() const {
        abi::CongestionRequest request{};
        request.action = CongestionAction::kShow;
        return connect().ask(abi::Op::kCongestion, request).error();
    }
    std::shared_ptr<std::atomic<TimeNs>> now_;

  private:
    explicit CongestionQuestions(const std::shared_ptr<std::atomic<TimeNs>>& now)
        : ControlCongestion({.clock = [now] { return now->fetch_add(15'000'000); }}), now_(now) {}
};

TEST_F(CongestionQuestions, OfAUserTakeAPartOfTheTime) {
    on_control_thread([this] { control.is_privileged = [](uid_t) { return false; }; });
    int answered = 0;
    int refused = 0;
    for (int i = 0; i < 100; ++i) {
        ++(ask() == EAGAIN ? refused : answered);
    }
    EXPECT_GE(answered, 2) << "200 ms at once, of 75 ms each: two steps an RNIC, and the end";
    EXPECT_GE(refused, 20);
    *now_ += 60'000'000'000;
    EXPECT_EQ(ask(), 0) << "when time has passed";
}

TEST_F(CongestionQuestions, ForTheStatusTakeTheSamePart) {
    on_control_thread([this] { control.is_privileged = [](uid_t) { return false; }; });
    const auto ask_status = [this] { return connect().ask(abi::Op::kStatus, abi::StatusRequest{}).error(); };
    int refused = 0;
    for (int i = 0; i < 100; ++i) {
        refused += ask_status() == EAGAIN ? 1 : 0;
    }
    EXPECT_GE(refused, 20);
    EXPECT_LE(refused, 100 - 2);
    *now_ += 60'000'000'000;
    EXPECT_EQ(ask_status(), 0) << "when time has passed";
}

TEST_F(CongestionQuestions, OfRootHaveNoLimit) {
    on_control_thread([this] { control.is_privileged = [](uid_t) { return true; }; });
    for (int i = 0; i < 100; ++i) {
        ASSERT_EQ(ask(), 0);
    }
}

}  // namespace
}  // namespace urnic::daemon
