#include "ulp/rpcrdma/verbs/endpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ulp/rpcrdma/verbs/error.h"
#include "ulp/rpcrdma/verbs/pending_call.h"
#include "ulp/rpcrdma/verbs/pool.h"
#include "ulp/rpcrdma/verbs/registration.h"

namespace urnic::rpcrdma {
namespace {

constexpr std::uint32_t kInlineOctets = 256;
constexpr int kMostReads = 16;
/// 4.096 us * 2^16 = 268 ms (IBA 9.7.6.1.3), before a SEND with nothing behind it is sent again. Linux's
/// connection manager proposes 2.1 s, which each lone loss would cost.
constexpr std::uint8_t kAckTimeout = 16;

}  // namespace

CmId::CmId(CmId&& other) noexcept
    : id(std::exchange(other.id, nullptr)), channel(std::exchange(other.channel, nullptr)) {}

CmId& CmId::operator=(CmId&& other) noexcept {
    std::swap(id, other.id);
    std::swap(channel, other.channel);
    return *this;
}

CmId::~CmId() {
    if (id != nullptr) (void)rdma_destroy_id(id);
    if (channel != nullptr) rdma_destroy_event_channel(channel);
}

std::unique_ptr<Endpoint> Endpoint::create(CmId&& id, const EndpointSizes& sizes) {
    std::unique_ptr<Endpoint> endpoint(new Endpoint(std::move(id)));
    if (!endpoint->create_queues(sizes) || !endpoint->create_qp(sizes)) {
        // Destruction may change it.
        const int error = errno;
        endpoint.reset();
        errno = error;
    }
    return endpoint;
}

bool Endpoint::create_queues(const EndpointSizes& sizes) {
    ibv_context* const context = cm_.id->verbs;
    const char* const name = ibv_get_device_name(context->device);
    device_ = Device::of(context);
    if (device_ == nullptr) {
        (void)fail(errno, "%s: no protection domain: %s", name, std::strerror(errno));
        return false;
    }
    channel_ = ibv_create_comp_channel(context);
    if (channel_ == nullptr || fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK) != 0) {
        (void)fail(errno, "%s: no completion channel: %s (ulimit -n)", name, std::strerror(errno));
        return false;
    }
    const auto entries = static_cast<int>(sizes.receives + sizes.sends);
    cq_ = ibv_create_cq(context, entries, nullptr, channel_, 0);
    if (cq_ == nullptr) {
        (void)fail(errno, "%s: no CQ of %d entries: %s; lower options.credits", name, entries,
                   std::strerror(errno));
        return false;
    }
    return true;
}

bool Endpoint::create_qp(const EndpointSizes& sizes) {
    const char* const name = ibv_get_device_name(cm_.id->verbs->device);
    ibv_qp_init_attr init{};
    for (const std::uint32_t inline_octets : {kInlineOctets, 0U}) {
        init = {};
        init.send_cq = cq_;
        init.recv_cq = cq_;
        init.qp_type = IBV_QPT_RC;
        init.cap = {.max_send_wr = sizes.sends,
                    .max_recv_wr = sizes.receives,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = inline_octets};
        if (rdma_create_qp(cm_.id, device_->pd(), &init) == 0) break;
        if (inline_octets == 0) {
            (void)fail(errno, "%s: no QP of %u sends and %u receives: %s; lower options.credits", name,
                       sizes.sends, sizes.receives, std::strerror(errno));
            return false;
        }
    }
    // Where the connection manager does not have it, its own timeout holds.
    std::uint8_t ack_timeout = kAckTimeout;
    (void)rdma_set_option(cm_.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
                          sizeof ack_timeout);
    sends_.attach(cm_.id->qp, sizes.sends, init.cap.max_inline_data);
    exposures_.attach(*device_, sends_);
    const int error = receives_.start(cm_.id->qp, *device_, sizes.receives, sizes.receive_octets);
    if (error != 0) {
        errno = fail(error,
                     "%s: %u receives of %u octets cannot be posted: %s; raise ulimit -l, or lower "
                     "options.credits or options.receive_octets",
                     name, sizes.receives, sizes.receive_octets, std::strerror(error));
        return false;
    }
    return true;
}

