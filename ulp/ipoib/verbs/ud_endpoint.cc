#include "ulp/ipoib/verbs/ud_endpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "ulp/ipoib/tap/setup_error.h"
#include "ulp/ipoib/verbs/cq_events.h"

namespace urnic::ipoib {

namespace {

/// Every so many SENDs one asks for a completion, which stands for those before it.
constexpr std::uint64_t kSignalEvery = 32;
/// A WR ID with this bit is a receive's slot.
constexpr std::uint64_t kReceive = 1ULL << 63U;

std::uint32_t octets_of(ibv_mtu mtu) { return 128U << static_cast<unsigned>(mtu); }

union ibv_gid raw_gid(const Gid& gid) {
    union ibv_gid raw {};
    std::copy(gid.begin(), gid.end(), reinterpret_cast<std::byte*>(raw.raw));
    return raw;
}

}  // namespace

UdEndpoint::UdEndpoint(const RdmaPort& port, Addressing& addressing, const UdConfig& config)
    : port_(port), addressing_(addressing), config_(config) {
    memberships_.set_interface(port.interface_index());
    check_mtu();
    create_qp();
    start_qp();
}

UdEndpoint::~UdEndpoint() {
    for (const auto& [group, mlid] : groups_) {
        const union ibv_gid raw = raw_gid(group);
        ibv_detach_mcast(qp_.get(), &raw, mlid);
    }
    qp_.reset();
    for (const Retired& retired : retired_) {
        ibv_destroy_ah(retired.handle);
    }
}

std::uint32_t UdEndpoint::qpn() const { return qp_->qp_num; }
int UdEndpoint::completion_fd() const { return channel_->fd; }

int UdEndpoint::event_fd() const { return port_.context()->async_fd; }

void UdEndpoint::take_events(const std::function<bool(const ibv_async_event&)>& is_taken) {
    ibv_async_event event{};
    while (ibv_get_async_event(port_.context(), &event) == 0) {
        const ibv_event_type type = event.event_type;
        const bool is_others = is_taken(event);
        ibv_ack_async_event(&event);
        if (is_others) {
            continue;
        }
        if (type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_QP_FATAL) {
            throw SetupError("RDMA device " + port_.device_name() + " is gone (" + ibv_event_type_str(type) +
                             "): start again when it is back");
        }
    }
}

// --- set-up

void UdEndpoint::check_mtu() const {
    const std::uint32_t path = octets_of(port_.query().active_mtu);
    if (config_.mtu + kEncapsulationOctets > path) {
        // RFC 4391, section 7: the encapsulation is part of the datagram.
        throw SetupError("MTU " + std::to_string(config_.mtu) + " needs a path MTU of " +
                         std::to_string(config_.mtu + kEncapsulationOctets) + "; " + port_.device_name() +
                         " has " + std::to_string(path) + ": " +
                         (port_.is_infiniband()
                              ? std::string("the broadcast group is made for ports with more")
                              : "use --mtu " + std::to_string(path - kEncapsulationOctets) +
                                    " on all members, or a larger MTU below"));
    }
}

void UdEndpoint::create_qp() {
    pd_.reset(ibv_alloc_pd(port_.context()));
    channel_.reset(ibv_create_comp_channel(port_.context()));
    if (pd_ == nullptr || channel_ == nullptr) {
        throw errno_error("cannot make a PD and a completion channel on " + port_.device_name(), "");
    }
    fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    fcntl(port_.context()->async_fd, F_SETFL, fcntl(port_.context()->async_fd, F_GETFL) | O_NONBLOCK);
    cq_.reset(
        ibv_create_cq(port_.context(), static_cast<int>(2 * config_.depth), nullptr, channel_.get(), 0));
    if (cq_ == nullptr) {
        throw errno_error(
            "cannot make a CQ of " + std::to_string(2 * config_.depth) + " on " + port_.device_name(),
            "try a smaller --depth");
    }
    ibv_qp_init_attr_ex init{};
    init.send_cq = cq_.get();
    init.recv_cq = cq_.get();
    init.cap = {.max_send_wr = config_.depth,
                .max_recv_wr = config_.depth,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    init.qp_type = IBV_QPT_UD;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    init.pd = pd_.get();
    // Own broadcasts do not come back; where a device cannot do that, they are dropped when they do.
    init.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    qp_.reset(ibv_create_qp_ex(port_.context(), &init));
    if (qp_ == nullptr) {
        init.comp_mask = IBV_QP_INIT_ATTR_PD;
        init.create_flags = 0;
        qp_.reset(ibv_create_qp_ex(port_.context(), &init));
    }
    if (qp_ == nullptr) {
        throw errno_error("cannot make a UD QP on " + port_.device_name(), "try a smaller --depth");
    }
    slot_octets_ = (kGrhOctets + kEncapsulationOctets + config_.mtu + 63) / 64 * 64;
    memory_.resize(slot_octets_ * 2 * config_.depth);
    mr_.reset(ibv_reg_mr(pd_.get(), memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE));
    if (mr_ == nullptr) {
        throw errno_error("cannot register " + std::to_string(memory_.size()) + " octets", "see ulimit -l");
    }
    for (std::uint32_t slot = 0; slot < config_.depth; ++slot) {
        receive_sges_.push_back({reinterpret_cast<std::uint64_t>(memory_.data() + slot * slot_octets_),
                                 static_cast<std::uint32_t>(kGrhOctets + kEncapsulationOctets + config_.mtu),
                                 mr_->lkey});
        taken_.push_back(slot);
    }
    for (std::uint32_t slot = 0; slot < config_.depth; ++slot) {
        receives_.push_back({kReceive | slot, nullptr, &receive_sges_[slot], 1});
    }
    wrs_.resize(config_.depth);
    sges_.resize(config_.depth);
}

void UdEndpoint::start_qp() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.pkey_index = config_.pkey_index;
    attr.port_num = port_.number();
    attr.qkey = config_.qkey;
    int error = ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    if (error == EPERM) {
        throw SetupError("Q_Key " + std::to_string(config_.qkey) +
                         " has bit 31 set, which this device leaves to privileged users: " +
                         (port_.is_infiniband() ? "it is the broadcast group's, start as root"
                                                : "use another --qkey on all members"));
    }
    attr.qp_state = IBV_QPS_RTR;
    error = error != 0 ? error : ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = 0;
    error = error != 0 ? error : ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    if (error != 0) {
        throw SetupError("cannot take the UD QP of " + port_.device_name() +
                         " to RTS: " + std::strerror(error));
    }
    release_receives();
    arm();
}

// --- receiving

void UdEndpoint::release_receives() {
    if (taken_.empty()) {
        return;
    }
    for (std::size_t i = 0; i + 1 < taken_.size(); ++i) {
        receives_[taken_[i]].next = &receives_[taken_[i + 1]];
    }
    receives_[taken_.back()].next = nullptr;
    ibv_recv_wr* bad = nullptr;
    // It has room for all of them: a failure means that the device was removed, and its event says so.
    failed_completions_ += ibv_post_recv(qp_.get(), &receives_[taken_.front()], &bad) != 0 ? 1 : 0;
    taken_.clear();
}

void UdEndpoint::on_received(const ibv_wc& completion, const OnDatagram& on_datagram) {
    const auto slot = static_cast<std::uint32_t>(completion.wr_id & ~kReceive);
    const ConstOctets room = ConstOctets(memory_).subspan(slot * slot_octets_, slot_octets_);
    if (completion.status != IBV_WC_SUCCESS) {
        ++failed_completions_;
    } else if (completion.byte_len >= kGrhOctets && completion.byte_len <= slot_octets_) {
        // Without a GRH those octets stay as they were.
        const bool has_grh = !port_.is_infiniband() || (completion.wc_flags & IBV_WC_GRH) != 0;
        static constexpr std::array<std::byte, kGrhOctets> kNone{};
        on_datagram(has_grh ? room.first(kGrhOctets) : ConstOctets(kNone), completion.src_qp,
                    room.subspan(kGrhOctets, completion.byte_len - kGrhOctets));
    }
    taken_.push_back(slot);
}

std::size_t UdEndpoint::poll(std::size_t most, const OnDatagram& on_datagram) {
    std::array<ibv_wc, 64> completions;
    std::size_t taken = 0;
    while (taken < most) {
        const int count = ibv_poll_cq(cq_.get(), static_cast<int>(completions.size()), completions.data());
        for (int i = 0; i < count; ++i) {
            const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
            if ((completion.wr_id & kReceive) == 0) {
                on_sent(completion);
            } else {
                on_received(completion, on_datagram);
            }
        }
        taken += count > 0 ? static_cast<std::size_t>(count) : 0;
        if (count < static_cast<int>(completions.size())) {
            break;
        }
    }
    return taken;
}

void UdEndpoint::arm() { take_events_and_arm(channel_.get(), cq_.get()); }

// --- sending

bool UdEndpoint::send(AddressHandle handle, std::uint32_t qpn, ConstOctets header, ConstOctets payload) {
    if (sent_ - complete_ >= config_.depth) {
        return false;
    }
    const std::size_t slot = sent_ % config_.depth;
    std::byte* room = memory_.data() + (config_.depth + slot) * slot_octets_;
    std::copy(header.begin(), header.end(), room);
    std::copy(payload.begin(), payload.end(), room + header.size());
    sges_[slot] = {reinterpret_cast<std::uint64_t>(room),
                   static_cast<std::uint32_t>(header.size() + payload.size()), mr_->lkey};
    ibv_send_wr& wr = wrs_[slot];
    wr = {};
    wr.wr_id = ++sent_;
    wr.sg_list = &sges_[slot];
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = sent_ % kSignalEvery == 0 ? IBV_SEND_SIGNALED : 0;
    wr.wr.ud.ah = std::bit_cast<ibv_ah*>(handle);
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = config_.qkey;
    return true;
}

void UdEndpoint::flush() {
    if (posted_ == sent_) {
        return;
    }
    // A list up to the ring's end, and one from its beginning; the last SEND of the lists asks for a
    // completion.
    wrs_[(sent_ - 1) % config_.depth].send_flags = IBV_SEND_SIGNALED;
    while (posted_ != sent_) {
        const std::size_t first = posted_ % config_.depth;
        const std::size_t count = std::min<std::uint64_t>(sent_ - posted_, config_.depth - first);
        for (std::size_t i = first; i < first + count; ++i) {
            wrs_[i].next = i + 1 < first + count ? &wrs_[i + 1] : nullptr;
        }
        ibv_send_wr* bad = nullptr;
        if (ibv_post_send(qp_.get(), &wrs_[first], &bad) != 0) {
            // What is from `bad` on was not taken: its slots are free again.
            sent_ = posted_ + static_cast<std::uint64_t>(bad - &wrs_[first]);
            posted_ = sent_;
            ++failed_completions_;
            recover_send_queue();
            return;
        }
        posted_ += count;
    }
}

void UdEndpoint::on_sent(const ibv_wc& completion) {
    complete_ = std::max(complete_, std::min(completion.wr_id, sent_));
    if (completion.status != IBV_WC_SUCCESS) {
        ++failed_completions_;
        recover_send_queue();
    }
    end_retired();
}

/// A SEND that fails takes a UD QP to SQE (IBA 10.3.1): it goes back to RTS.
void UdEndpoint::recover_send_queue() {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    if (ibv_query_qp(qp_.get(), &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_SQE) {
        attr.qp_state = IBV_QPS_RTS;
        ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE);
    }
}

// --- handles and groups

AddressHandle UdEndpoint::create_handle(const Gid& destination) {
    ibv_ah_attr vector{};
    switch (addressing_.find(destination, vector)) {
        case Progress::kDone:
            return std::bit_cast<AddressHandle>(ibv_create_ah(pd_.get(), &vector));
        case Progress::kPending:
            return kPendingHandle;
        case Progress::kFailed:
            break;
    }
    return 0;
}

void UdEndpoint::destroy_handle(AddressHandle handle) {
    retired_.push_back({sent_, std::bit_cast<ibv_ah*>(handle)});
    end_retired();
}

void UdEndpoint::end_retired() {
    while (!retired_.empty() && retired_.front().after <= complete_) {
        ibv_destroy_ah(retired_.front().handle);
        retired_.pop_front();
    }
}

Progress UdEndpoint::join(const Gid& group) {
    std::uint16_t mlid = 0;
    if (const Progress progress = addressing_.join(group, mlid); progress != Progress::kDone) {
        return progress;
    }
    const union ibv_gid raw = raw_gid(group);
    if (!memberships_.join(group)) {
        addressing_.leave(group);
        return Progress::kFailed;
    }
    if (ibv_attach_mcast(qp_.get(), &raw, mlid) != 0) {
        memberships_.leave(group);
        addressing_.leave(group);
        return Progress::kFailed;
    }
    groups_.emplace(group, mlid);
    return Progress::kDone;
}

void UdEndpoint::leave(const Gid& group) {
    if (const auto attached = groups_.find(group); attached != groups_.end()) {
        const union ibv_gid raw = raw_gid(group);
        ibv_detach_mcast(qp_.get(), &raw, attached->second);
        memberships_.leave(group);
        groups_.erase(attached);
    }
    addressing_.leave(group);
}

}  // namespace urnic::ipoib
