#include "tests/sim/walk/endpoint.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace urnic::sim {

namespace {

std::span<std::uint64_t> words_of(const RingMemory& memory) {
    return {reinterpret_cast<std::uint64_t*>(memory.get()), Oracle::kWords};
}

}  // namespace

Endpoint* WalkShared::find(std::uint32_t qp_num) const {
    const auto found = std::find_if(endpoints.begin(), endpoints.end(), [qp_num](const Endpoint* each) {
        return each->qp() != nullptr && each->qp()->qp().qp_num() == qp_num;
    });
    return found == endpoints.end() ? nullptr : *found;
}

WalkDevice::WalkDevice(Network& network, const SimDevice::Options& options, std::uint64_t seed,
                       const WalkPlan& plan, std::span<std::byte> source_bytes)
    : device(network, options, seed), counter_memory(zeroed_memory(sizeof(std::uint64_t))) {
    for (std::uint32_t i = 0; i < plan.cqs_per_device; ++i) {
        cqs.emplace_back(plan.cq_entries);
    }
    source = device.register_memory(source_bytes.data(), source_bytes.size(), 0);
    counter_region = device.register_memory(counter_memory.get(), sizeof(std::uint64_t), kAllAccess);
    counter.word = reinterpret_cast<std::uint64_t*>(counter_memory.get());
}

Endpoint::Endpoint(WalkShared& shared, WalkDevice& home, std::uint32_t side, std::string name)
    : shared_(shared),
      home_(home),
      side_(side),
      name_(std::move(name)),
      send_cq_(&home.cqs[shared.random.below(home.cqs.size())]),
      recv_cq_(&home.cqs[shared.random.below(home.cqs.size())]),
      area_memory_(zeroed_memory(shared.plan.area_bytes)),
      words_memory_(zeroed_memory(Oracle::kWords * sizeof(std::uint64_t))),
      landing_memory_(zeroed_memory(shared.plan.landing_bytes)),
      receive_memory_(zeroed_memory(shared.plan.receive_bytes)),
      incoming_({{area_memory_.get(), shared.plan.area_bytes}, words_of(words_memory_), &home.counter}) {
    SimDevice& device = home.device;
    const auto add = [&](const RingMemory& memory, std::size_t size) {
        return device.register_memory(memory.get(), size, kAllAccess, !random().chance(250));
    };
    area_ = add(area_memory_, shared.plan.area_bytes);
    words_ = add(words_memory_, Oracle::kWords * sizeof(std::uint64_t));
    landing_ = add(landing_memory_, shared.plan.landing_bytes);
    window_key_ = device.add_window(window_);
    receive_region_ = add(receive_memory_, shared.plan.receive_bytes);
}

void Endpoint::set_peer(Endpoint& peer) {
    peer_ = &peer;
    maker_ = std::make_unique<OperationMaker>(
        shared_.plan, shared_.random,
        OperationMaker::Places{&home_.source, landing_, peer.area_, peer.words_, peer.home_.counter_region,
                               window_key_});
}

void Endpoint::fail(const std::string& what) {
    if (shared_.failure.empty()) {
        shared_.failure = name_ + " at " + std::to_string(shared_.network.now()) + " ns: " + what;
        note("FAILED: " + what);
    }
}

void Endpoint::note(const std::string& what) {
    if (shared_.network.log != nullptr) {
        shared_.network.log->note(shared_.network.now(), name_ + " " + what);
    }
}

// --- The QP's states -------------------------------------------------------------------------------------

void Endpoint::prepare() {
    is_broken_ = false;
    moved_to_error_ = false;
    receive_failed_ = false;
    lost_completion_ = false;
    close_step_ = 0;
    register_again();
    if (qp_ != nullptr) {
        return;
    }
    SimHost::Options options;
    options.send_entries = 2U << random().below(6);
    options.recv_entries = 64;
    options.max_sge = OperationMaker::kMaxSge;
    options.max_inline = OperationMaker::kMaxInlineBytes;
    options.sq_sig_all = sq_sig_all_ = random().chance(150);
    options.send_cq = send_cq_;
    options.recv_cq = recv_cq_;
    qp_ = &home_.device.create_qp(options);
}

