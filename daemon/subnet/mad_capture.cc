#include "daemon/subnet/mad_capture.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "os/monotonic_clock.h"
#include "rnic/wire/blank_header.h"
#include "rnic/wire/opcodes.h"

namespace urnic::daemon {

namespace {

/// What a node drops, by the names that captures have for it.
struct MadDrop {
    std::uint64_t subnet::SubnetCounters::*counter;
    std::string_view name;
};
constexpr MadDrop kMadDropNames[] = {
    {&subnet::SubnetCounters::drop_malformed, "drop_malformed"},
    {&subnet::SubnetCounters::drop_route, "drop_mad_route"},
    {&subnet::SubnetCounters::drop_m_key, "drop_mad_m_key"},
    {&subnet::SubnetCounters::drop_not_taken, "drop_mad_not_taken"},
};
static_assert(std::size(kMadDropNames) == abi::kMadDrops + 1);

constexpr std::uint8_t mad_drop_place(std::string_view name) {
    return static_cast<std::uint8_t>(
        std::distance(std::begin(abi::kPacketDrops),
                      std::find(std::begin(abi::kPacketDrops), std::end(abi::kPacketDrops), name)));
}
static_assert(std::all_of(std::begin(kMadDropNames), std::end(kMadDropNames), [](const MadDrop& drop) {
    return mad_drop_place(drop.name) < std::size(abi::kPacketDrops);
}));

}  // namespace

void MadCapture::add(subnet::NodeId node, std::uint32_t rnic) {
    rnics_.resize(std::max<std::size_t>(rnics_.size(), node + std::size_t{1}), kNoRnic);
    rnics_[node] = rnic;
}

std::uint32_t MadCapture::captured_rnic(subnet::NodeId node) {
    const std::uint32_t rnic = node < rnics_.size() ? rnics_[node] : kNoRnic;
    return rnic != kNoRnic && captures_.writer().is_capturing(rnic) ? rnic : kNoRnic;
}

void MadCapture::on_sent(subnet::NodeId node, const subnet::PacketBytes& packet) {
    if (const std::uint32_t rnic = captured_rnic(node); rnic != kNoRnic) {
        write(rnic, packet, clock_now(), true, {abi::PacketFate::kSent});
    }
}

void MadCapture::on_arrival(subnet::NodeId node) {
    if (captured_rnic(node) != kNoRnic) {
        arrived_at_ = clock_now();
        before_ = subnet_.counters();
    }
}

void MadCapture::on_handled(subnet::NodeId node, const subnet::PacketBytes& packet) {
    if (const std::uint32_t rnic = captured_rnic(node); rnic != kNoRnic) {
        write(rnic, packet, arrived_at_, false, fate_since_arrival());
    }
}

dataplane::Fate MadCapture::fate_since_arrival() const {
    for (const MadDrop& drop : kMadDropNames) {
        if (subnet_.counters().*drop.counter != before_.*drop.counter) {
            return {abi::PacketFate::kDropped, mad_drop_place(drop.name)};
        }
    }
    return {abi::PacketFate::kDelivered};
}

void MadCapture::write(std::uint32_t rnic, const subnet::PacketBytes& bytes, TimeNs time, bool is_sent,
                       dataplane::Fate fate) {
    dataplane::CaptureWriter::Packet packet;
    packet.rnic = rnic;
    packet.bytes = bytes;
    packet.wire_bytes = static_cast<std::uint32_t>(bytes.size());
    wire::PacketHeader header = wire::kBlankHeader;
    wire::Gid peer{};
    if (const std::optional<subnet::MadPacket> mad = subnet::decode(bytes)) {
        header.opcode = std::uint8_t{wire::kServiceUd} | std::uint8_t{wire::kSendOnly};
        header.dest_qp = mad->dest_qp;
        peer = wire::lid_gid(is_sent ? mad->dlid : mad->slid);
        packet.header = &header;
        packet.peer = &peer;
        packet.qpn = is_sent ? mad->src_qp : mad->dest_qp;
    }
    captures_.writer().write(packet, time, is_sent, fate);
    captures_.writer().publish();
}

}  // namespace urnic::daemon
