#include "tests/fuzz/qp_script.h"

#include <algorithm>
#include <cstring>

#include "rnic/wire/multicast.h"
#include "rnic/wire/opcodes.h"
#include "tests/fuzz/frame_repair.h"

namespace urnic::fuzz {

namespace {

// Longer scripts find nothing that two shorter ones do not, and each takes longer.
constexpr int kMostCommands = 400;
constexpr std::uint32_t kGarbageKey = 0x5eedbeef;
constexpr std::uint32_t kQkey = 0x1111;

constexpr std::array kWrOpcodes = {WrOpcode::kWrite,
                                   WrOpcode::kWriteWithImm,
                                   WrOpcode::kSend,
                                   WrOpcode::kSendWithImm,
                                   WrOpcode::kRead,
                                   WrOpcode::kCompareSwap,
                                   WrOpcode::kFetchAdd,
                                   WrOpcode::kSendWithInvalidate,
                                   WrOpcode::kAtomicWrite,
                                   WrOpcode::kFlush,
                                   WrOpcode::kLocalInvalidate,
                                   WrOpcode::kBindMw};

constexpr std::array kTypes = {QpType::kRc, QpType::kRc, QpType::kUc, QpType::kUd};

/// What a step of a QP of that type has to name.
std::uint32_t required_by(QpType type, QpState from, QpState to) {
    const bool is_rc = type == QpType::kRc;
    if (to == QpState::kInit) {
        return kQpAttrPkeyIndex | kQpAttrPort | (type == QpType::kUd ? kQpAttrQkey : kQpAttrAccessFlags);
    }
    if (to == QpState::kRtr && type != QpType::kUd) {
        return kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
               (is_rc ? kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer : 0U);
    }
    if (to == QpState::kRts && from == QpState::kRtr) {
        return kQpAttrSqPsn |
               (is_rc ? kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrMaxQpRdAtomic : 0U);
    }
    return 0;
}

}  // namespace

QpScript::QpScript(Input& input, Hostile hostile) : input_(input), hostile_(hostile) {
    clock_.time = 1'000'000;
    const std::uint8_t flags = input_.byte();
    for (std::uint32_t i = 0; i < hosts_.size(); ++i) {
        hosts_[i] = std::make_unique<QpHost>(
            clock_, QpHost::Options{.qp_num = i + 2,
                                    .type = kTypes[flags >> 4U & 3U],
                                    .sq_sig_all = (flags & 1U) != 0,
                                    .hostile_application = hostile == Hostile::kApplication,
                                    .holds_early_packets = (flags & (4U << i)) != 0});
    }
    hosts_[0]->peer = hosts_[1].get();
    hosts_[1]->peer = hosts_[0].get();
    attr_.port_num = 1;
    attr_.access_flags = (flags & 2U) != 0 ? input_.byte() & 0x1fU : 0x30fU;  // FLUSH, too
    attr_.qkey = kQkey;
    attr_.path_mtu = static_cast<std::uint8_t>(1 + input_.below(5));
    attr_.timeout = static_cast<std::uint8_t>(input_.below(32));
    attr_.retry_cnt = static_cast<std::uint8_t>(input_.below(8));
    attr_.rnr_retry = static_cast<std::uint8_t>(input_.below(8));
    attr_.min_rnr_timer = static_cast<std::uint8_t>(input_.below(32));
    attr_.max_rd_atomic = static_cast<std::uint8_t>(input_.below(17));
    attr_.max_dest_rd_atomic = static_cast<std::uint8_t>(input_.below(17));
    attr_.en_sqd_async_notify = 1;
    for (std::uint32_t& psn : first_psn_) {
        psn = Psn(static_cast<std::uint32_t>(static_cast<std::int8_t>(input_.byte()))).value();
    }
    connect();
}

void QpScript::modify_to(QpHost& host, QpState state) {
    const std::size_t self = &host == hosts_[0].get() ? 0 : 1;
    abi::QpAttr attr = attr_;
    attr.state = state;
    attr.dest_qp_num = host.peer->qp().qp_num();
    attr.sq_psn = first_psn_[self];
    attr.rq_psn = first_psn_[1 - self];
    std::memcpy(attr.av.dgid, host.peer->gid().data(), host.peer->gid().size());
    attr.mask = kQpAttrState | required_by(host.type(), host.qp().state(), state);
    (void)host.modify(attr);
}

void QpScript::connect() {
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
        for (const auto& host : hosts_) {
            modify_to(*host, state);
        }
    }
}