void Endpoint::modify(const abi::QpAttr& attr, const SimDevice* peer) {
    const int error = home_.device.modify(*qp_, attr, peer);
    if (error != 0) {
        fail("modify_qp to state " + std::to_string(static_cast<int>(attr.state)) + " failed with errno " +
             std::to_string(error));
    }
}

void Endpoint::to_state(QpState next) {
    note("to state " + std::to_string(static_cast<int>(next)));
    abi::QpAttr attr{};
    attr.mask = kQpAttrState;
    attr.state = next;
    modify(attr);
}

void Endpoint::to_init() {
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
    attr.state = QpState::kInit;
    attr.port_num = 1;
    attr.access_flags = kAllAccess;
    modify(attr);
}

void Endpoint::to_rtr() {
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
    attr.state = QpState::kRtr;
    attr.path_mtu = options_.path_mtu;
    attr.dest_qp_num = peer_qp_num_ = peer_->qp_->qp().qp_num();
    attr.rq_psn = options_.psn[1 - side_];
    attr.max_dest_rd_atomic = options_.max_rd_atomic[1 - side_];
    attr.min_rnr_timer = options_.min_rnr_timer;
    modify(attr, &peer_->home_.device);
}

void Endpoint::to_rts() {
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrSqPsn |
                kQpAttrMaxQpRdAtomic;
    attr.state = QpState::kRts;
    attr.timeout = options_.timeout;
    attr.retry_cnt = options_.retry_cnt;
    attr.rnr_retry = options_.rnr_retry;
    attr.sq_psn = options_.psn[side_];
    attr.max_rd_atomic = options_.max_rd_atomic[side_];
    modify(attr);
}

void Endpoint::open(const ConnectionOptions& options) {
    options_ = options;
    note("opens QP " + std::to_string(qp_->qp().qp_num()));
    constexpr std::array<std::uint32_t, 4> kLaziness = {0, 300, 800, 950};
    laziness_per_mille_ = kLaziness[random().below(kLaziness.size())];
    last_progress_ = shared_.network.now();
    begin_patience();
    to_init();
    if (random().chance(500)) {
        post_receives();
    }
    to_rtr();
    if (options_.rts_at[side_] <= shared_.network.now()) {
        to_rts();
    }
}

// --- One moment ------------------------------------------------------------------------------------------

bool Endpoint::act() {
    did_something_ = false;
    if (random().chance(800) || send_room() == 0) {
        poll();
    }
    if (is_broken_) {
        return true;
    }
    if (state() == QpState::kRtr && options_.rts_at[side_] <= shared_.network.now()) {
        to_rts();
    }
    if (!random().chance(laziness_per_mille_)) {
        post_receives();
    }
    stop_and_go();
    post_sends();
    make_trouble();
    check_progress();
    return did_something_;
}

void Endpoint::poll() {
    for (CompletionRing* cq : {send_cq_, recv_cq_}) {
        while (const abi::Cqe* cqe = cq->poll()) {
            did_something_ = true;
            Endpoint* owner = shared_.find(cqe->qp_num);
            if (owner == nullptr) {
                fail("a completion of QP " + std::to_string(cqe->qp_num) + ", which does not exist");
                return;
            }
            owner->polled(*cqe);
        }
    }
}

// What is polled is what was made, in that order.
void Endpoint::polled(const abi::Cqe& cqe) {
    std::deque<Pushed>& pushed = pushed_[cqe.is_recv];
    if (pushed.empty() || pushed.front().wr_id != cqe.wr_id || pushed.front().wqe_index != cqe.wqe_index ||
        static_cast<std::uint8_t>(pushed.front().status) != cqe.status) {
        fail("polled a completion of " + std::to_string(cqe.wr_id) + " that was not made");
        return;
    }
    pushed.pop_front();
    if (cqe.is_recv != 0) {
        ++recv_done_;
    } else {
        send_done_ = cqe.wqe_index + 1;
    }
}

void Endpoint::post_receives() {
    const std::uint32_t most = options_.receive_entries[side_];
    const std::uint64_t count = random().between(1, most);
    for (std::uint64_t i = 0; i < count && qp_->recv_ring().posted() - recv_done_ < most; ++i) {
        post_receive();
    }
}

