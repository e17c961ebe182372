#include "rnic/subnet/sm_handover.h"

#include "rnic/subnet/sm_info_agent.h"

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;

constexpr std::size_t kHandoverData = 64;
constexpr std::uint32_t kHandover = 1;  // AttributeModifier of Set(SMInfo) (IBA 14.4.1)

}  // namespace

void SmHandover::advance(std::span<const std::uint16_t> others, TimeNs now, const Send& send) {
    if (others.empty()) {
        step_ = Step::kAsks;
        next_ = kNever;
        is_waiting_ = false;
        return;
    }
    if (next_ != kNever && now < next_) {
        return;
    }
    step_ = Step::kAsks;
    next_ = now + kPollNs;
    asked_ = others[turn_++ % others.size()];
    request(wire::kMadGet, 0, {}, send);
}

bool SmHandover::take(const MadPacket& packet, const mad::SmInfo& own, TimeNs now, const Send& send) {
    MadBytes bytes = packet.mad;
    const MadRef mad(bytes);
    if (!is_waiting_ || packet.slid != asked_ || mad.transaction_id() != transaction_id_ ||
        mad.method() != wire::kMadGetResponse || mad.attribute_id() != mad::kSmInfo) {
        return false;
    }
    is_waiting_ = false;
    if (mad.status() != kStatusGood) {
        return true;
    }
    const auto theirs = mad.read<mad::SmInfo>(mad::kSmInfoTable, kHandoverData);
    if (step_ == Step::kAsks && theirs.sm_state == kSmStandby) {
        step_ = Step::kHandsOver;
        next_ = now + kPollNs;
        request(wire::kMadSet, kHandover, own, send);
    } else if (step_ == Step::kHandsOver || theirs.sm_state == kSmMaster) {
        // Two masters are one too many, whoever was the first.
        step_ = Step::kGiven;
        next_ = now + kTakeoverNs;
    }
    return true;
}

void SmHandover::request(std::uint8_t method, std::uint32_t modifier, const mad::SmInfo& own,
                         const Send& send) {
    MadPacket packet;
    packet.dlid = asked_;
    wire::MadHeader header;
    header.mgmt_class = wire::kMadClassSubnetLidRouted;
    header.class_version = kSubnetClassVersion;
    header.method = method;
    header.transaction_id = ++transaction_id_;
    header.attribute_id = mad::kSmInfo;
    header.attribute_modifier = modifier;
    MadRef mad(packet.mad);
    mad.write(wire::kMadTable, 0, header);
    mad.write(mad::kSmInfoTable, kHandoverData, own);
    is_waiting_ = true;
    send(packet);
}

}  // namespace urnic::subnet
