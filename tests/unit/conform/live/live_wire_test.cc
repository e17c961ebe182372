// The wire of the tester: which frames it takes, and how they stand in the trace, with VLAN tags.
#include "conform/live/live_wire.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "conform/case/script_packet.h"
#include "conform/live/vlan_tag.h"
#include "conform/live/wire_port.h"
#include "rnic/wire/frame.h"

namespace urnic::conform {
namespace {

constexpr Gid kTesterGid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 70, 0, 2};
constexpr Gid kDeviceGid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 70, 0, 1};

class Frames final : public WirePort {
  public:
    std::deque<SeenFrame> waiting;
    TimeNs time = 1;
    TimeNs late_ns = 0;  // how much after its time a wait ends
    TimeNs send(std::span<const std::byte> /*frame*/) override { return 1; }
    TimeNs send_together(const std::vector<FrameBytes>& /*frames*/) override { return 1; }
    std::optional<SeenFrame> receive(TimeNs until) override {
        if (waiting.empty()) {
            time = until > time ? until + late_ns : time;
            return {};
        }
        time = std::max(time, waiting.front().time + late_ns);
        SeenFrame frame = std::move(waiting.front());
        waiting.pop_front();
        return frame;
    }
    [[nodiscard]] TimeNs now() const override { return time; }
    std::uint64_t lost() override { return 0; }
};

/// An ACK from the device, with that tag.
SeenFrame ack_with(std::optional<std::uint16_t> vlan_tci, const Gid& tester = kTesterGid) {
    wire::PathSpec spec;
    spec.src_gid = kDeviceGid;
    spec.dst_gid = tester;
    const auto packet = ScriptPacket(wire::kAcknowledge, 7).dest_qp(5);
    return {1, packet.build(wire::make_path(spec), {}), vlan_tci};
}

/// What a wire of that VLAN takes of frames with these tags, by their place.
std::vector<std::size_t> taken(std::uint16_t vlan, const std::vector<std::optional<std::uint16_t>>& tags) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < tags.size(); ++i) {
        Frames port;
        LiveWire wire(port, {{}, {}, kTesterGid, kDeviceGid, vlan},
                      [](std::uint32_t number) { return number == 5; });
        wire.begin_case(1000);
        port.waiting.push_back(ack_with(tags[i]));
        if (wire.next(1) != nullptr) {
            places.push_back(i);
        }
    }
    return places;
}

TEST(ConformWire, TakesTheFramesOfItsVlanAlone) {
    const std::vector<std::optional<std::uint16_t>> tags = {std::nullopt, 0x0000, 0xa000,
                                                            0x0007,       0xa007, 0x0008};
    EXPECT_EQ(taken(0, tags), (std::vector<std::size_t>{0, 1, 2}));
    EXPECT_EQ(taken(7, tags), (std::vector<std::size_t>{3, 4}));
}

TEST(ConformWire, TakesFramesToItsSecondAddressWhereACaseHasAPeerThere) {
    Gid second = kTesterGid;
    second.back() = 12;
    Gid other = kTesterGid;
    other.back() = 13;
    Frames port;
    LiveWire wire(port, {{}, {}, kTesterGid, kDeviceGid, 0, second},
                  [](std::uint32_t number) { return number == 5; });
    wire.begin_case(1000);
    const auto is_taken = [&](const Gid& tester) {
        port.waiting.push_back(ack_with(std::nullopt, tester));
        const bool is_taken = wire.next(1) != nullptr;
        if (is_taken) {
            (void)wire.take();
        }
        return is_taken;
    };
    EXPECT_FALSE(is_taken(second));
    wire.take_second_address(true);
    EXPECT_TRUE(is_taken(second));
    EXPECT_TRUE(is_taken(kTesterGid));
    EXPECT_FALSE(is_taken(other));
    wire.take_second_address(false);
    EXPECT_FALSE(is_taken(second));
}

TEST(ConformWire, KnowsHowMuchItWasHeldUp) {
    Frames port;
    LiveWire wire(port, {{}, {}, kTesterGid, kDeviceGid, 0},
                  [](std::uint32_t number) { return number == 5; });
    wire.begin_case(100'000);
    wire.wait_until(10);
    EXPECT_EQ(wire.held_up_ns(), 0U);
    port.late_ns = 7;
    wire.wait_until(100);
    EXPECT_EQ(wire.held_up_ns(), 7U);
    // A frame that was waited for; one that had come before says nothing.
    port.late_ns = 30;
    port.waiting.push_back(ack_with({}));
    port.waiting.back().time = 200;
    ASSERT_NE(wire.next(1000), nullptr);
    EXPECT_EQ(wire.held_up_ns(), 30U);
    (void)wire.take();
    port.late_ns = 500;
    port.waiting.push_back(ack_with({}));
    port.waiting.back().time = 210;
    ASSERT_NE(wire.next(1000), nullptr);
    EXPECT_EQ(wire.held_up_ns(), 30U);
    wire.begin_case(100'000);
    EXPECT_EQ(wire.held_up_ns(), 0U);
}

TEST(ConformWire, TracesFramesAsTheyAreOnTheWire) {
    Frames port;
    LiveWire wire(port, {{}, {}, kTesterGid, kDeviceGid, 7},
                  [](std::uint32_t number) { return number == 5; });
    wire.begin_case(1000);
    const SeenFrame seen = ack_with(0xa007);
    port.waiting.push_back(seen);
    ASSERT_NE(wire.next(1), nullptr);
    EXPECT_EQ(wire.take().bytes, seen.bytes);
    wire.transmit({seen.bytes});
    ASSERT_EQ(wire.trace().size(), 2U);
    EXPECT_EQ(wire.trace()[0].bytes, with_vlan_tag(seen.bytes, 0xa007));
    EXPECT_EQ(wire.trace()[1].bytes, with_vlan_tag(seen.bytes, 7));
    EXPECT_EQ(wire::load_be16(wire.trace()[0].bytes.data() + 12), wire::kEtherTypeVlan);
    EXPECT_EQ(wire::load_be16(wire.trace()[0].bytes.data() + 14), 0xa007);
    EXPECT_EQ(wire::load_be16(wire.trace()[0].bytes.data() + 16), wire::kEtherTypeIpv4);
}

}  // namespace
}  // namespace urnic::conform