Endpoint::~Endpoint() {
    end();
    if (cq_ != nullptr) {
        if (unacknowledged_events_ != 0) ibv_ack_cq_events(cq_, unacknowledged_events_);
        (void)ibv_destroy_cq(cq_);
    }
    if (channel_ != nullptr) (void)ibv_destroy_comp_channel(channel_);
}

std::uint8_t Endpoint::read_depth() const {
    const ibv_device_attr& limits = device_->attributes();
    return static_cast<std::uint8_t>(
        std::clamp(std::min(limits.max_qp_rd_atom, limits.max_qp_init_rd_atom), 0, kMostReads));
}

bool Endpoint::take_events() {
    const unsigned before = unacknowledged_events_;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(channel_, &cq, &context) == 0) {
        ++unacknowledged_events_;
    }
    return unacknowledged_events_ != before;
}

bool Endpoint::handle(const ibv_wc& completion, Connection& connection) {
    if (completion.status != IBV_WC_SUCCESS) {
        has_failed_ = has_failed_ || completion.status != IBV_WC_WR_FLUSH_ERR;
        return false;
    }
    if ((completion.opcode & IBV_WC_RECV) != 0) {
        connection.on_receive(receives_.message(completion.wr_id, completion.byte_len),
                              device_->invalidated_key(completion));
        receives_.give_back(completion.wr_id);
        return true;
    }
    Wqe wqe;
    while (sends_.retire(completion.wr_id, wqe)) {
        on_complete(wqe, connection);
    }
    return true;
}

void Endpoint::release(const Wqe& wqe) {
    Pool::instance().free(wqe.block);
    if (wqe.own_region != nullptr) (void)ibv_dereg_mr(wqe.own_region);
}

void Endpoint::on_complete(const Wqe& wqe, Connection& connection) {
    release(wqe);
    switch (wqe.kind) {
        case WqeKind::kMessage:
            if (wqe.token != 0) connection.on_sent(wqe.token);
            break;
        case WqeKind::kRead:
            connection.on_read(static_cast<std::uint32_t>(wqe.token), true);
            break;
        case WqeKind::kInvalidate:
            exposures_.on_invalidated(wqe.token);
            if (wqe.withdrawal != 0) connection.on_withdrawn(exposures_.take_withdrawal(wqe.withdrawal));
            break;
        case WqeKind::kWrite:
        case WqeKind::kBind:
            break;
    }
}

void Endpoint::flush(Connection* connection) {
    if (has_ended_) return;
    // Receives are there before a message grants them.
    int error = receives_.repost();
    const std::uint32_t resized = receives_.take_resized();
    if (resized != 0 && connection != nullptr) connection->on_receives_resized(resized);
    if (error == 0) error = sends_.flush();
    if (error != 0 || is_closing_) disconnect();
}

void Endpoint::disconnect() {
    if (is_disconnected_ || has_ended_) return;
    is_disconnected_ = true;
    if (rdma_disconnect(cm_.id) != 0) {
        // Not connected yet, or not any more.
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_ERR;
        (void)ibv_modify_qp(cm_.id->qp, &attributes, IBV_QP_STATE);
    }
}

void Endpoint::end() {
    if (has_ended_) return;
    has_ended_ = true;
    const bool has_qp = cm_.id != nullptr && cm_.id->qp != nullptr;
    if (has_qp && !is_disconnected_) (void)rdma_disconnect(cm_.id);
    exposures_.end();
    if (has_qp) rdma_destroy_qp(cm_.id);
    Wqe wqe;
    while (sends_.take(wqe)) {
        release(wqe);
    }
}

void Endpoint::push(const Wqe& wqe) {
    if (!sends_.push(wqe)) {
        release(wqe);
        is_closing_ = true;
    }
}

Buffer Endpoint::allocate(std::size_t octets) { return {Pool::instance().allocate(octets), 0}; }

void Endpoint::free(const Buffer& buffer) { Pool::instance().free(buffer.octets.data()); }

