#include "tests/fuzz/qp_host.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "rnic/wire/multicast.h"
#include "tests/sim/local_form.h"

namespace urnic::fuzz {

namespace {

constexpr std::uint32_t kPd = 1;
constexpr std::uint32_t kMtuShiftOfCode1 = 8;

void scribble(std::span<std::byte> ring, std::size_t offset, std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
        ring[offset++ % ring.size()] = byte;
    }
}

// Where packets are held. One for all hosts: it is large, and whatever stays behind in it is seen.
struct Held {
    sim::CopiedFrames frames;
    ReorderBufferPool pool{frames, kTables};
    static constexpr std::uint32_t kTables = 3;  // of four that two hosts may want: sometimes there is none
};
Held& held() {
    static Held instance;
    return instance;
}

bool is_nak(const wire::PacketHeader& header) {
    const bool has_aeth = (wire::opcode_info(header.opcode).headers & wire::kHasAeth) != 0;
    return has_aeth && (header.aeth.syndrome & wire::kSyndromeKindMask) != wire::kSyndromeAck;
}

bool is_acknowledge(const wire::PacketHeader& header) {
    return (header.opcode & wire::kOperationMask) == wire::kAcknowledge;
}

wire::PathSpec path_between(const wire::Gid& from, const wire::Gid& to) {
    wire::PathSpec spec;
    spec.src_mac = {2, 0, 0, 0, 0, from[15]};
    spec.src_gid = from;
    spec.dst_gid = to;
    return spec;
}

}  // namespace

AddressHandles& address_handles() {
    static AddressHandles handles;
    return handles;
}

wire::Gid group() { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}; }

KeyTable& key_table() {
    static KeyTable table;
    return table;
}

wire::Gid gid_of(std::uint32_t qp_num) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, static_cast<std::uint8_t>(qp_num)};
}

QpHost::QpHost(sim::SimClock& clock, const Options& options)
    : SimHost(clock, {}, options.qp_num,
              {.send_entries = kEntries,
               .recv_entries = kEntries,
               .cq_entries = kCqEntries,
               .max_sge = kMaxSge,
               .max_inline = kMaxInline,
               .sq_sig_all = options.sq_sig_all,
               .type = options.type,
               .keys = &key_table(),
               .handles = &address_handles(),
               .reorder_buffers = options.holds_early_packets ? &held().pool : nullptr,
               .path = path_between(gid_of(options.qp_num), gid_of(options.qp_num ^ 1U))}),
      is_hostile_(options.hostile_application) {
    for (std::size_t i = 0; i < regions_.size(); ++i) {
        regions_[i].bytes.assign(kRegionBytes, static_cast<std::byte>(options.qp_num));
        regions_[i].direct = i != 1;
        // An address that is not the memory's own, so that nobody takes the one for the other.
        regions_[i].iova = 0x10'0000'0000ULL * (i + 1) + 0x1000ULL * options.qp_num;
        publish(i);
    }
    const wire::Gid peer_gid = gid_of(options.qp_num ^ 1U);
    address_handle_ =
        address_handles().add({.pd = kPd, .path = wire::make_path(path_between(peer_gid, gid()))});
    group_handle_ = address_handles().add({.pd = kPd, .path = wire::make_path(path_between(gid(), group()))});
}

wire::Service QpHost::service() const {
    return type() == QpType::kUc   ? wire::kServiceUc
           : type() == QpType::kUd ? wire::kServiceUd
                                   : wire::kServiceRc;
}

QpHost::~QpHost() {
    for (std::size_t i = 0; i < regions_.size(); ++i) {
        unpublish(i);
    }
    for (const std::uint32_t key : {address_handle_, group_handle_}) {
        URNIC_CHECK(address_handles().remove(key));
    }
    address_handles().release_removed();
}

void QpHost::publish(std::size_t index) {
    Region& region = regions_[index];
    if (region.published) {
        return;
    }
    MemoryRegion entry;
    entry.iova = region.iova;
    entry.length_bytes = region.bytes.size();
    entry.va = reinterpret_cast<std::uintptr_t>(region.bytes.data());
    entry.direct = region.direct ? region.bytes.data() : nullptr;
    entry.space = region.direct ? nullptr : &far_memory;
    entry.pd = kPd;
    entry.access = index == 2 ? std::uint32_t{kAccessRemoteRead}
                              : kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead |
                                    kAccessRemoteAtomic | kAccessFlushGlobal | kAccessFlushPersistent;
    // One bit of the key says whose it is: a key that is gone never becomes one of the peer's.
    region.key = key_table().add(
        entry, qp().qp_num() * 0x100U + ((qp().qp_num() & 1U) << 7U) + (publications_++ & 0x7fU));
    region.published = region.key != 0;
    URNIC_CHECK(region.published);
}