void QpScript::run() {
    constexpr Command kWireCommands[] = {
        &QpScript::post_send,    &QpScript::post_send,   &QpScript::post_recv,    &QpScript::progress,
        &QpScript::progress_all, &QpScript::deliver_all, &QpScript::deliver,      &QpScript::drop,
        &QpScript::duplicate,    &QpScript::pass_time,   &QpScript::poll,         &QpScript::change_packet,
        &QpScript::make_packet,  &QpScript::make_packet, &QpScript::change_state, &QpScript::change_key};
    constexpr Command kApplicationCommands[] = {
        &QpScript::post_send,       &QpScript::post_recv,     &QpScript::progress_all,
        &QpScript::deliver_all,     &QpScript::deliver,       &QpScript::drop,
        &QpScript::pass_time,       &QpScript::poll,          &QpScript::change_state,
        &QpScript::change_key,      &QpScript::scribble_send, &QpScript::scribble_recv,
        &QpScript::lie_about_taken, &QpScript::publish_slot,  &QpScript::modify_to_garbage,
        &QpScript::progress};
    const bool wire = hostile_ == Hostile::kWire;
    for (int done = 0; done < kMostCommands && !input_.empty(); ++done) {
        const std::uint8_t choice = input_.byte();
        if (!wire && choice >= 0xe0) {
            post_miscounted();
        } else {
            (this->*(wire ? kWireCommands : kApplicationCommands)[choice % 16])();
        }
    }
    finish();
}

// Whatever came before, ERR ends every request.
void QpScript::finish() {
    for (const auto& host : hosts_) {
        host->poll();
        if (host->qp().state() != QpState::kReset) {
            modify_to(*host, QpState::kErr);
            host->progress_fully();
            host->check_all_flushed();
        }
    }
    for (auto& host : hosts_) {
        host.reset();
    }
    QpHost::check_nothing_held();
}

std::vector<abi::Sge> QpScript::pick_sges(const QpHost& host) {
    const std::uint8_t shape = input_.byte();
    std::vector<abi::Sge> list(shape % (QpHost::kMaxSge + 1));
    for (abi::Sge& sge : list) {
        const std::uint8_t where = input_.byte();
        const Region& region = host.region(where % QpHost::kRegions);
        sge.addr = region.iova + input_.number<std::uint16_t>() % (QpHost::kRegionBytes + 8);
        sge.length = (where & 0x40U) != 0 ? input_.byte() : input_.number<std::uint16_t>() % 12000U;
        sge.lkey = (where & 0x80U) != 0 ? kGarbageKey : region.key;
    }
    return list;
}