bool Endpoint::expose(std::span<const std::byte> memory, Access access, Exposure& out) {
    return !is_closing_ && exposures_.expose(memory, access, out);
}

bool Endpoint::withdraw(std::uint32_t call, std::span<const Exposure> exposures, std::uint32_t invalidated) {
    return exposures_.withdraw(call, exposures, invalidated);
}

void Endpoint::send(const OutgoingMessage& message) {
    std::size_t octets = message.header.size();
    for (const std::span<const std::byte> piece : message.payload) {
        octets += piece.size();
    }
    const std::span<std::byte> block =
        has_ended_ ? std::span<std::byte>() : Pool::instance().allocate(octets);
    const ibv_mr* const region = block.empty() ? nullptr : Pool::instance().region(block.data(), *device_);
    if (region == nullptr) {
        Pool::instance().free(block.data());
        is_closing_ = true;
        return;
    }
    std::byte* to = std::copy(message.header.begin(), message.header.end(), block.data());
    for (const std::span<const std::byte> piece : message.payload) {
        to = std::copy(piece.begin(), piece.end(), to);
    }
    Wqe wqe;
    wqe.kind = WqeKind::kMessage;
    wqe.opcode = message.invalidate != 0 ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
    wqe.key = message.invalidate;
    wqe.token = message.token;
    wqe.is_signaled = message.token != 0;
    wqe.block = block.data();
    wqe.sge = {reinterpret_cast<std::uint64_t>(block.data()), static_cast<std::uint32_t>(octets),
               region->lkey};
    push(wqe);
}

void Endpoint::read(std::uint32_t call, const Segment& from, std::span<std::byte> into) {
    const ibv_mr* const region = Pool::instance().region(into.data(), *device_);
    if (region == nullptr) {
        is_closing_ = true;
        return;
    }
    Wqe wqe;
    wqe.kind = WqeKind::kRead;
    wqe.opcode = IBV_WR_RDMA_READ;
    wqe.is_signaled = true;
    wqe.sge = {reinterpret_cast<std::uint64_t>(into.data()), static_cast<std::uint32_t>(into.size()),
               region->lkey};
    wqe.remote_address = from.offset;
    wqe.key = from.handle;
    wqe.token = call;
    push(wqe);
}

void Endpoint::write(std::span<const std::byte> from, const Segment& to) {
    Wqe wqe;
    wqe.kind = WqeKind::kWrite;
    wqe.opcode = IBV_WR_RDMA_WRITE;
    const std::byte* data = from.data();
    const ibv_mr* region = nullptr;
    Pool& pool = Pool::instance();
    if (!pool.contains(data, from.size()) && from.size() <= kMostCopiedOctets) {
        const std::span<std::byte> copy = pool.allocate(from.size());
        if (!copy.empty()) {
            std::copy(from.begin(), from.end(), copy.begin());
            wqe.block = copy.data();
            data = copy.data();
        }
    }
    if (pool.contains(data, from.size())) {
        region = pool.region(data, *device_);
    } else {
        // Of the program's; it is only read.
        wqe.own_region = ibv_reg_mr(device_->pd(), const_cast<std::byte*>(data), from.size(), 0);
        region = wqe.own_region;
    }
    if (region == nullptr) {
        release(wqe);
        is_closing_ = true;
        return;
    }
    has_held_memory_ = has_held_memory_ || wqe.block == nullptr;
    wqe.sge = {reinterpret_cast<std::uint64_t>(data), static_cast<std::uint32_t>(from.size()), region->lkey};
    wqe.remote_address = to.offset;
    wqe.key = to.handle;
    push(wqe);
}

void Endpoint::complete(std::uint64_t token, const Completion& completion) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a token is a number to the engine
    auto* const call = reinterpret_cast<PendingCall*>(token);
    call->completion = completion;
    upcalls_.completed.push_back(call);
}

void Endpoint::close(CloseReason reason) {
    if (close_reason_ == CloseReason::kNone) close_reason_ = reason;
    is_closing_ = true;
}

}  // namespace urnic::rpcrdma