void QpHost::unpublish(std::size_t index) {
    Region& region = regions_[index];
    if (region.published) {
        URNIC_CHECK(key_table().remove(region.key));
        key_table().release(region.key);
        region.published = false;
    }
}

bool QpHost::transmit(const wire::Path& path, const wire::PacketHeader& header,
                      std::span<const MemoryPiece> pieces) {
    check_sent(header, pieces);
    std::vector<std::byte> frame(wire::kMaxFrameBytes);
    frame.resize(wire::build_frame(path, header, pieces, frame));
    if (frame.empty()) {
        URNIC_CHECK(far_memory.gone);
        return false;
    }
    sim::check_local_form(path, header, pieces, frame);
    --room_;
    const bool is_request = (wire::opcode_info(header.opcode).flags & wire::kIsRequest) != 0;
    if (!is_request) {
        --(is_acknowledge(header) && notices_owed_ != 0 ? notices_owed_ : answers_owed_);
    }
    if (sent.size() < kMaxFrames) {
        sent.push_back(std::move(frame));
    }
    return true;
}

// What may leave the QP in its state, and where the payload may come from.
void QpHost::check_sent(const wire::PacketHeader& header, std::span<const MemoryPiece> pieces) {
    URNIC_CHECK(room_ != 0);
    abi::QpAttr attr;
    qp().query(attr);
    const wire::OpcodeInfo& info = wire::opcode_info(header.opcode);
    const QpState state = qp().state();
    const bool is_request = (info.flags & wire::kIsRequest) != 0;
    const bool is_datagram = type() == QpType::kUd;
    URNIC_CHECK((info.flags & wire::kValid) != 0 && (header.opcode & wire::kServiceMask) == service());
    URNIC_CHECK((is_datagram || header.dest_qp == attr.dest_qp_num) && header.pkey == 0xffff);
    URNIC_CHECK(!is_datagram || header.deth.src_qp == qp().qp_num());
    URNIC_CHECK(state == QpState::kRts || state == QpState::kSqd ||
                (!is_request && (state == QpState::kRtr || state == QpState::kErr)));
    std::size_t payload_bytes = 0;
    for (const MemoryPiece& piece : pieces) {
        check_piece(piece);
        payload_bytes += piece.length_bytes;
    }
    const std::size_t mtu_bytes =
        is_datagram ? qp().config().port_mtu_bytes : std::size_t{1} << (kMtuShiftOfCode1 - 1 + attr.path_mtu);
    const bool ends = (info.flags & wire::kEnds) != 0;
    URNIC_CHECK(payload_bytes == 0 || (info.flags & wire::kHasPayload) != 0);
    URNIC_CHECK((info.flags & wire::kHasPayload) == 0 || ends ? payload_bytes <= mtu_bytes
                                                              : payload_bytes == mtu_bytes);
    if (!is_request) {
        check_answer(header, attr);
    }
}

void QpHost::check_answer(const wire::PacketHeader& header, const abi::QpAttr& attr) {
    URNIC_CHECK(type() == QpType::kRc);
    // No answer that no request asked for, and none about what has not come (IBA 9.7.5.1).
    URNIC_CHECK(answers_owed_ != 0 || (is_acknowledge(header) && notices_owed_ != 0));
    if (qp().state() != QpState::kErr) {
        URNIC_CHECK(header.psn.distance(Psn(attr.rq_psn)) < (is_nak(header) ? 1 : 0));
    }
}

void QpHost::check_piece(const MemoryPiece& piece) const {
    const auto begin = piece.direct != nullptr ? reinterpret_cast<std::uintptr_t>(piece.direct) : piece.va;
    const auto lies_in = [&](const void* memory, std::size_t bytes) {
        const auto first = reinterpret_cast<std::uintptr_t>(memory);
        return begin >= first && begin - first <= bytes && piece.length_bytes <= bytes - (begin - first);
    };
    const bool in_region = std::any_of(regions_.begin(), regions_.end(), [&](const Region& region) {
        return region.published && lies_in(region.bytes.data(), region.bytes.size());
    });
    URNIC_CHECK(in_region || lies_in(send_ring().bytes().data(), send_ring().bytes().size()));
}

