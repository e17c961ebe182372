// Completion queues of a client.
#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/check.h"
#include "daemon/verbs/client.h"
#include "os/rollback.h"

namespace urnic::dataplane {

namespace {

constexpr std::uint32_t kKnownFlags = abi::kCqIgnoreOverrun | abi::kCqTimestamps;

abi::CqHeader& header_of(std::byte* memory) { return *reinterpret_cast<abi::CqHeader*>(memory); }

/// True when some worker has put a completion into the fresh rings at `memory`.
bool has_completions(std::byte* memory, std::uint32_t workers, std::uint32_t entries) {
    for (std::uint32_t w = 0; w < workers; ++w) {
        const auto& first = *reinterpret_cast<const abi::Cqe*>(memory + abi::cq_ring_offset(w, entries));
        if (first.seq.load(std::memory_order_acquire) != 0) {
            return true;
        }
    }
    return false;
}

/// Tells the channel, as a worker does for a CQ that was armed.
void notify(NotifyingCq& cq) {
    if (cq.channel_fd >= 0 &&
        ::write(cq.channel_fd, &cq.user_handle, sizeof cq.user_handle) == sizeof cq.user_handle) {
        cq.completion_events.fetch_add(1);
    }
}

}  // namespace

int Client::create_cq(const abi::CreateCqRequest& request, Request& /*message*/, Reply& reply) {
    ContextObject* context = contexts_.find(request.context);
    ChannelObject* channel = request.channel == 0 ? nullptr : channels_.find(request.channel);
    if (context == nullptr || (request.channel != 0 && channel == nullptr)) {
        return ENOENT;
    }
    if ((channel != nullptr && channel->context != context) || request.entries == 0 ||
        request.entries > context->device->device->caps.max_cqe || (request.flags & ~kKnownFlags) != 0) {
        return EINVAL;
    }
    RnicState& device = *context->device;
    if (cqs_.size() >= control_.limits.max_cqs || device.num_cqs >= device.device->caps.max_cq) {
        return ENOMEM;
    }
    auto cq = std::make_unique<CqObject>();
    cq->entries = std::bit_ceil(request.entries);
    if (const int error = allocate_rings(abi::cq_bytes(control_.num_workers(), cq->entries), cq->memory);
        error != 0) {
        return error;
    }
    Rollback free_rings([this, memory = cq->memory] { rings_->release(memory); });
    cq->context = context;
    cq->channel = channel;
    cq->cq = std::make_unique<NotifyingCq>(rings_->at(cq->memory), cq->entries);
    cq->cq->channel_fd = channel == nullptr ? -1 : channel->write_end.get();
    cq->cq->user_handle = request.user_handle;
    cq->cq->wake_word = &control_.daemon_state().wake_words[id_ % abi::kWakeWords];
    cq->cq->async_fd = context->async_fd.get();
    cq->cq->ignore_overrun = (request.flags & abi::kCqIgnoreOverrun) != 0;
    cq->cq->per_cqe_timestamp = (request.flags & abi::kCqTimestamps) != 0;
    abi::CreateCqReply body{};
    body.entries = cq->entries;
    body.memory_offset = cq->memory.offset;
    body.handle = cqs_.add(std::move(cq));
    free_rings.keep();
    if (channel != nullptr) {
        ++channel->users;
    }
    ++device.num_cqs;
    reply.set(body);
    reply.fds = {rings_->fd()};
    return 0;
}

int Client::resize_cq(const abi::ResizeCqRequest& request, Request& /*message*/, Reply& reply) {
    CqObject* cq = cqs_.find(request.cq);
    if (cq == nullptr) {
        return ENOENT;
    }
    if (request.entries == 0 || request.entries > cq->context->device->device->caps.max_cqe) {
        return EINVAL;
    }
    const std::uint32_t entries = std::bit_ceil(request.entries);
    std::uint64_t unpolled = request.unpolled;
    for (std::uint32_t w = 0; w < control_.num_workers(); ++w) {
        Worker& worker = *control_.workers[w];
        worker.call([&] {
            worker.catch_up();
            unpolled += cq->cq->unpolled(w);
        });
    }
    if (unpolled > entries) {
        return EINVAL;
    }
    RingPiece memory;
    if (const int error = allocate_rings(abi::cq_bytes(control_.num_workers(), entries), memory);
        error != 0) {
        return error;
    }
    for (std::uint32_t w = 0; w < control_.num_workers(); ++w) {
        control_.workers[w]->call([&] { cq->cq->switch_worker(w, rings_->at(memory), entries); });
    }
    // A request to be notified moves over. A completion that came between a worker's switch and this found
    // the new memory not armed: tell the channel now.
    const std::uint32_t armed = header_of(rings_->at(cq->memory)).arm.exchange(abi::kCqDisarmed);
    if (armed != abi::kCqDisarmed) {
        header_of(rings_->at(memory)).arm.store(armed);
        if (has_completions(rings_->at(memory), control_.num_workers(), entries) &&
            header_of(rings_->at(memory)).arm.exchange(abi::kCqDisarmed) != abi::kCqDisarmed) {
            notify(*cq->cq);
        }
    }
    rings_->release(cq->previous);
    cq->previous = std::exchange(cq->memory, memory);
    cq->entries = entries;
    abi::CreateCqReply body{};
    body.handle = request.cq;
    body.entries = entries;
    body.memory_offset = memory.offset;
    reply.set(body);
    reply.fds = {rings_->fd()};
    return 0;
}

int Client::modify_cq(const abi::ModifyCqRequest& request, Request& /*message*/, Reply& /*reply*/) {
    CqObject* cq = cqs_.find(request.cq);
    if (cq == nullptr) {
        return ENOENT;
    }
    cq->cq->moderation.store({request.count, request.period_us});
    // What is held back by the old rule is looked at by the new one.
    control_.barrier();
    return 0;
}

int Client::destroy_cq(const abi::HandleRequest& request, Request& /*message*/, Reply& reply) {
    CqObject* cq = cqs_.find(request.handle);
    if (cq == nullptr) {
        return ENOENT;
    }
    if (cq->users > 0) {
        return EBUSY;
    }
    for (const auto& worker : control_.workers) {
        worker->call([&] { worker->release_cq(*cq->cq); });
    }
    abi::DestroyReply body{};
    body.async_events = cq->cq->async_events.load();
    body.completion_events = cq->cq->completion_events.load();
    reply.set(body);
    forget_cq(*cq);
    cqs_.remove(request.handle);
    return 0;
}

template <typename Leaves>
void Client::release_cqs(Leaves&& leaves) {
    for (const auto& worker : control_.workers) {
        worker->call([&] {
            for (const auto& [handle, cq] : cqs_) {
                if (leaves(*cq)) {
                    worker->release_cq(*cq->cq);
                }
            }
        });
    }
}

void Client::forget_cq(CqObject& cq) {
    URNIC_CHECK(cq.users == 0);
    rings_->release(cq.memory);
    rings_->release(cq.previous);
    if (cq.channel != nullptr) {
        --cq.channel->users;
    }
    --cq.context->device->num_cqs;
}

void Client::remove_cqs(const ContextObject* context) {
    const auto ours = [&](const CqObject& cq) { return context == nullptr || cq.context == context; };
    if (std::none_of(cqs_.begin(), cqs_.end(), [&](const auto& entry) { return ours(*entry.second); })) {
        return;
    }
    release_cqs(ours);
    for (auto entry = cqs_.begin(); entry != cqs_.end();) {
        if (ours(*entry->second)) {
            forget_cq(*entry->second);
            entry = cqs_.remove(entry);
        } else {
            ++entry;
        }
    }
}

}  // namespace urnic::dataplane
