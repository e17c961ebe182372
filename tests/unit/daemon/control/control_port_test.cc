// Ports that an operator takes down and up, as the control side sees it.
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "daemon/state/port_state.h"
#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

using abi::Op;
using abi::PortAction;

class ControlPort : public ControlTest {
  protected:
    [[nodiscard]] Answer ask(PortAction action, const char* device = "urnic0") const {
        abi::PortRequest request{};
        request.action = action;
        std::strncpy(request.device, device, sizeof request.device - 1);
        return connect().ask(Op::kPort, request);
    }
    [[nodiscard]] std::uint32_t state_of(PortAction action, const char* device = "urnic0") const {
        const Answer answer = ask(action, device);
        EXPECT_EQ(answer.error(), 0);
        return answer.as<abi::PortReply>().up;
    }
    static std::vector<AsyncEventType> events(const UniqueFd& fd) {
        std::vector<AsyncEventType> seen;
        abi::AsyncEvent event{};
        while (::recv(fd.get(), &event, sizeof event, MSG_DONTWAIT) == sizeof event) {
            EXPECT_EQ(event.element, 1U);
            seen.push_back(static_cast<AsyncEventType>(event.event_type));
        }
        return seen;
    }
};

TEST_F(ControlPort, DownAndUp) {
    dataplane::worker_record().ports_down = 0;
    EXPECT_EQ(state_of(PortAction::kQuery), 1U);
    EXPECT_EQ(state_of(PortAction::kDown), 0U);
    EXPECT_EQ(dataplane::worker_record().ports_down, static_cast<int>(kWorkers));
    EXPECT_EQ(state_of(PortAction::kQuery), 0U);
    EXPECT_EQ(state_of(PortAction::kQuery, "urnic1"), 1U);
    EXPECT_EQ(state_of(PortAction::kDown), 0U);
    EXPECT_EQ(dataplane::worker_record().ports_down, static_cast<int>(kWorkers)) << "it was down already";
    EXPECT_EQ(state_of(PortAction::kUp), 1U);
    EXPECT_EQ(dataplane::worker_record().ports_down, 0);
}

TEST_F(ControlPort, EveryContextOfTheDeviceIsTold) {
    TestClient a = client();
    (void)a.open();
    (void)a.open("urnic1");
    (void)a.open();
    TestClient b = client();
    const std::uint32_t context = b.open();
    (void)state_of(PortAction::kDown);
    (void)state_of(PortAction::kDown);
    abi::QueryPortRequest request{};
    request.context = context;
    request.port_num = 1;
    auto port = b.ask(Op::kQueryPort, request).as<abi::QueryPortReply>();
    EXPECT_EQ(port.state, 1);
    EXPECT_EQ(port.phys_state, 3);
    (void)state_of(PortAction::kUp);
    port = b.ask(Op::kQueryPort, request).as<abi::QueryPortReply>();
    EXPECT_EQ(port.state, 4);
    EXPECT_EQ(port.phys_state, 5);
    const std::vector<AsyncEventType> both{AsyncEventType::kPortErr, AsyncEventType::kPortActive};
    EXPECT_EQ(events(a.async_fds[0]), both);
    EXPECT_TRUE(events(a.async_fds[1]).empty());
    EXPECT_EQ(events(a.async_fds[2]), both);
    EXPECT_EQ(events(b.async_fds[0]), both);
}

TEST_F(ControlPort, WhoDoesNotReadItsEventsHoldsNobodyUp) {
    TestClient deaf = client();
    (void)deaf.open();
    for (int i = 0; i < 600; ++i) {
        (void)state_of(i % 2 == 0 ? PortAction::kDown : PortAction::kUp);
    }
    EXPECT_GT(events(deaf.async_fds[0]).size(), 1U);
    (void)state_of(PortAction::kDown);
    EXPECT_EQ(events(deaf.async_fds[0]), std::vector{AsyncEventType::kPortErr}) << "there is room again";
}

TEST_F(ControlPort, WhatIsWrongIsSaid) {
    const Answer answer = ask(PortAction::kDown, "mlx5_0");
    EXPECT_EQ(answer.error(), ENODEV);
    EXPECT_STREQ(answer.as<abi::PortReply>().message,
                 "there is no RNIC \"mlx5_0\"; there are urnic0, urnic1");
    abi::PortRequest request{};
    request.action = PortAction::kDown;
    std::memset(request.device, 'x', sizeof request.device);  // no NUL
    EXPECT_EQ(connect().ask(Op::kPort, request).error(), ENODEV);
    for (const std::uint32_t action : {0U, 4U, ~0U}) {
        EXPECT_EQ(ask(static_cast<PortAction>(action)).error(), EINVAL);
    }
    EXPECT_EQ(state_of(PortAction::kQuery), 1U);
}

