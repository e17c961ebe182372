// What takes long continues in turns that end by time, and others are served in between.
#include <algorithm>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/verbs/batch.h"
#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

using abi::Op;

constexpr std::uint32_t kSteps = 10;
constexpr std::uint32_t kObjects = kSteps * kObjectsPerStep;

/// The server's clock advances by a millisecond with each look, which comes before each step, and notes what
/// there is.
class TurnClock {
  public:
    struct Seen {
        std::uint32_t num_cqs;
        std::uint32_t num_pds;
    };
    TimeNs look() {
        const std::lock_guard lock(mutex_);
        now_ += 1'000'000;
        if (device_ != nullptr) {
            seen_.push_back({device_->num_cqs, device_->num_pds});
            if (device_->num_cqs < kObjects && on_first_step_) {
                std::exchange(on_first_step_, nullptr)();
            }
        }
        return now_;
    }
    /// From now on, of that device.
    void note(const RnicState& device, std::function<void()> on_first_step) {
        const std::lock_guard lock(mutex_);
        device_ = &device;
        on_first_step_ = std::move(on_first_step);
    }
    [[nodiscard]] std::vector<Seen> seen() {
        const std::lock_guard lock(mutex_);
        return seen_;
    }

  private:
    std::mutex mutex_;
    TimeNs now_ = 0;
    const RnicState* device_ = nullptr;
    std::function<void()> on_first_step_;
    std::vector<Seen> seen_;
};

class Turns : public ControlTest {
  protected:
    Turns() : Turns(std::make_shared<TurnClock>()) {}

    /// A client with many CQs.
    [[nodiscard]] TestClient rich() const {
        TestClient rich = client();
        const std::uint32_t context = rich.open();
        for (std::uint32_t i = 0; i < kObjects; ++i) {
            (void)rich.cq(context, 1);
        }
        return rich;
    }
    /// `begin` gives the server what takes long. After the first step another client makes a request.
    void expect_others_between(const std::function<void()>& begin) {
        TestClient other = client();
        abi::ContextRequest request{};
        request.context = other.open();
        request.header = {abi::kControlMagic, Op::kAllocPd, 1, sizeof request};
        on_control_thread([&] {
            clock_->note(*control.devices[0], [&] { EXPECT_TRUE(other.send(&request, sizeof request)); });
        });
        begin();
        EXPECT_EQ(other.receive().error(), 0);
        // The last step is looked at before it is done.
        const auto is_at_last_step = [&] { return clock_->seen().back().num_cqs <= kObjectsPerStep; };
        while (!is_at_last_step()) {
            std::this_thread::yield();
        }
        bool was_between = false;
        std::uint32_t last = kObjects;
        for (const TurnClock::Seen& seen : clock_->seen()) {
            was_between = was_between || (seen.num_pds == 1 && seen.num_cqs > kObjects / 2);
            EXPECT_LE(last - seen.num_cqs, kObjectsPerStep);
            last = seen.num_cqs;
        }
        EXPECT_TRUE(was_between) << "the other one waited for all of them";
    }

    /// How many CQs one step has ended at most, of a client whose rings are long. `end` returns when all
    /// have ended.
    std::uint32_t most_in_a_step(const std::function<void(TestClient&)>& end) {
        constexpr std::uint32_t kCqs = 2 * kObjectsPerStep;
        TestClient owner = client();
        const std::uint32_t context = owner.open();
        for (std::uint32_t i = 0; i < kCqs; ++i) {
            (void)owner.cq(context, kRingBytesPerStep / 16 / sizeof(abi::Cqe));
        }
        const std::size_t before = clock_->seen().size();
        on_control_thread([&] { clock_->note(*control.devices[0], {}); });
        end(owner);
        std::uint32_t most = 0;
        std::uint32_t last = kCqs;
        const std::vector<TurnClock::Seen> seen = clock_->seen();
        for (std::size_t i = before; i < seen.size(); ++i) {
            most = std::max(most, last - seen[i].num_cqs);
            last = seen[i].num_cqs;
        }
        return most;
    }