QpHost* QpScript::post_one_send() {
    QpHost& host = pick_host();
    abi::SendWqe wqe{};
    const std::size_t choices = hostile_ == Hostile::kWire ? 10 : kWrOpcodes.size();
    wqe.opcode = static_cast<std::uint8_t>(kWrOpcodes[input_.byte() % choices]);
    const std::uint8_t flags = input_.byte();
    wqe.flags = flags & 0x0fU;
    const Region& region = host.peer->region((flags >> 4U) % QpHost::kRegions);
    wqe.wr.atomic.remote_addr =
        region.iova + (input_.number<std::uint16_t>() & ((flags & 0x40U) != 0 ? 0xffffU : 0x7ff8U));
    wqe.wr.atomic.rkey = (flags & 0x80U) != 0 ? kGarbageKey : region.key;
    wqe.imm_or_rkey = input_.byte();
    wqe.wr.atomic.compare_add = input_.byte();
    wqe.wr.atomic.swap = input_.byte();
    if (host.type() == QpType::kUd) {
        const bool to_group = (flags & 0x10U) != 0;
        wqe.wr.ud.remote_qkey = (flags & 0x40U) != 0 ? kGarbageKey : kQkey;
        wqe.wr.ud.address_handle = (flags & 0x80U) != 0 ? kGarbageKey
                                   : to_group           ? host.group_handle()
                                                        : host.peer->address_handle();
        wqe.wr.ud.remote_qp_num = to_group ? wire::kMulticastQp : host.peer->qp().qp_num();
    }
    const std::vector<abi::Sge> list = pick_sges(host);
    const std::span<const std::byte> inline_data = (wqe.flags & kSendInline) != 0
                                                       ? input_.bytes(input_.below(QpHost::kMaxInline + 1))
                                                       : std::span<const std::byte>();
    if (!host.may_post_send()) {
        return nullptr;
    }
    host.post_send(wqe, list, inline_data);
    return &host;
}

QpHost* QpScript::post_one_recv() {
    QpHost& host = pick_host();
    const std::vector<abi::Sge> list = pick_sges(host);
    if (!host.may_post_recv()) {
        return nullptr;
    }
    host.post_recv(list);
    return &host;
}

void QpScript::poll() {
    for (const auto& host : hosts_) {
        host->poll();
    }
}

void QpScript::change_state() {
    QpHost& host = pick_host();
    switch (input_.byte() % 6) {
        case 0:
            modify_to(host, QpState::kSqd);
            break;
        case 1:
            modify_to(host, QpState::kRts);
            break;
        case 2:
            modify_to(host, QpState::kErr);
            break;
        case 3:
            modify_to(host, QpState::kReset);
            modify_to(host, QpState::kInit);
            break;
        case 4:
            modify_to(host, QpState::kRtr);
            break;
        default:
            for (const auto& each : hosts_) {
                modify_to(*each, QpState::kReset);
                each->sent.clear();
            }
            connect();
    }
}

void QpScript::change_key() {
    QpHost& host = pick_host();
    const std::uint8_t what = input_.byte();
    if ((what & 0x10U) != 0) {
        host.far_memory.gone = (what & 0x20U) != 0;
    } else if ((what & 0x20U) != 0) {
        host.publish(what % QpHost::kRegions);
    } else {
        host.unpublish(what % QpHost::kRegions);
    }
}

void QpScript::deliver() {
    QpHost& from = pick_host();
    const std::uint32_t place = input_.byte();
    if (!from.sent.empty()) {
        const auto at = from.sent.begin() + static_cast<std::ptrdiff_t>(place % from.sent.size());
        const std::vector<std::byte> frame = std::move(*at);
        from.sent.erase(at);
        peer_of(from).deliver(frame);
    }
}

void QpScript::deliver_all() {
    for (const auto& from : hosts_) {
        while (!from->sent.empty()) {
            const std::vector<std::byte> frame = std::move(from->sent.front());
            from->sent.pop_front();
            peer_of(*from).deliver(frame);
        }
    }
}

void QpScript::drop() {
    QpHost& from = pick_host();
    const std::uint32_t place = input_.byte();
    if (!from.sent.empty()) {
        from.sent.erase(from.sent.begin() + static_cast<std::ptrdiff_t>(place % from.sent.size()));
    }
}

void QpScript::duplicate() {
    QpHost& from = pick_host();
    const std::uint32_t place = input_.byte();
    if (!from.sent.empty()) {
        peer_of(from).deliver(from.sent[place % from.sent.size()]);
    }
}

