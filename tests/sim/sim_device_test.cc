// The simulated RNIC's way in, and what bit errors can do there.
#include "tests/sim/sim_device.h"

#include <gtest/gtest.h>

#include <cstring>

namespace urnic::sim {
namespace {

constexpr std::uint32_t kLength = 24;

/// Two devices on one link, and a WRITE from A to B that can be changed on its way.
class WriteAcross {
  public:
    explicit WriteAcross(bool is_ipv6)
        : a_(network_, {.name = "A", .number = 1, .is_ipv6 = is_ipv6, .poll_ns = 1}, 1),
          b_(network_, {.name = "B", .number = 2, .is_ipv6 = is_ipv6, .poll_ns = 1}, 2) {
        // A ends at this object's tap, which hands over what it wants.
        const auto ends = network_.connect(a_, tap_, "A", "tap", {}, {});
        a_.attach(ends.a_to_b);
        const auto other = network_.connect(b_, sink_, "B", "sink", {}, {});
        b_.attach(other.a_to_b);
        a_memory_ = a_.register_memory(a_bytes_.get(), kLength, kAllAccess);
        b_memory_ = b_.register_memory(b_bytes_.get(), kLength, kAllAccess);
        std::memset(a_bytes_.get(), 0x5a, kLength);
        a_qp_ = &a_.create_qp({});
        b_qp_ = &b_.create_qp({});
        to_rtr(a_, *a_qp_, *b_qp_, b_);
        to_rts(a_, *a_qp_);
    }

    /// The frame of the WRITE as A sends it.
    std::vector<std::byte> sent() {
        SendRequest request;
        request.opcode = WrOpcode::kWrite;
        request.flags = 0;
        request.sge = {a_memory_.sge(0, kLength)};
        request.remote_addr = b_memory_.addr();
        request.rkey = b_memory_.key();
        a_qp_->post_send(request);
        a_.ring(*a_qp_);
        network_.run_until(network_.now() + 10'000);
        return tap_.frame;
    }
    /// Lets the frame come to B, which expects the PSN that A began with. Returns whether B took it;
    /// its memory is right then, and untouched else.
    bool comes(const std::vector<std::byte>& bytes) {
        restart_b();
        const std::uint64_t dropped = b_.refused() + b_.foreign();
        Frame& frame = network_.take_frame();
        frame.length = static_cast<std::uint32_t>(bytes.size());
        std::memcpy(frame.bytes.data(), bytes.data(), bytes.size());
        b_.receive(network_.now(), 0, frame);
        network_.run_until(network_.now() + 10'000);
        const bool taken = b_bytes_.get()[0] != std::byte{0};
        for (std::uint32_t i = 0; i < kLength; ++i) {
            EXPECT_EQ(b_bytes_.get()[i], taken ? std::byte{0x5a} : std::byte{0});
        }
        EXPECT_EQ(b_.refused() + b_.foreign() - dropped, taken ? 0 : 1);
        EXPECT_EQ(b_qp_->qp().state(), QpState::kRtr);
        return taken;
    }

  private:
    class Tap final : public NetworkNode {
      public:
        explicit Tap(Network& network) : network_(network) {}
        void receive(TimeNs /*now*/, DirectionId /*from*/, Frame& passing) override {
            frame.assign(passing.span().begin(), passing.span().end());
            network_.release(passing);
        }
        void wake(TimeNs /*now*/, std::uint64_t /*token*/) override {}
        std::vector<std::byte> frame;

      private:
        Network& network_;
    };

    void restart_b() {
        std::memset(b_bytes_.get(), 0, kLength);
        abi::QpAttr attr{};
        attr.mask = kQpAttrState;
        EXPECT_EQ(b_.modify(*b_qp_, attr), 0);
        to_rtr(b_, *b_qp_, *a_qp_, a_);
    }
    static void to_rtr(SimDevice& device, SimQp& qp, const SimQp& peer_qp, const SimDevice& peer) {
        abi::QpAttr attr{};
        attr.mask = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
        attr.state = QpState::kInit;
        attr.port_num = 1;
        attr.access_flags = kAllAccess;
        EXPECT_EQ(device.modify(qp, attr), 0);
        attr.mask = kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                    kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
        attr.state = QpState::kRtr;
        attr.path_mtu = 3;
        attr.dest_qp_num = peer_qp.qp().qp_num();
        EXPECT_EQ(device.modify(qp, attr, &peer), 0);
    }
    static void to_rts(SimDevice& device, SimQp& qp) {
        abi::QpAttr attr{};
        attr.mask = kQpAttrState | kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrSqPsn |
                    kQpAttrMaxQpRdAtomic;
        attr.state = QpState::kRts;
        EXPECT_EQ(device.modify(qp, attr), 0);
    }

    Network network_{1};
    SimDevice a_;
    SimDevice b_;
    Tap tap_{network_};
    Tap sink_{network_};
    RingMemory a_bytes_ = zeroed_memory(kLength);
    RingMemory b_bytes_ = zeroed_memory(kLength);
    Region a_memory_;
    Region b_memory_;
    SimQp* a_qp_ = nullptr;
    SimQp* b_qp_ = nullptr;
};

std::size_t bits_taken(bool is_ipv6) {
    WriteAcross across(is_ipv6);
    const std::vector<std::byte> frame = across.sent();
    std::size_t taken = 0;
    for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
        std::vector<std::byte> changed = frame;
        changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        taken += across.comes(changed) ? 1 : 0;
    }
    EXPECT_TRUE(across.comes(frame));
    return taken;
}

TEST(SimDevice, TakesTheFrameAsItWasSent) {
    WriteAcross across(false);
    EXPECT_TRUE(across.comes(across.sent()));
}

// What no check covers is the sender's MAC address (48 bits) and the eight bits of FECN, BECN and what is
// reserved beside them (IBA annex A17.3.3); TOS and TTL are under IPv4's own checksum. An error there does no
// harm; everywhere else the frame is dropped.
TEST(SimDevice, NoBitErrorDoesHarmOverIpv4) { EXPECT_EQ(bits_taken(false), 48 + 8); }

// IPv6 has no checksum: traffic class (8), flow label (20) and hop limit (8) may change too.
TEST(SimDevice, NoBitErrorDoesHarmOverIpv6) { EXPECT_EQ(bits_taken(true), 48 + 8 + 8 + 20 + 8); }

}  // namespace
}  // namespace urnic::sim
