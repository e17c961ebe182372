// Management packets in live captures: what is recorded of them, and what becomes of them.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "daemon/state/control_state.h"
#include "daemon/subnet/mad_capture.h"
#include "rnic/wire/mad/performance_attributes.h"
#include "tests/unit/rnic/subnet/smp_builder.h"

namespace urnic::daemon {
namespace {

namespace mad = wire::mad;
using subnet::MadPacket;
using subnet::MadRef;
using subnet::test::directed;
using subnet::test::lid_routed;
using subnet::test::packet_of;

constexpr std::uint32_t kFirstRnic = 3;
constexpr std::uint32_t kSecondRnic = 5;
constexpr std::uint64_t kMadKey = 7;

/// RNICs 3 and 5 at LIDs 1 and 2, on one switch. No program is there.
class MadCaptureTest : public testing::Test, protected subnet::SubnetHost {
  protected:
    MadCaptureTest() : memory_(kRingBytes / sizeof(Line)) {
        subnet::NodeOptions options;
        options.type = mad::kSwitch;
        options.num_ports = 2;
        const subnet::NodeId middle = subnet_.add(options);
        options.type = mad::kChannelAdapter;
        options.num_ports = 1;
        options.port.is_active = true;
        for (const std::uint8_t port : {std::uint8_t{1}, std::uint8_t{2}}) {
            options.port.lid = port;
            const subnet::NodeId node = subnet_.add(options);
            subnet_.connect(node, 1, middle, port);
            for (mad::PortInfo* info :
                 {&subnet_.node(node).ports[1].info, &subnet_.node(middle).ports[port].info}) {
                info->port_state = mad::kActive;
            }
            subnet_.node(middle).linear[port] = port;
            capture_.add(node, port == 1 ? kFirstRnic : kSecondRnic);
            nodes_.push_back(node);
        }
        subnet_.set_tap(&capture_);
    }
    /// Of all RNICs but for `change`. Returns its number.
    template <class Change>
    std::uint32_t begin(Change change) {
        auto begun = std::make_unique<ActiveCaptures::Capture>();
        begun->packets.rnics = std::uint64_t{1} << kFirstRnic | std::uint64_t{1} << kSecondRnic;
        begun->packets.snap_bytes = 65535;
        begun->packets.rings[dataplane::kControlRing] =
            dataplane::CaptureRingWriter({reinterpret_cast<std::byte*>(memory_.data()), kRingBytes});
        change(begun->packets);
        return captures_.add(control_, std::move(begun));
    }
    std::uint32_t begin() {
        return begin([](dataplane::PacketCapture&) {});
    }

    struct Seen {
        abi::CaptureRecord record{};
        std::vector<std::byte> bytes;
        [[nodiscard]] std::string text() const {
            std::string text = std::to_string(record.rnic) + (record.is_sent != 0 ? " > " : " < ");
            text += abi::kPacketFates[static_cast<std::size_t>(record.fate)];
            return record.fate == abi::PacketFate::kDropped
                       ? text + " " + std::string(abi::kPacketDrops[record.drop])
                       : text;
        }
    };
    /// What is new in the ring, which these tests do not fill.
    std::vector<Seen> read() {
        const auto* const ring = reinterpret_cast<const std::byte*>(memory_.data());
        const std::uint64_t head = reinterpret_cast<const abi::CaptureRing*>(ring)->head.load();
        std::vector<Seen> all;
        while (read_ != head) {
            const std::byte* const at = ring + abi::kCaptureRingHeaderBytes + read_;
            Seen seen;
            std::memcpy(&seen.record, at, sizeof seen.record);
            seen.bytes.assign(at + sizeof seen.record, at + sizeof seen.record + seen.record.captured);
            all.push_back(seen);
            read_ += seen.record.bytes;
        }
        return all;
    }
    /// What the capture has after RNIC 3 has sent this.
    std::vector<Seen> seen_of(const MadPacket& packet) {
        subnet_.send(nodes_[0], packet);
        while (subnet_.advance(0, 100)) {
        }
        return read();
    }
    std::vector<std::string> text_of(const MadPacket& packet) {
        std::vector<std::string> lines;
        for (const Seen& seen : seen_of(packet)) {
            lines.push_back(seen.text());
        }
        return lines;
    }
    static MadPacket performance_query(std::uint16_t dlid) {
        MadPacket packet = packet_of({}, dlid);
        packet.dest_qp = packet.src_qp = wire::kQp1;
        packet.qkey = wire::kGsiQkey;
        wire::MadHeader header;
        header.mgmt_class = wire::kMadClassPerformance;
        header.class_version = 1;
        header.method = wire::kMadGet;
        header.attribute_id = mad::kPortCounters;
        MadRef(packet.mad).write(wire::kMadTable, 0, header);
        packet.mad[65] = std::byte{1};  // PortSelect
        return packet;
    }

    void on_change(subnet::NodeId, const subnet::Change&) override {}
    void on_port_state(subnet::NodeId, std::uint8_t) override {}
    bool deliver(subnet::NodeId node, const MadPacket&) override { return node == nodes_[0]; }
    void read_counters(subnet::NodeId, std::uint8_t, subnet::PortCounterValues&) override {}