/// Link and presence come from elsewhere than an operator: reported on the control thread, as a watch does.
class ControlPortFacts : public ControlPort {
  protected:
    void report(PortFact fact, bool value) {
        on_control_thread([&] { report_port(control, *control.devices[0], fact, value); });
    }
    static constexpr AsyncEventType kUp = AsyncEventType::kPortActive;
    static constexpr AsyncEventType kDown = AsyncEventType::kPortErr;
};

TEST_F(ControlPortFacts, OnlyAChangeOfTheWholeIsTold) {
    dataplane::worker_record().ports_down = 0;
    TestClient user = client();
    const std::uint32_t context = user.open();
    abi::QueryPortRequest request{};
    request.context = context;
    request.port_num = 1;
    struct Step {
        PortFact fact;
        bool value;
        std::vector<AsyncEventType> told;
        int phys_state;
    };
    const std::vector<Step> steps{
        {PortFact::kLink, true, {}, 5},          {PortFact::kLink, false, {kDown}, 2},
        {PortFact::kLink, false, {}, 2},         {PortFact::kPresent, false, {}, 2},
        {PortFact::kWanted, false, {}, 3},       {PortFact::kLink, true, {}, 3},
        {PortFact::kPresent, true, {}, 3},       {PortFact::kWanted, true, {kUp}, 5},
        {PortFact::kPresent, false, {kDown}, 2}, {PortFact::kPresent, true, {kUp}, 5},
    };
    for (std::size_t i = 0; i < steps.size(); ++i) {
        report(steps[i].fact, steps[i].value);
        EXPECT_EQ(events(user.async_fds[0]), steps[i].told) << "step " << i;
        const auto port = user.ask(Op::kQueryPort, request).as<abi::QueryPortReply>();
        EXPECT_EQ(port.phys_state, steps[i].phys_state) << "step " << i;
        EXPECT_EQ(port.state, port.phys_state == 5 ? 4 : 1) << "step " << i;
        EXPECT_EQ(dataplane::worker_record().ports_down, port.state == 4 ? 0 : static_cast<int>(kWorkers))
            << "step " << i;
    }
}

TEST_F(ControlPortFacts, AnOperatorCannotRaiseADeadLink) {
    report(PortFact::kLink, false);
    EXPECT_EQ(state_of(PortAction::kUp), 0U);
    report(PortFact::kLink, true);
    EXPECT_EQ(state_of(PortAction::kQuery), 1U);
}

using ControlMads = ControlTest;

TEST_F(ControlMads, ReachTheHookInOrderOnTheControlThread) {
    std::atomic<std::uint32_t> seen{0};
    std::atomic<bool> in_order{true};
    const std::function<void(RnicState&, const ReceivedMad&)> hook = [&](RnicState& device,
                                                                         const ReceivedMad& mad) {
        in_order = in_order && device.device->index == 1 && mad.src_qp == seen;
        ++seen;
    };
    mad_hook = &hook;
    constexpr std::uint32_t kMads = 2000;
    ReceivedMad mad;
    while (mad.src_qp < kMads) {
        // The worker's part.
        mad.src_qp += control.devices[1]->mads->push(mad) ? 1U : 0U;
    }
    while (seen < kMads) {
        std::this_thread::yield();
    }
    EXPECT_TRUE(in_order);
    (void)client();  // the server lives on
    mad_hook = nullptr;
}

TEST_F(ControlMads, AHookWithoutMemoryLosesTheMad) {
    std::atomic<std::uint32_t> seen{0};
    const std::function<void(RnicState&, const ReceivedMad&)> hook = [&](RnicState&, const ReceivedMad&) {
        ++seen;
        throw std::bad_alloc();
    };
    mad_hook = &hook;
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(control.devices[0]->mads->push({}));
    }
    while (seen < 3) {
        std::this_thread::yield();
    }
    (void)client();
    mad_hook = nullptr;
}

}  // namespace
}  // namespace urnic::daemon