// The slot of a receive, cut into pieces that follow each other in another order.
void Endpoint::post_receive() {
    const std::uint32_t bytes = options_.receive_bytes[side_];
    const std::size_t slot = std::size_t{qp_->recv_ring().posted() % options_.receive_entries[side_]} * bytes;
    PostedReceive& receive = receives_.emplace_back();
    receive.wr_id = next_receive_id_++;
    const auto cut = static_cast<std::uint32_t>(random().chance(600) ? 0 : random().below(bytes + 1ULL));
    const std::array<std::pair<std::size_t, std::uint32_t>, 2> parts = {
        {{slot + cut, bytes - cut}, {slot, cut}}};
    std::array<abi::Sge, kMaxReceivePieces> sge{};
    for (const auto& [offset, length] : parts) {
        if (length != 0) {
            sge[receive.num_pieces] = receive_region_.sge(offset, length);
            receive.pieces[receive.num_pieces++] = {receive_region_.data() + offset, length};
        }
    }
    qp_->recv_ring().post(receive.wr_id, {sge.data(), receive.num_pieces});
    did_something_ = true;
}

void Endpoint::post_sends() {
    if ((state() != QpState::kRts && state() != QpState::kSqd) || revoked_ == Revoked::kLanding) {
        return;
    }
    const std::uint32_t before = qp_->send_ring().posted();
    for (std::uint64_t count = random().below(shared_.plan.most_posts + 1); count != 0; --count) {
        if (shared_.messages_left == 0 || send_room() == 0 || !outgoing().has_room()) {
            break;
        }
        --shared_.messages_left;
        post_send(false);
    }
    const Operation* newest = outgoing().newest();
    if (shared_.messages_left == 0 && newest != nullptr && !newest->signaled && send_room() != 0) {
        post_send(true);
    }
    if (qp_->send_ring().posted() != before) {
        did_something_ = true;
        home_.device.ring(*qp_);
    }
}

void Endpoint::post_send(bool is_last) {
    Operation& operation = outgoing().next();
    SendRequest request;
    if (is_last) {
        OperationMaker::make_last(operation, request);
    } else {
        const OperationMaker::Limits limits = {
            mtu_bytes(options_.path_mtu), options_.receive_bytes[1 - side_],
            options_.max_rd_atomic[side_] != 0, shared_.plan.poison_per_10000};
        maker_->make(outgoing(), limits, operation, request);
        peer_->spoil_revoked(operation);
    }
    // The slots of a send queue come free with completions alone: the last free one asks for it.
    const bool asks = is_last || send_room() == 1 || random().chance(500);
    operation.flags |= asks ? kSendSignaled : 0;
    operation.signaled = asks || sq_sig_all_;
    operation.wqe_index = qp_->send_ring().posted();
    request.flags = operation.flags;
    if (outgoing().drained()) {
        last_progress_ = shared_.network.now();
        begin_patience();
    }
    if (shared_.network.log != nullptr) {
        note("posts " + std::to_string(operation.number) + " opcode " +
             std::to_string(static_cast<int>(request.opcode)) + " flags " + std::to_string(request.flags) +
             " length " + std::to_string(operation.length) + " offset " + std::to_string(operation.offset) +
             " poison " + std::to_string(static_cast<int>(operation.poison)));
    }
    qp_->post_send(request);
    outgoing().post();
}

// SQD and back (IBA 10.3.1.5), drained or not.
void Endpoint::stop_and_go() {
    if (state() == QpState::kSqd) {
        if (random().chance(200)) {
            to_state(QpState::kRts);
        }
    } else if (state() == QpState::kRts && random().chance(shared_.plan.sqd_per_1000)) {
        to_state(QpState::kSqd);
    }
}