bool QpHost::complete(CompletionQueue& cq, const Completion& completion) {
    const bool pushed = cq.push(0, completion, 0);
    // As many entries as could be outstanding: an honest application's CQ never runs over.
    URNIC_CHECK(pushed || is_hostile_);
    return pushed;
}

void QpHost::deliver(std::span<const std::byte> frame) {
    // A copy of its own size: one byte too far is seen.
    const std::vector<std::byte> bytes(frame.begin(), frame.end());
    wire::PacketView view;
    if (wire::parse_frame(bytes, view) != wire::ParseError::kNone || !wire::icrc_ok(view) ||
        !(view.header.dest_qp == qp().qp_num() ||
          (view.header.dest_qp == wire::kMulticastQp && type() == QpType::kUd))) {
        return;
    }
    const wire::OpcodeInfo& info = wire::opcode_info(view.header.opcode);
    // A reserved opcode is refused as a request.
    if ((info.flags & wire::kIsRequest) != 0 || (info.flags & wire::kValid) == 0) {
        abi::QpAttr attr;
        qp().query(attr);
        const std::uint32_t shift = kMtuShiftOfCode1 - 1 + attr.path_mtu;
        answers_owed_ += (info.flags & wire::kIsRead) != 0 ? (view.header.reth.dma_length >> shift) + 1U : 1U;
        ++notices_owed_;
    }
    SimHost::deliver(view);
}

bool QpHost::progress(std::uint32_t max_packets, std::uint32_t room) {
    room_ = room;
    const bool more = qp().progress(now(), max_packets, *this);
    room_ = 0;
    return more;
}

void QpHost::progress_fully() {
    constexpr int kRounds = 10'000;
    int rounds = 0;
    while (progress(64, 1024)) {
        URNIC_CHECK(++rounds < kRounds);
    }
}

void QpHost::handle_time() {
    if (qp().deadline() <= now()) {
        qp().handle_timeout(now(), *this);
        (void)progress(64, 1024);
        // The next time-out lies ahead: a worker that waits for it does not spin.
        URNIC_CHECK(qp().deadline() > now());
    }
}

int QpHost::modify(const abi::QpAttr& attr) {
    const QpState before = qp().state();
    const int error = qp().modify(now(), attr, wire::make_path(*options().path), *this);
    URNIC_CHECK(error != 0 ? qp().state() == before
                           : (attr.mask & kQpAttrState) == 0 || qp().state() == attr.state);
    if (error == 0 && qp().state() == QpState::kReset) {
        forget_all();
    }
    return error;
}

// After RESET nothing of before comes any more; what lies in the CQ is polled and looked at still.
void QpHost::forget_all() {
    poll();
    sends_ = {};
    recvs_ = {};
    send_ring().restart();
    recv_ring().restart();
    answers_owed_ = notices_owed_ = 0;
}

bool QpHost::may_post_send() const {
    const QpState state = qp().state();
    return (state == QpState::kRts || state == QpState::kSqd || state == QpState::kSqe ||
            state == QpState::kErr) &&
           send_ring().posted() - sends_.completed < kEntries;
}

bool QpHost::may_post_recv() const {
    return qp().state() != QpState::kReset && recv_ring().posted() - recvs_.completed < kEntries;
}

void QpHost::post_send(abi::SendWqe& fields, std::span<const abi::Sge> sge,
                       std::span<const std::byte> inline_data) {
    fields.wr_id = send_ring().posted();
    sends_.signaled.push_back(options().sq_sig_all || (fields.flags & kSendSignaled) != 0);
    send_ring().post(fields, sge, inline_data);
    note_posted(send_ring(), sends_);
}

void QpHost::post_recv(std::span<const abi::Sge> sge) {
    recv_ring().post(recv_ring().posted(), sge);
    note_posted(recv_ring(), recvs_);
}

void QpHost::poll() {
    poll_queue(false);
    poll_queue(true);
}