    static constexpr std::size_t kRingBytes = abi::kMinCaptureRingBytes;
    struct alignas(64) Line {
        std::byte bytes[64];
    };
    std::vector<Line> memory_;
    std::uint64_t read_ = 0;
    ControlState control_;
    ActiveCaptures captures_;
    subnet::Subnet subnet_{*this};
    MadCapture capture_{captures_, subnet_};
    std::vector<subnet::NodeId> nodes_;
};

TEST_F(MadCaptureTest, BothEndsAreRecordedAsTheLinkHasThem) {
    begin();
    const auto seen = seen_of(performance_query(2));
    ASSERT_EQ(seen.size(), 4U);
    EXPECT_EQ(seen[0].text(), "3 > sent");
    EXPECT_EQ(seen[1].text(), "5 < delivered");
    EXPECT_EQ(seen[2].text(), "5 > sent");
    EXPECT_EQ(seen[3].text(), "3 < delivered");
    EXPECT_EQ(seen[0].bytes, seen[1].bytes);
    EXPECT_EQ(seen[2].bytes, seen[3].bytes);
    for (std::size_t i = 0; i < seen.size(); ++i) {
        const abi::CaptureRecord& record = seen[i].record;
        EXPECT_EQ(record.wire_bytes, subnet::kMadPacketBytes);
        EXPECT_EQ(record.captured, subnet::kMadPacketBytes);
        EXPECT_EQ(record.qpn, wire::kQp1);
        EXPECT_EQ(record.state, abi::kNoState);
        EXPECT_TRUE(i == 0 || record.time_ns >= seen[i - 1].record.time_ns) << i;
        EXPECT_TRUE(subnet::decode(seen[i].bytes)) << i;
    }
    EXPECT_NE(seen[0].record.time_ns, 0U);
}

TEST_F(MadCaptureTest, DropsHaveReasons) {
    begin();
    using Lines = std::vector<std::string>;
    // There is no subnet manager at LID 2.
    EXPECT_EQ(text_of(packet_of(lid_routed(wire::kMadGet, mad::kSmInfo), 2)),
              (Lines{"3 > sent", "5 < dropped drop_mad_not_taken"}));
    subnet_.node(nodes_[1]).base_port().info.m_key = kMadKey;
    subnet_.node(nodes_[1]).base_port().info.m_key_protect_bits = 2;
    EXPECT_EQ(text_of(packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo, 0, kMadKey + 1), 2)),
              (Lines{"3 > sent", "5 < dropped drop_mad_m_key"}));
    EXPECT_EQ(text_of(packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo, 0, kMadKey), 2)).size(), 4U);
    // An adapter is not in the middle of a route.
    EXPECT_EQ(text_of(packet_of(directed(wire::kMadGet, mad::kNodeInfo, 0, {1, 2, 1}))),
              (Lines{"3 > sent", "5 < dropped drop_mad_route"}));
    // A Q_Key that is not QP1's: it does not leave.
    MadPacket packet = performance_query(2);
    packet.qkey = 1;
    EXPECT_EQ(text_of(packet), (Lines{}));
}

TEST_F(MadCaptureTest, FiltersAndSnapLength) {
    const MadPacket smp = packet_of(lid_routed(wire::kMadGet, mad::kNodeInfo), 2);
    const auto number_of = [&](const auto& change) {
        const std::uint32_t id = begin(change);
        const std::size_t number = seen_of(smp).size() * 10 + seen_of(performance_query(2)).size();
        captures_.remove(control_, id);
        read_ = 0;
        memory_.assign(memory_.size(), Line{});
        return number;
    };
    const auto by_qpn = [](std::uint32_t qpn) {
        return [qpn](dataplane::PacketCapture& capture) {
            capture.filters = abi::kFilterQpn;
            capture.qpn = qpn;
        };
    };
    EXPECT_EQ(number_of(by_qpn(0)), 40U);
    EXPECT_EQ(number_of(by_qpn(1)), 4U);
    EXPECT_EQ(number_of(by_qpn(2)), 0U);
    EXPECT_EQ(number_of([](dataplane::PacketCapture& capture) { capture.rnics = 1U << kSecondRnic; }), 22U);
    // Of RNIC 3 both are for LID 2 or from there, of RNIC 5 LID 1 is the other end.
    EXPECT_EQ(number_of([](dataplane::PacketCapture& capture) {
                  capture.filters = abi::kFilterPeer;
                  capture.peer = wire::lid_gid(2);
                  capture.rnics = 1U << kFirstRnic;
              }),
              22U);
    EXPECT_EQ(number_of([](dataplane::PacketCapture& capture) {
                  capture.filters = abi::kFilterPeer | abi::kFilterOpcode;
                  capture.peer = wire::lid_gid(2);
                  capture.opcode = std::uint8_t{wire::kServiceUd} | std::uint8_t{wire::kSendOnly};
              }),
              22U);
    EXPECT_EQ(number_of([](dataplane::PacketCapture& capture) { capture.filters = abi::kFilterOpcode; }), 0U);
    begin([](dataplane::PacketCapture& capture) { capture.snap_bytes = 60; });
    const auto seen = seen_of(smp);
    ASSERT_EQ(seen.size(), 4U);
    EXPECT_EQ(seen[0].record.captured, 60U);
    EXPECT_EQ(seen[0].record.wire_bytes, subnet::kMadPacketBytes);
}

TEST_F(MadCaptureTest, NothingIsRecordedWhenNobodyCaptures) {
    EXPECT_TRUE(seen_of(performance_query(2)).empty());
    const std::uint32_t id = begin();
    EXPECT_EQ(seen_of(performance_query(2)).size(), 4U);
    captures_.remove(control_, id);
    EXPECT_TRUE(seen_of(performance_query(2)).empty());
}

}  // namespace
}  // namespace urnic::daemon
