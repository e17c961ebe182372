#include "ulp/rpcrdma/verbs/receive_queue.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <numeric>

#include "ulp/rpcrdma/verbs/device.h"
#include "ulp/rpcrdma/verbs/pool.h"

namespace urnic::rpcrdma {
namespace {

constexpr std::size_t kReceiveChain = 16;

}  // namespace

ReceiveQueue::~ReceiveQueue() {
    for (const Receive& receive : receives_) {
        Pool::instance().free(receive.block.data());
    }
}

bool ReceiveQueue::fill(Receive& receive) const {
    Pool& pool = Pool::instance();
    const std::span<std::byte> block = pool.allocate(octets_);
    if (block.empty()) {
        errno = ENOMEM;
        return false;
    }
    const ibv_mr* const region = pool.region(block.data(), *device_);
    if (region == nullptr) {
        pool.free(block.data());
        return false;
    }
    pool.free(receive.block.data());
    receive = {block, octets_, region->lkey};
    return true;
}

int ReceiveQueue::start(ibv_qp* qp, const Device& device, std::uint32_t count, std::uint32_t octets) {
    qp_ = qp;
    device_ = &device;
    octets_ = octets;
    receives_.resize(count);
    idle_.resize(count);
    std::iota(idle_.begin(), idle_.end(), 0U);
    for (Receive& receive : receives_) {
        if (!fill(receive)) return errno;
    }
    return repost();
}

std::span<const std::byte> ReceiveQueue::message(std::uint64_t wr_id, std::uint32_t octets) const {
    const Receive& receive = receives_[wr_id];
    return receive.block.first(std::min(octets, receive.octets));
}

int ReceiveQueue::repost() {
    while (!idle_.empty()) {
        std::array<ibv_recv_wr, kReceiveChain> chain;
        std::array<ibv_sge, kReceiveChain> elements;
        const std::size_t count = std::min(idle_.size(), chain.size());
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t index = idle_[idle_.size() - 1 - i];
            Receive& receive = receives_[index];
            // Without memory for a larger one the old one serves on.
            if (receive.octets < octets_ && fill(receive)) --smaller_;
            elements[i] = {reinterpret_cast<std::uint64_t>(receive.block.data()), receive.octets,
                           receive.local_key};
            chain[i] = {index, i + 1 < count ? &chain[i + 1] : nullptr, &elements[i], 1};
        }
        ibv_recv_wr* bad = nullptr;
        const int error = ibv_post_recv(qp_, chain.data(), &bad);
        if (error != 0) return error;
        idle_.resize(idle_.size() - count);
    }
    return 0;
}

void ReceiveQueue::resize(std::uint32_t octets) {
    octets_ = std::max(octets_, octets);
    smaller_ = static_cast<std::uint32_t>(
        std::count_if(receives_.begin(), receives_.end(),
                      [&](const Receive& receive) { return receive.octets < octets_; }));
    is_resizing_ = true;
}

std::uint32_t ReceiveQueue::take_resized() {
    if (!is_resizing_ || smaller_ != 0) return 0;
    is_resizing_ = false;
    return octets_;
}

}  // namespace urnic::rpcrdma