void QpHost::poll_queue(bool recv) {
    sim::CompletionRing& ring = cq(recv);
    Bookkeeping& bookkeeping = recv ? recvs_ : sends_;
    while (const abi::Cqe* const next = ring.poll()) {
        const abi::Cqe& cqe = *next;
        URNIC_CHECK(cqe.is_recv == (recv ? 1 : 0) && cqe.qp_num == qp().qp_num());
        // No WQE completes twice, and none before one that was posted earlier (IBA 10.8.3.1).
        URNIC_CHECK(static_cast<std::int32_t>(cqe.wqe_index - bookkeeping.completed) >= 0);
        if (!is_hostile_) {
            check_completion(recv, bookkeeping, cqe);
        }
        URNIC_CHECK(cqe.status != static_cast<std::uint8_t>(WcStatus::kSuccess) ||
                    bookkeeping.too_many_sges.count(cqe.wqe_index) == 0);
        bookkeeping.completed = cqe.wqe_index + 1;
    }
    ring.publish_taken(ring.taken());  // after a lie about it
}

void QpHost::check_completion(bool recv, Bookkeeping& bookkeeping, const abi::Cqe& cqe) const {
    const std::uint32_t posted = recv ? recv_ring().posted() : send_ring().posted();
    URNIC_CHECK(static_cast<std::int32_t>(cqe.wqe_index - posted) < 0 && cqe.wr_id == cqe.wqe_index);
    if (recv) {
        URNIC_CHECK(cqe.wqe_index == bookkeeping.completed);
        return;
    }
    // Only unsignaled requests that succeeded say nothing.
    URNIC_CHECK(cqe.status != static_cast<std::uint8_t>(WcStatus::kSuccess) ||
                bookkeeping.signaled[cqe.wqe_index]);
    for (std::uint32_t index = bookkeeping.completed; index != cqe.wqe_index; ++index) {
        URNIC_CHECK(!bookkeeping.signaled[index]);
    }
}

void QpHost::check_all_flushed() {
    URNIC_CHECK(qp().state() == QpState::kErr);
    poll();
    if (is_hostile_) {
        return;
    }
    // Unsignaled requests that succeeded may be the last ones; what is posted now is flushed whatever it asks
    // for.
    for (std::uint32_t index = sends_.completed; index != send_ring().posted(); ++index) {
        URNIC_CHECK(!sends_.signaled[index]);
    }
    if (may_post_send()) {
        abi::SendWqe any{};
        post_send(any, {}, {});
        progress_fully();
        poll();
        URNIC_CHECK(sends_.completed == send_ring().posted());
    }
    URNIC_CHECK(recvs_.completed == recv_ring().posted());
}

void QpHost::check_nothing_held() {
    URNIC_CHECK(held().frames.size() == 0 && held().pool.free_tables() == Held::kTables);
}

void QpHost::scribble_send_ring(std::size_t offset, std::span<const std::byte> bytes) {
    sends_.too_many_sges.clear();  // whatever they are now
    scribble(send_ring().bytes(), offset, bytes);
    note_valid(send_ring(), sends_);
}

void QpHost::scribble_recv_ring(std::size_t offset, std::span<const std::byte> bytes) {
    recvs_.too_many_sges.clear();
    scribble(recv_ring().bytes(), offset, bytes);
    note_valid(recv_ring(), recvs_);
}

void QpHost::miscount_newest(bool recv, std::uint32_t num_sge, std::uint32_t inline_bytes) {
    Bookkeeping& bookkeeping = recv ? recvs_ : sends_;
    const std::uint32_t index = (recv ? recv_ring().posted() : send_ring().posted()) - 1;
    bool has_sges = true;
    if (recv) {
        recv_ring().slot(index).num_sge = num_sge;
    } else {
        abi::SendWqe& wqe = send_ring().slot(index);
        wqe.num_sge = static_cast<std::uint8_t>(num_sge);
        wqe.inline_length = inline_bytes;
        num_sge = wqe.num_sge;
        has_sges = (wqe.flags & kSendInline) == 0;
    }
    if (has_sges && num_sge > kMaxSge && !bookkeeping.newest_was_valid) {
        bookkeeping.too_many_sges.insert(index);
    }
}

void QpHost::lie_about_taken(bool recv, std::uint32_t index) { cq(recv).publish_taken(index); }

}  // namespace urnic::fuzz