// A packet on its way gets other bytes behind its Ethernet header.
void QpScript::change_packet() {
    QpHost& from = pick_host();
    const std::uint32_t place = input_.byte();
    const std::uint32_t offset = input_.byte();
    const std::span<const std::byte> bytes = input_.bytes(1 + input_.below(8));
    if (from.sent.empty()) {
        return;
    }
    std::vector<std::byte>& frame = from.sent[place % from.sent.size()];
    constexpr std::size_t kFirst = 14;
    for (std::size_t i = 0; i < bytes.size() && kFirst + offset + i < frame.size(); ++i) {
        frame[kFirst + offset + i] = bytes[i];
    }
    repair_ip_checksum(frame);
    repair_icrc(frame);
}

wire::PacketHeader QpScript::pick_header(const QpHost& to, std::uint32_t payload_bytes) {
    abi::QpAttr attr;
    to.qp().query(attr);
    const std::uint8_t kind = input_.byte();
    const std::uint8_t shape = input_.byte();
    wire::PacketHeader header;
    header.opcode = (kind & 0x80U) != 0
                        ? input_.byte()
                        : static_cast<std::uint8_t>(to.service() | (kind & wire::kOperationMask));
    const bool is_request = (wire::opcode_info(header.opcode).flags & wire::kIsRequest) != 0;
    const std::uint32_t base = is_request ? attr.rq_psn : attr.sq_psn - 1;
    const auto shift = static_cast<std::int8_t>(input_.byte());
    header.psn = (shape & 0x01U) != 0 ? Psn(input_.number<std::uint32_t>())
                                      : Psn(base + static_cast<std::uint32_t>(std::int32_t{shift}));
    header.ack_req = (shape & 0x02U) != 0;
    header.solicited = (shape & 0x04U) != 0;
    header.becn = (shape & 0x08U) != 0;
    header.pkey = (shape & 0x10U) != 0 ? input_.number<std::uint16_t>() : 0xffff;
    header.dest_qp = to.qp().qp_num();
    const Region& region = to.region(input_.byte() % QpHost::kRegions);
    header.reth.va = region.iova + static_cast<std::uint64_t>(std::int64_t{input_.number<std::int16_t>()});
    header.reth.rkey = (shape & 0x20U) != 0 ? kGarbageKey : region.key;
    header.reth.dma_length = (kind & 0x40U) != 0   ? input_.number<std::uint32_t>()
                             : (kind & 0x20U) != 0 ? input_.number<std::uint16_t>()
                                                   : payload_bytes;
    header.atomic = {header.reth.va, header.reth.rkey, input_.byte(), input_.byte()};
    header.aeth = {input_.byte(), input_.byte()};
    header.imm = 0x01020304;
    header.ieth_rkey = region.key;
    header.atomic_ack = 77;
    header.feth = header.aeth.msn;
    header.deth = {(shape & 0x40U) != 0 ? input_.number<std::uint32_t>() : kQkey, to.peer->qp().qp_num()};
    if (to.type() == QpType::kUd && (shape & 0x80U) != 0) {
        header.dest_qp = wire::kMulticastQp;
    }
    return header;
}

void QpScript::make_packet() {
    QpHost& to = pick_host();
    const std::uint8_t length = input_.byte();
    const std::uint32_t mtu_bytes = 128U << attr_.path_mtu;
    const std::uint32_t payload_bytes = length < 64    ? mtu_bytes
                                        : length < 128 ? 0
                                        : length < 192 ? length - 128U
                                                       : input_.number<std::uint16_t>() % 4200U;
    const wire::PacketHeader header = pick_header(to, payload_bytes);
    const bool has_payload = (wire::opcode_info(header.opcode).flags & wire::kHasPayload) != 0;
    std::vector<std::byte> payload(has_payload ? payload_bytes : 0, std::byte{0x5a});
    wire::PathSpec spec;
    spec.src_gid = to.peer->gid();
    spec.dst_gid = header.dest_qp == wire::kMulticastQp ? group() : to.gid();
    const MemoryPiece piece{payload.data(), nullptr, 0, static_cast<std::uint32_t>(payload.size())};
    std::vector<std::byte> frame(wire::kMaxFrameBytes);
    frame.resize(
        wire::build_frame(wire::make_path(spec), header, {&piece, payload.empty() ? 0U : 1U}, frame));
    to.deliver(frame);
}

