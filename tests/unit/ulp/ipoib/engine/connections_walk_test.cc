// A random walk of two ends.
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/ulp/ipoib/engine/connection_ends.h"

namespace urnic::ipoib::test {
namespace {

/// Ends that ask, break, sleep and start anew, over a network that loses, doubles and delays.
class IpoibConnectionsWalk : public IpoibConnections {
  protected:
    void deliver(const Message& message) {
        (message.to == a.address ? a : b).connections->on_message(message.from, message.mad);
    }
    void collect(bool is_good) {
        for (End* end : {&a, &b}) {
            for (; !end->sent.empty(); end->sent.pop_front()) {
                if (is_good || !random_.is_one_in(4)) {
                    under_way_.push_back(end->sent.front());
                }
                if (!is_good && random_.is_one_in(8)) {
                    under_way_.push_back(end->sent.front());
                }
            }
        }
    }
    void deliver_any() {
        collect(false);
        if (!under_way_.empty()) {
            const auto chosen =
                under_way_.begin() + static_cast<std::ptrdiff_t>(random_.up_to(under_way_.size() - 1));
            const Message message = *chosen;
            under_way_.erase(chosen);
            deliver(message);
        }
    }
    void start_anew(End& end) {
        if (random_.is_one_in(20)) {
            end.config.seed = random_.up_to(1U << 30U);
            end.start();
        }
    }
    void step() {
        End& end = random_.is_one_in(2) ? a : b;
        End& other = &end == &a ? b : a;
        switch (random_.up_to(9)) {
            case 0:
                std::ignore = end.route_to(other);
                break;
            case 1:
                if (!end.qps.empty() && random_.is_one_in(4)) {
                    end.connections->on_broken(end.qps.begin()->first);
                }
                break;
            case 2:
                if (!end.qps.empty()) {
                    end.connections->on_acknowledged(end.qps.rbegin()->first);
                }
                break;
            case 3:
                start_anew(end);
                break;
            case 4:
                end.advance(random_.up_to(random_.is_one_in(10) ? 20'000 : 300));
                break;
            default:
                deliver_any();
                break;
        }
        EXPECT_LE(a.qps.size(), 4U);
        EXPECT_LE(b.qps.size(), 4U);
    }
    /// Whether `end` has a QP that names one of the peer's that names it.
    static bool is_heard(const Connections::PeerRoute& route, const End& end, const End& peer) {
        if (route.kind != kConnected || !end.qps.contains(route.qpn)) {
            return false;
        }
        const auto there = peer.qps.find(end.qps.at(route.qpn).qpn);
        return there != peer.qps.end() && there->second.qpn == route.qpn;
    }
    /// What `end` sends arrives, or its retries run out.
    static void talk(const Connections::PeerRoute& route, End& end, End& peer, bool retries_run_out) {
        if (is_heard(route, end, peer)) {
            std::ignore = peer.connections->on_received(end.qps.at(route.qpn).qpn);
        } else if (route.kind == kConnected && end.qps.contains(route.qpn) && retries_run_out) {
            end.connections->on_broken(route.qpn);
        }
    }
    /// The network is good again, and both have something to send; whoever's QP names none of the peer's
    /// finds out by its retries.
    bool join() {
        for (int step = 0; step < 4000; ++step) {
            a.advance(50);
            b.advance(50);
            const Connections::PeerRoute of_a = a.route_to(b);
            const Connections::PeerRoute of_b = b.route_to(a);
            collect(true);
            for (const Message& message : std::exchange(under_way_, {})) {
                deliver(message);
            }
            if (is_heard(of_a, a, b) && is_heard(of_b, b, a)) {
                return true;
            }
            talk(of_a, a, b, step % 10 == 9);
            talk(of_b, b, a, step % 10 == 9);
        }
        return false;
    }

    std::uint32_t seed_ = seed_of_test();
    Random random_{seed_};
    std::vector<Message> under_way_;
};

/// Afterwards, when the network is good, both reach each other by QPs that name each other.
TEST_F(IpoibConnectionsWalk, EndsFindEachOther) {
    SCOPED_TRACE("URNIC_TEST_SEED=" + std::to_string(seed_));
    for (int round = 0; round < 60 && !HasFailure(); ++round) {
        for (int i = 0; i < 200; ++i) {
            step();
        }
        ASSERT_TRUE(join()) << "round " << round;
    }
}

}  // namespace
}  // namespace urnic::ipoib::test
