#include "rnic/qp/notification_point.h"

#include <cstring>

#include "congestion/cnp_gaps.h"
#include "rnic/wire/blank_header.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/opcodes.h"

namespace urnic {

namespace {

// Mixes 64 bits well (Steele, Lea and Flood's SplitMix64).
std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30U)) * 0xbf58'476d'1ce4'e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d0'49bb'1331'11ebULL;
    return z ^ (z >> 31U);
}

std::uint64_t mixed(const wire::Gid& gid) {
    std::array<std::uint64_t, 2> words{};
    std::memcpy(words.data(), gid.data(), gid.size());
    return mixed(mixed(words[0] + 1) + words[1]);
}

/// Whose gap a CNP takes part in: it goes to where the packet came from.
std::uint64_t key_of(congestion::CnpScope scope, const wire::PacketView& packet) {
    switch (scope) {
        case congestion::CnpScope::kIpPair:
            return mixed(mixed(packet.src_gid) + 3 * mixed(packet.dst_gid));
        case congestion::CnpScope::kDestinationIp:
            return mixed(packet.src_gid);
        default:
            return 0;
    }
}

}  // namespace

bool NotificationPoint::gap_is_over(TimeNs clock, const QpCommon& common, const wire::PacketView& packet) {
    const congestion::Settings& settings = *common.config.congestion;
    congestion::CnpGaps* const gaps = common.config.cnp_gaps;
    if (settings.cnp_scope != congestion::CnpScope::kFlow && gaps != nullptr) {
        return gaps->take(key_of(settings.cnp_scope, packet), clock, settings.min_time_between_cnps_ns);
    }
    if (last_ns_ != kNever && clock - last_ns_ < settings.min_time_between_cnps_ns) {
        return false;
    }
    last_ns_ = clock;
    return true;
}

void NotificationPoint::on_ce_mark(TimeNs now, const QpCommon& common, const wire::PacketView& packet,
                                   Outbox& outbox) {
    ++common.config.counters->np_ecn_marked_roce_packets;
    const congestion::Settings* const settings = common.config.congestion;
    const bool is_data = (wire::opcode_info(packet.header.opcode).flags & wire::kHasPayload) != 0;
    if (settings != nullptr && settings->cnp_enabled && is_data) {
        send_cnp(now, common, packet, outbox);
    }
}

void NotificationPoint::on_sequence_nak(TimeNs now, const QpCommon& common, const wire::PacketView& packet,
                                        Outbox& outbox) {
    const congestion::Settings* const settings = common.config.congestion;
    if (settings != nullptr && settings->cnp_enabled && settings->nak_triggers_cnp) {
        send_cnp(now, common, packet, outbox);
    }
}

void NotificationPoint::send_cnp(TimeNs now, const QpCommon& common, const wire::PacketView& packet,
                                 Outbox& outbox) {
    if (outbox.room() == 0) {
        return;
    }
    const congestion::Settings* const settings = common.config.congestion;
    wire::Path path = common.path;
    // Not ECN-capable: nothing answers its mark.
    wire::set_traffic_class(path, static_cast<std::uint8_t>(settings->cnp_dscp << 2U),
                            settings->cnp_priority);
    // A CNP that would have to wait is not worth sending: there will be other marks.
    if (outbox.defer_if_paused(path) || !gap_is_over(outbox.clock(now), common, packet)) {
        return;
    }
    wire::PacketHeader header = wire::kBlankHeader;
    header.opcode = wire::kCnp;
    header.becn = true;
    header.mig_req = false;  // A17 leaves it open; NICs send 0
    header.pkey = common.config.pkey;
    header.dest_qp = common.attr.dest_qp_num;
    if (outbox.transmit(path, header, {})) {
        ++common.config.counters->np_cnp_sent;
    }
}

namespace {

// READ responses are sent from RTR on.
bool is_from_peer_of(const QpCommon& common, const wire::PacketView& packet) {
    Counters& counters = *common.config.counters;
    if (!is_responder_active(common.state)) {
        ++counters.drop_qp_state;
        return false;
    }
    if (!wire::pkeys_match(packet.header.pkey, common.config.pkey)) {
        ++counters.drop_pkey;
        return false;
    }
    if (!is_from_peer(common, packet)) {
        ++counters.drop_not_for_us;
        return false;
    }
    return true;
}

}  // namespace

// Reserved fields are not looked at (IBA 1.5.3: ignored on receipt); BECN says what the packet is for.
void handle_cnp(TimeNs now, const QpCommon& common, const wire::PacketView& packet, Outbox& outbox) {
    const bool honoured = is_from_peer_of(common, packet) && packet.header.becn && !packet.header.fecn &&
                          common.self.flow().on_cnp(now, outbox.clock(now));
    Counters& counters = *common.config.counters;
    ++(honoured ? counters.rp_cnp_handled : counters.rp_cnp_ignored);
}

}  // namespace urnic