void QpScript::progress() {
    QpHost& host = pick_host();
    const std::uint32_t max_packets = input_.byte() % 16U;
    const std::uint32_t room = input_.byte() % 16U;
    (void)host.progress(max_packets, room);
}

void QpScript::progress_all() {
    for (const auto& host : hosts_) {
        host->progress_fully();
    }
}

void QpScript::pass_time() {
    const std::uint8_t how = input_.byte();
    TimeNs next = clock_.time + (TimeNs{1} << (how % 34U));
    if ((how & 0x80U) != 0) {
        const TimeNs due = std::min(hosts_[0]->qp().deadline(), hosts_[1]->qp().deadline());
        next = due == kNever ? clock_.time : std::max(clock_.time, due);
    }
    clock_.time = next;
    for (const auto& host : hosts_) {
        host->handle_time();
    }
}

void QpScript::scribble_send() {
    QpHost& host = pick_host();
    const std::uint32_t offset = input_.number<std::uint16_t>();
    host.scribble_send_ring(offset, input_.bytes(input_.below(80)));
}

void QpScript::scribble_recv() {
    QpHost& host = pick_host();
    const std::uint32_t offset = input_.number<std::uint16_t>();
    host.scribble_recv_ring(offset, input_.bytes(input_.below(80)));
}

// A slot with whatever bytes are in it counts as posted.
void QpScript::publish_slot() {
    QpHost& host = pick_host();
    const auto index = input_.number<std::uint16_t>();
    const std::uint32_t seq = index + 1U;
    const bool recv = input_.flag();
    const std::size_t stride =
        recv ? abi::recv_stride(QpHost::kMaxSge) : abi::send_stride(QpHost::kMaxSge, QpHost::kMaxInline);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(&seq, 1));
    if (recv) {
        host.scribble_recv_ring(index % QpHost::kEntries * stride, bytes);
    } else {
        host.scribble_send_ring(index % QpHost::kEntries * stride, bytes);
    }
}

// A request that is right but for its counts, which are small where a limit is to be missed by one.
void QpScript::post_miscounted() {
    const bool recv = input_.flag();
    QpHost* const host = recv ? post_one_recv() : post_one_send();
    const std::uint8_t how = input_.byte();
    const std::uint32_t num_sge = (how & 0x80U) != 0 ? input_.number<std::uint32_t>() : how % 0x20U;
    const auto inline_bytes = input_.number<std::uint16_t>();
    if (host != nullptr) {
        host->miscount_newest(recv, num_sge, inline_bytes);
    }
}

void QpScript::lie_about_taken() {
    QpHost& host = pick_host();
    const bool recv = input_.flag();
    host.lie_about_taken(recv, input_.number<std::uint32_t>());
}

void QpScript::modify_to_garbage() {
    QpHost& host = pick_host();
    abi::QpAttr attr = attr_;
    // Mostly one field: garbage everywhere is refused at once.
    const std::uint8_t how = input_.byte();
    attr.mask = (how & 1U) != 0 ? input_.number<std::uint32_t>() : 1U << (how >> 1U) % 32U | kQpAttrState;
    attr.state = static_cast<QpState>(input_.byte() % 8U);
    const std::size_t offset = offsetof(abi::QpAttr, cur_state) + input_.byte();
    const std::span<const std::byte> bytes = input_.bytes(input_.below(16));
    for (std::size_t i = 0; i < bytes.size() && offset + i < sizeof attr; ++i) {
        reinterpret_cast<std::byte*>(&attr)[offset + i] = bytes[i];
    }
    (void)host.modify(attr);
}

}  // namespace urnic::fuzz
