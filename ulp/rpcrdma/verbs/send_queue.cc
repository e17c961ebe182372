#include "ulp/rpcrdma/verbs/send_queue.h"

#include <array>
#include <utility>

namespace urnic::rpcrdma {
namespace {

constexpr std::size_t kFirstRing = 64;
/// Requests that are posted at once.
constexpr std::size_t kChain = 16;

}  // namespace

void SendQueue::attach(ibv_qp* qp, std::uint32_t depth, std::uint32_t max_inline_octets) {
    qp_ = qp;
    depth_ = depth;
    max_inline_octets_ = max_inline_octets;
    ring_.resize(kFirstRing);
}

bool SendQueue::push(const Wqe& wqe) {
    const std::size_t count = end_ - oldest_;
    if (count >= kMaxWqes) return false;
    if (count == ring_.size()) {
        std::vector<Wqe> larger(ring_.size() * 2);
        for (std::uint64_t i = oldest_; i != end_; ++i) {
            larger[i & (larger.size() - 1)] = at(i);
        }
        ring_ = std::move(larger);
    }
    at(end_++) = wqe;
    return true;
}

void SendQueue::build(std::uint64_t number, ibv_send_wr& request) {
    Wqe& wqe = at(number);
    request = {};
    request.wr_id = number;
    request.opcode = wqe.opcode;
    // Without a signal now and then the queue would fill up for good.
    const bool is_signaled = wqe.is_signaled || number % (depth_ / 4) == 0;
    request.send_flags = is_signaled ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0U;
    switch (wqe.opcode) {
        case IBV_WR_BIND_MW:
            request.bind_mw.mw = wqe.window;
            request.bind_mw.rkey = wqe.key;
            request.bind_mw.bind_info = {wqe.window_region, wqe.sge.addr, wqe.sge.length, wqe.window_access};
            return;
        case IBV_WR_LOCAL_INV:
            request.invalidate_rkey = wqe.key;
            return;
        case IBV_WR_RDMA_READ:
        case IBV_WR_RDMA_WRITE:
            request.wr.rdma.remote_addr = wqe.remote_address;
            request.wr.rdma.rkey = wqe.key;
            break;
        default:
            request.invalidate_rkey = wqe.key;
            if (wqe.sge.length <= max_inline_octets_) request.send_flags |= IBV_SEND_INLINE;
            break;
    }
    request.sg_list = &wqe.sge;
    request.num_sge = 1;
}

int SendQueue::flush() {
    while (posted_ != end_ && posted_ - oldest_ < depth_) {
        std::array<ibv_send_wr, kChain> chain;
        const std::uint64_t room = depth_ - (posted_ - oldest_);
        std::size_t count = 0;
        while (count < chain.size() && count < room && posted_ + count != end_) {
            build(posted_ + count, chain[count]);
            if (count != 0) chain[count - 1].next = &chain[count];
            ++count;
        }
        ibv_send_wr* bad = nullptr;
        const int error = ibv_post_send(qp_, chain.data(), &bad);
        if (error != 0) {
            posted_ += bad == nullptr ? 0 : static_cast<std::uint64_t>(bad - chain.data());
            return error;
        }
        posted_ += count;
    }
    return 0;
}

bool SendQueue::retire(std::uint64_t wr_id, Wqe& wqe) {
    if (oldest_ == posted_ || static_cast<std::int64_t>(wr_id - oldest_) < 0) return false;
    wqe = at(oldest_++);
    return true;
}

bool SendQueue::take(Wqe& wqe) {
    if (oldest_ == end_) return false;
    wqe = at(oldest_++);
    if (posted_ < oldest_) posted_ = oldest_;
    return true;
}

}  // namespace urnic::rpcrdma