    std::shared_ptr<TurnClock> clock_;

  private:
    explicit Turns(const std::shared_ptr<TurnClock>& clock)
        : ControlTest({.clock = [clock] { return clock->look(); }}), clock_(clock) {}
};

TEST_F(Turns, AClientThatEndsWithManyObjects) {
    TestClient doomed = rich();
    expect_others_between([&] { doomed.close(); });
    wait_for_connections(0);
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(Turns, ADeviceThatIsClosedWithManyObjects) {
    TestClient rich_one = rich();
    abi::HandleRequest request{};
    request.handle = 1;
    request.header = {abi::kControlMagic, Op::kCloseDevice, 7, sizeof request};
    expect_others_between([&] { EXPECT_TRUE(rich_one.send(&request, sizeof request)); });
    const Answer answer = rich_one.receive();
    EXPECT_EQ(answer.error(), 0);
    EXPECT_EQ(answer.as_header().cookie, 7U);
    EXPECT_EQ(rich_one.on_handle(Op::kCloseDevice, 1), ENOENT);
    let_server_change();
    EXPECT_EQ(control.devices[0]->num_cqs, 0U);
    (void)rich_one.open();
}

/// What is cleared for the next owner takes time by the byte; the rings of who ends have none.
TEST_F(Turns, StepsAreOfFewBytesWhereRingsAreCleared) {
    abi::HandleRequest request{};
    request.handle = 1;
    request.header = {abi::kControlMagic, Op::kCloseDevice, 7, sizeof request};
    const std::uint32_t of_a_device = most_in_a_step([&](TestClient& owner) {
        EXPECT_TRUE(owner.send(&request, sizeof request));
        EXPECT_EQ(owner.receive().error(), 0);
    });
    EXPECT_GE(of_a_device, 1U);
    EXPECT_LE(of_a_device, kObjectsPerStep / 4);
    wait_for_connections(0);
    EXPECT_EQ(most_in_a_step([&](TestClient& owner) {
                  owner.close();
                  wait_for_connections(0);
              }),
              kObjectsPerStep);
}

TEST_F(Turns, AreTimed) {
    TestClient doomed = rich();
    doomed.close();
    wait_for_connections(0);
    on_control_thread([this] {
        const ControlTurns& turns = control.turns;
        EXPECT_GE(turns.requests.number(), kObjects / ControlServer::Options{}.requests_per_turn);
        EXPECT_GE(turns.steps.number(), kSteps);
        EXPECT_GE(turns.rounds.number(), kSteps) << "this clock lets a round have a step or two";
        for (const TurnTimes* const times : {&turns.requests, &turns.steps, &turns.rounds}) {
            EXPECT_GT(times->longest_ns(), 0U);
            EXPECT_GE(times->times().sum(), times->longest_ns());
        }
        for (const TurnTimes* const times : {&turns.requests, &turns.steps}) {
            EXPECT_GT(times->longest_cpu_ns(), 0U);
        }
    });
}

TEST_F(Turns, AClientThatEndsWhileItsDeviceIsClosed) {
    TestClient doomed = rich();
    abi::HandleRequest request{};
    request.handle = 1;
    request.header = {abi::kControlMagic, Op::kCloseDevice, 7, sizeof request};
    EXPECT_TRUE(doomed.send(&request, sizeof request));
    doomed.close();
    wait_for_connections(0);
    EXPECT_TRUE(nothing_is_left());
}

TEST(TurnTimes, LongOnesAreCounted) {
    TurnTimes times;
    for (const TimeNs took : {TimeNs{1000}, TurnTimes::kLongNs, TurnTimes::kLongNs + 1, TimeNs{70'000'000}}) {
        times.add(took);
    }
    EXPECT_EQ(times.number(), 4U);
    EXPECT_EQ(times.num_long(), 2U);
    EXPECT_EQ(times.longest_ns(), 70'000'000U);
    EXPECT_EQ(times.times().sum(), 2 * TurnTimes::kLongNs + 70'001'001);
}

}  // namespace
}  // namespace urnic::daemon
