#include "rnic/qp/unreliable/ud_qp.h"

#include <algorithm>
#include <array>

#include "rnic/qp/completions.h"
#include "rnic/qp/notification_point.h"
#include "rnic/qp/sge_list.h"
#include "rnic/wire/layout.h"

namespace urnic {

namespace {

using Grh = std::array<std::byte, kGrhBytes>;

// The GRH room as annex A17 lays it out: an IPv6 header fills it, an IPv4 header lies in its last 20
// bytes. What is before that is zero, so that nothing takes it for an IPv6 header.
Grh grh_of(const wire::PacketView& packet) {
    Grh grh{};
    const std::size_t bytes = packet.is_ipv4 ? wire::kIpv4Bytes : wire::kIpv6Bytes;
    static_assert(kGrhBytes == wire::kIpv6Bytes);
    std::copy_n(packet.l3.begin(), bytes, grh.end() - static_cast<std::ptrdiff_t>(bytes));
    return grh;
}

// Instead of a service level, which RoCE packets have none of, the completion says what the packet was (annex
// A17.4.5.1 asks for that). The code is that of the NICs that programs know: bit 3 for UDP, 2 for IPv4, 1 for
// IPv6. UCX drops UD packets with an IPv4 header unless they say so.
std::uint8_t packet_type(const wire::PacketView& packet) {
    constexpr std::uint8_t kUdp = 8;
    return packet.is_ipv4 ? kUdp | 2 : kUdp | 1;
}

}  // namespace

struct RoceDatagrams {
    static bool scatter_grh(const wire::PacketView& packet, const KeyTable& keys, std::uint32_t pd,
                            const RecvWqe& receive) {
        const Grh grh = grh_of(packet);
        return scatter(keys, pd, receive.list(), 0, grh);
    }
    static Received received(const wire::PacketView& packet) {
        return {.wc_flags = kWcGrh, .link = {0, packet_type(packet), 0}};
    }
};

/// Without a GRH its room stays as it is.
struct IbDatagrams {
    static bool scatter_grh(const wire::PacketView& packet, const KeyTable& keys, std::uint32_t pd,
                            const RecvWqe& receive) {
        return !packet.has_grh || scatter(keys, pd, receive.list(), 0, packet.l3.first(kGrhBytes));
    }
    static Received received(const wire::PacketView& packet) {
        return {.wc_flags = packet.has_grh ? std::uint8_t{kWcGrh} : std::uint8_t{0},
                .link = {packet.slid, packet.sl, 0}};
    }
};

template <class Link>
UdQpOver<Link>::UdQpOver(const QpConfig& config) : UnreliableQp(config, QpType::kUd, wire::kServiceUd) {}

template <class Link>
bool UdQpOver<Link>::is_for_us(const wire::PacketView& packet) const {
    Counters& counters = *config_.counters;
    if (!is_acceptable(packet)) {
        return false;
    }
    if (packet.header.deth.qkey != common_.attr.qkey) {  // IBA 10.2.5
        ++counters.drop_qkey;
        return false;
    }
    if (packet.payload.size() > config_.port_mtu_bytes) {
        ++counters.drop_malformed;
        return false;
    }
    return true;
}

template <class Link>
void UdQpOver<Link>::handle_packet(TimeNs /*now*/, const wire::PacketView& packet, Outbox& outbox) {
    if (is_for_us(packet)) [[likely]] {
        if (has_ce_mark(packet)) [[unlikely]] {
            ++config_.counters->np_ecn_marked_roce_packets;  // nobody to tell: no connection, no rate
        }
        receive(packet, outbox);
        after_call(outbox);
    }
}

template <class Link>
void UdQpOver<Link>::receive(const wire::PacketView& packet, Outbox& outbox) {
    RecvWqe receive;
    const Fetch fetch = receive.peek(common_, config_.srq, outbox);
    if (fetch == Fetch::kEmpty) {
        ++config_.counters->out_of_buffer;
        return;
    }
    if (fetch == Fetch::kMalformed) {
        fail_malformed_receive(common_, receive, outbox);
        return;
    }
    // Too long for the buffer: dropped, and the receive WQE stays (IBA table 58, class D).
    const std::size_t total = kGrhBytes + packet.payload.size();
    if (total > receive.work.length_bytes) {
        ++config_.counters->resp_local_length_error;
        return;
    }
    receive.consume(common_, outbox);
    const std::uint32_t pd = receive.pd(common_);
    if (!Link::scatter_grh(packet, *config_.keys, pd, receive) ||
        !scatter(*config_.keys, pd, receive.list(), kGrhBytes, packet.payload)) {
        complete_receive_error(common_, receive, WcStatus::kLocProtErr, outbox);
        common_.enter_error();
        return;
    }
    Received received = Link::received(packet);
    received.byte_len = static_cast<std::uint32_t>(total);
    received.src_qp = packet.header.deth.src_qp;
    complete_receive(common_, receive, packet.header, wire::opcode_info(packet.header.opcode), received,
                     outbox);
}

template class UdQpOver<RoceDatagrams>;
template class UdQpOver<IbDatagrams>;

}  // namespace urnic