// In virtual time nothing may stand still: far beyond every timer something is stuck. A long message is not,
// while the peer takes packet after packet of it.
void Endpoint::check_progress() {
    constexpr TimeNs kSecond = 1'000'000'000;
    const TimeNs now = shared_.network.now();
    const TimeNs timeout = TimeNs{4'096} << options_.timeout;
    // In a storm a READ of 4,096 packets comes ten packets at a time.
    const TimeNs most = shared_.plan.retries_suffice() ? kSecond + timeout * 64 : 60 * kSecond;
    if (outgoing().drained() || is_broken_ || now - last_progress_ < most) {
        return;
    }
    abi::QpAttr attr{};
    if (peer_->qp_ != nullptr) {
        peer_->qp_->qp().query(attr);
    }
    if (attr.rq_psn != peer_rq_psn_) {
        peer_rq_psn_ = attr.rq_psn;
        last_progress_ = now;
        return;
    }
    fail("no progress for " + std::to_string((now - last_progress_) / 1'000'000) + " ms with " +
         std::to_string(outgoing().outstanding()) + " operations outstanding");
}

// --- Completions -----------------------------------------------------------------------------------------

bool Endpoint::answers() const {
    return qp_ != nullptr &&
           (state() == QpState::kRtr || state() == QpState::kRts || state() == QpState::kSqd);
}

AllowedErrors Endpoint::allowed_errors() const {
    AllowedErrors allowed;
    allowed.retry_exceeded = !shared_.plan.retries_suffice() || !peer_->answers();
    allowed.rnr_retry_exceeded = options_.rnr_retry != 7;
    allowed.flush = moved_to_error_ || lost_completion_ || incoming_.has_poison();
    allowed.remote_access = peer_->revoked_ == Revoked::kArea;
    allowed.remote_operational = peer_->revoked_ == Revoked::kReceives;
    allowed.local_protection = revoked_ == Revoked::kLanding;
    return allowed;
}

void Endpoint::completed(const Completion& completion, bool is_lost) {
    const bool has_lost = lost_completion_;
    if (is_lost) {
        lost(completion);
    } else {
        pushed_[completion.is_recv ? 1 : 0].push_back(
            {completion.wr_id, completion.wqe_index, completion.status});
    }
    if (shared_.network.log != nullptr) {
        note(std::string(completion.is_recv ? "receive " : "send ") + std::to_string(completion.wr_id) +
             " completes with status " + std::to_string(static_cast<int>(completion.status)));
    }
    const bool is_success = completion.status == WcStatus::kSuccess;
    if (is_success && has_lost) {
        fail("continues though a completion was lost");
    }
    if (completion.is_recv) {
        completed_receive(completion);
        if (!incoming_.failure().empty()) {
            fail("of the peer " + incoming_.failure());
        }
    } else {
        check_patience(completion.status);
        outgoing().sent(completion, allowed_errors());
        if (!outgoing().failure().empty()) {
            fail(outgoing().failure());
        }
        if (is_success) {
            last_progress_ = shared_.network.now();
            begin_patience();
        }
    }
    is_broken_ |= !is_success || is_lost;
}

void Endpoint::completed_receive(const Completion& completion) {
    if (receives_.empty() || receives_.front().wr_id != completion.wr_id) {
        fail("receive " + std::to_string(completion.wr_id) + " completed out of order or twice");
        return;
    }
    const PostedReceive receive = receives_.front();
    receives_.pop_front();
    switch (completion.status) {
        case WcStatus::kSuccess:
            if (completion.src_qp != peer_qp_num_) {
                fail("receive " + std::to_string(completion.wr_id) + " names another QP as its source");
            }
            incoming_.received(completion, {receive.pieces.data(), receive.num_pieces});
            return;
        case WcStatus::kWrFlushErr:
            if (is_broken_ || moved_to_error_ || outgoing().failed() || incoming_.has_poison()) {
                return;
            }
            break;
        case WcStatus::kLocProtErr:
            if (revoked_ != Revoked::kReceives) {
                break;
            }
            [[fallthrough]];
        case WcStatus::kLocLenErr:
        case WcStatus::kLocAccessErr:
        case WcStatus::kRemInvReqErr:
            // Once: the QP goes to ERR with it.
            if (!receive_failed_ && !moved_to_error_ && incoming_.has_poison()) {
                receive_failed_ = true;
                return;
            }
            break;
        default:
            break;
    }
    fail("receive " + std::to_string(completion.wr_id) + " failed with status " +
         std::to_string(static_cast<int>(completion.status)));
}

void Endpoint::raised(AsyncEventType type) {
    note("event " + std::to_string(static_cast<int>(type)));
    if (type == AsyncEventType::kCommEst || type == AsyncEventType::kSqDrained) {
        return;
    }
    if (!incoming_.has_poison() && !(lost_completion_ && type == AsyncEventType::kQpFatal)) {
        fail("event " + std::to_string(static_cast<int>(type)));
    }
    is_broken_ = true;
}

}  // namespace urnic::sim
