#include "ulp/ipoib/verbs/rc_endpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "ulp/ipoib/tap/setup_error.h"
#include "ulp/ipoib/verbs/cq_events.h"

namespace urnic::ipoib {

namespace {

/// A WR ID with this bit is a receive's slot; else | generation 32 | slot 31 |.
constexpr std::uint64_t kReceiveBit = 1ULL << 63U;
/// 4.096 us * 2^12 = 17 ms, seven times: a peer that has ended is noticed within a quarter of a second.
constexpr std::uint8_t kAckTimeout = 12;
constexpr std::uint8_t kRetryCount = 7;
/// For ever: a peer whose receives are all in use is slow, not dead.
constexpr std::uint8_t kRnrRetry = 7;
/// 0.06 ms (IBA table 45).
constexpr std::uint8_t kMinRnrTimer = 5;
/// A QP in error ends when the device says that it has no receive of the shared queue any more (IBA 11.6.3,
/// "last WQE reached"), or after this.
constexpr std::uint64_t kRetireMs = 1000;

}  // namespace

RcEndpoint::RcEndpoint(const UdEndpoint& ud, std::uint16_t pkey_index, std::uint32_t depth)
    : ud_(ud), pkey_index_(pkey_index), depth_(depth) {
    path_mtu_ = static_cast<std::uint8_t>(ud.port().query().active_mtu);
    create_queues();
    release_receives();
    arm();
}

RcEndpoint::~RcEndpoint() = default;

void RcEndpoint::create_queues() {
    channel_.reset(ibv_create_comp_channel(ud_.port().context()));
    if (channel_ == nullptr) {
        throw errno_error("cannot make a completion channel on " + ud_.port().device_name(), "");
    }
    fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    // SENDs and receives, and again as many of QPs that end.
    cq_.reset(ibv_create_cq(ud_.port().context(), static_cast<int>(4 * depth_), nullptr, channel_.get(), 0));
    ibv_srq_init_attr attr{};
    attr.attr.max_wr = depth_;
    attr.attr.max_sge = 1;
    srq_.reset(cq_ == nullptr ? nullptr : ibv_create_srq(ud_.pd(), &attr));
    if (srq_ == nullptr) {
        throw errno_error("cannot make a CQ and a shared receive queue of " + std::to_string(depth_) +
                              " on " + ud_.port().device_name(),
                          "connected mode needs both: try a smaller --connected-depth, or --mode datagram");
    }
    memory_.resize(kSlotOctets * 2 * depth_);
    mr_.reset(ibv_reg_mr(ud_.pd(), memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE));
    if (mr_ == nullptr) {
        throw errno_error("cannot register " + std::to_string(memory_.size()) + " octets",
                          "see ulimit -l, or use a smaller --connected-depth");
    }
    slots_.resize(depth_);
    for (std::uint32_t slot = 0; slot < depth_; ++slot) {
        receive_sges_.push_back({reinterpret_cast<std::uint64_t>(slot_memory(slot)),
                                 static_cast<std::uint32_t>(kConnectedMtu + kEncapsulationOctets),
                                 mr_->lkey});
        taken_.push_back(slot);
        free_.push_back(depth_ - 1 - slot);
    }
    for (std::uint32_t slot = 0; slot < depth_; ++slot) {
        receives_.push_back({kReceiveBit | slot, nullptr, &receive_sges_[slot], 1});
    }
}

// --- QPs

std::uint32_t RcEndpoint::create_qp() {
    ibv_qp_init_attr init{};
    init.send_cq = cq_.get();
    init.recv_cq = cq_.get();
    init.srq = srq_.get();
    init.cap.max_send_wr = depth_;
    init.cap.max_send_sge = 1;
    init.qp_type = IBV_QPT_RC;
    Qp made;
    made.qp.reset(ibv_create_qp(ud_.pd(), &init));
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.pkey_index = pkey_index_;
    attr.port_num = ud_.port().number();
    if (made.qp == nullptr ||
        ibv_modify_qp(made.qp.get(), &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
        return 0;
    }
    const std::uint32_t qpn = made.qp->qp_num;
    qps_[qpn] = std::move(made);
    return qpn;
}

bool RcEndpoint::connect_qp(std::uint32_t qpn, const RemoteQp& remote) {
    ibv_qp* qp = qps_.at(qpn).qp.get();
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = static_cast<ibv_mtu>(remote.path_mtu);
    attr.dest_qp_num = remote.qpn;
    attr.rq_psn = remote.psn;
    attr.min_rnr_timer = kMinRnrTimer;
    // The link takes no message from where it has no way to.
    if (ud_.addressing().find(remote.gid, attr.ah_attr) != Progress::kDone) {
        return false;
    }
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
        return false;
    }
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = kAckTimeout;
    attr.retry_cnt = kRetryCount;
    attr.rnr_retry = kRnrRetry;
    attr.sq_psn = remote.own_psn;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

void RcEndpoint::destroy_qp(std::uint32_t qpn) {
    Qp& qp = qps_.at(qpn);
    // What the device does with it ends first: its SENDs are flushed, and a receive that it has comes back.
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    if (ibv_modify_qp(qp.qp.get(), &attr, IBV_QP_STATE) != 0) {
        end(qpn);
        return;
    }
    qp.is_retired = true;
    qp.end_ms = now_ms_ + kRetireMs;
}

void RcEndpoint::end(std::uint32_t qpn) {
    qps_.erase(qpn);
    for (std::uint32_t slot = 0; slot < depth_; ++slot) {
        if (slots_[slot].qpn == qpn) {
            free_slot(slot);
        }
    }
}

void RcEndpoint::advance(std::uint64_t now_ms) {
    now_ms_ = now_ms;
    std::vector<std::uint32_t> ended;
    for (const auto& [qpn, qp] : qps_) {
        if (qp.is_retired && qp.end_ms <= now_ms) {
            ended.push_back(qpn);
        }
    }
    for (const std::uint32_t qpn : ended) {
        end(qpn);
    }
}

bool RcEndpoint::take_event(const ibv_async_event& event, Listener& listener) {
    const bool is_of_qp =
        event.event_type == IBV_EVENT_QP_FATAL || event.event_type == IBV_EVENT_QP_REQ_ERR ||
        event.event_type == IBV_EVENT_QP_ACCESS_ERR || event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
    if (!is_of_qp) {
        return false;
    }
    const auto found = std::find_if(qps_.begin(), qps_.end(), [&](const auto& entry) {
        return entry.second.qp.get() == event.element.qp;
    });
    if (found == qps_.end()) {
        return false;
    }
    if (found->second.is_retired && event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
        // Its completions are taken before it ends, in this turn.
        found->second.end_ms = now_ms_ + 1;
    } else {
        report_broken(found->first, listener);
    }
    return true;
}

void RcEndpoint::report_broken(std::uint32_t qpn, Listener& listener) {
    const auto found = qps_.find(qpn);
    if (found != qps_.end() && !found->second.is_retired) {
        listener.on_broken(qpn);
    }
}

// --- receiving

void RcEndpoint::release_receives() {
    if (taken_.empty()) {
        return;
    }
    for (std::size_t i = 0; i + 1 < taken_.size(); ++i) {
        receives_[taken_[i]].next = &receives_[taken_[i + 1]];
    }
    receives_[taken_.back()].next = nullptr;
    ibv_recv_wr* bad = nullptr;
    // It has room for all of them: a failure means that the device was removed, and its event says so.
    failed_completions_ += ibv_post_srq_recv(srq_.get(), &receives_[taken_.front()], &bad) != 0 ? 1 : 0;
    taken_.clear();
}

void RcEndpoint::on_received(const ibv_wc& completion, Listener& listener) {
    const auto slot = static_cast<std::uint32_t>(completion.wr_id & ~kReceiveBit);
    if (completion.status != IBV_WC_SUCCESS) {
        ++failed_completions_;
        report_broken(completion.qp_num, listener);
    } else if (completion.byte_len <= kConnectedMtu + kEncapsulationOctets) {
        listener.on_connected(completion.qp_num, ConstOctets(slot_memory(slot), completion.byte_len));
    }
    taken_.push_back(slot);
}

std::size_t RcEndpoint::poll(std::size_t most, Listener& listener) {
    std::array<ibv_wc, 32> completions;
    std::size_t count_of_all = 0;
    while (count_of_all < most) {
        const int count = ibv_poll_cq(cq_.get(), static_cast<int>(completions.size()), completions.data());
        for (int i = 0; i < count; ++i) {
            const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
            if ((completion.wr_id & kReceiveBit) == 0) {
                on_sent(completion, listener);
            } else {
                on_received(completion, listener);
            }
        }
        count_of_all += count > 0 ? static_cast<std::size_t>(count) : 0;
        if (count < static_cast<int>(completions.size())) {
            break;
        }
    }
    return count_of_all;
}

void RcEndpoint::arm() { take_events_and_arm(channel_.get(), cq_.get()); }

// --- sending

bool RcEndpoint::send(std::uint32_t qpn, ConstOctets header, ConstOctets payload) {
    const auto found = qps_.find(qpn);
    // A peer that takes nothing has three quarters of the slots at most.
    if (found == qps_.end() || found->second.is_retired || free_.empty() ||
        found->second.outstanding >= depth_ - depth_ / 4 ||
        header.size() + payload.size() > kConnectedMtu + kEncapsulationOctets) {
        return false;
    }
    const std::uint32_t slot = free_.back();
    std::byte* room = slot_memory(depth_ + slot);
    std::copy(header.begin(), header.end(), room);
    std::copy(payload.begin(), payload.end(), room + header.size());
    ibv_sge sge = {reinterpret_cast<std::uint64_t>(room),
                   static_cast<std::uint32_t>(header.size() + payload.size()), mr_->lkey};
    ibv_send_wr wr{};
    wr.wr_id = std::uint64_t{slots_[slot].generation & 0x7FFFFFFFU} << 32U | slot;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(found->second.qp.get(), &wr, &bad) != 0) {
        return false;
    }
    free_.pop_back();
    slots_[slot].qpn = qpn;
    ++found->second.outstanding;
    return true;
}

void RcEndpoint::free_slot(std::uint32_t slot) {
    if (const auto owner = qps_.find(slots_[slot].qpn); owner != qps_.end()) {
        --owner->second.outstanding;
    }
    slots_[slot].qpn = 0;
    ++slots_[slot].generation;
    free_.push_back(slot);
}

void RcEndpoint::on_sent(const ibv_wc& completion, Listener& listener) {
    const auto slot = static_cast<std::uint32_t>(completion.wr_id & 0xFFFFFFFFU);
    // A completion of a QP that has ended meanwhile has the generation of before.
    if (slot >= depth_ || slots_[slot].qpn == 0 ||
        (slots_[slot].generation & 0x7FFFFFFFU) != completion.wr_id >> 32U) {
        return;
    }
    const std::uint32_t qpn = slots_[slot].qpn;
    free_slot(slot);
    if (completion.status == IBV_WC_SUCCESS) {
        listener.on_acknowledged(qpn);
    } else {
        ++failed_completions_;
        report_broken(qpn, listener);
    }
}

}  // namespace urnic::ipoib
