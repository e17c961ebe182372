// Completion queues of a client.
#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/check.h"
#include "daemon/verbs/batch.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/cq.h"
#include "daemon/verbs/operations.h"
#include "os/rollback.h"

namespace urnic::daemon {

namespace {

constexpr std::uint32_t kKnownFlags = abi::kCqIgnoreOverrun | abi::kCqTimestamps;

abi::CqHeader& header_of(std::byte* memory) { return *reinterpret_cast<abi::CqHeader*>(memory); }

/// Returns whether some worker has put a completion into the fresh rings at `memory`.
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
void notify(dataplane::NotifyingCq& cq) {
    if (cq.channel == nullptr) {
        return;
    }
    cq.completion_events.fetch_add(1);  // first: who reads it may destroy the CQ at once
    if (cq.channel->socket.send(&cq.user_handle, sizeof cq.user_handle) != EventSocket::Sent::kSent) {
        cq.completion_events.fetch_sub(1);
    }
}

void forget_cq(ClientState& client, CqObject& cq) {
    URNIC_CHECK(cq.users == 0);
    client.rings->release(cq.memory);
    client.rings->release(cq.previous);
    if (cq.channel != nullptr) {
        --cq.channel->users;
    }
    --cq.context->device->num_cqs;
}

int create_cq(ClientState& client, const abi::CreateCqRequest& request, Reply& reply) {
    ContextObject* context = client.contexts.find(request.context);
    ChannelObject* channel = request.channel == 0 ? nullptr : client.channels.find(request.channel);
    if (context == nullptr || (request.channel != 0 && channel == nullptr)) {
        return ENOENT;
    }
    if ((channel != nullptr && channel->context != context) || request.entries == 0 ||
        request.entries > context->device->device->caps.max_cqe || (request.flags & ~kKnownFlags) != 0) {
        return EINVAL;
    }
    RnicState& device = *context->device;
    if (client.cqs.size() >= client.control.limits.max_cqs || device.num_cqs >= device.device->caps.max_cq ||
        !client.user.has_room(Resource::kCqs)) {
        return ENOMEM;
    }
    auto cq = std::make_unique<CqObject>();
    cq->entries = std::bit_ceil(request.entries);
    if (const int error =
            allocate_rings(client, abi::cq_bytes(client.control.num_workers(), cq->entries), cq->memory);
        error != 0) {
        return error;
    }
    Rollback free_rings([&client, memory = cq->memory] { client.rings->release(memory); });
    cq->context = context;
    cq->channel = channel;
    cq->cq = std::make_unique<dataplane::NotifyingCq>(client.rings->at(cq->memory), cq->entries);
    cq->cq->channel = channel == nullptr ? nullptr : &channel->channel;
    cq->cq->user_handle = request.user_handle;
    cq->cq->wake_word = &client.control.daemon_state().wake_words[client.id % abi::kWakeWords];
    cq->cq->async = context->events();
    cq->cq->ignore_overrun = (request.flags & abi::kCqIgnoreOverrun) != 0;
    cq->cq->per_cqe_timestamp = (request.flags & abi::kCqTimestamps) != 0;
    abi::CreateCqReply body{};
    body.entries = cq->entries;
    body.memory_offset = cq->memory.offset;
    body.handle = client.cqs.add(std::move(cq));
    free_rings.keep();
    if (channel != nullptr) {
        ++channel->users;
    }
    ++device.num_cqs;
    reply.set(body);
    reply.fds = {client.rings->fd()};
    return 0;
}

int resize_cq(ClientState& client, const abi::ResizeCqRequest& request, Reply& reply) {
    CqObject* cq = client.cqs.find(request.cq);
    if (cq == nullptr) {
        return ENOENT;
    }
    if (request.entries == 0 || request.entries > cq->context->device->device->caps.max_cqe) {
        return EINVAL;
    }
    const std::uint32_t entries = std::bit_ceil(request.entries);
    std::uint64_t unpolled = request.unpolled;
    for (std::uint32_t w = 0; w < client.control.num_workers(); ++w) {
        dataplane::Worker& worker = *client.control.workers[w];
        worker.call([&] {
            worker.catch_up();
            unpolled += cq->cq->unpolled(w);
        });
    }
    if (unpolled > entries) {
        return EINVAL;
    }
    RingPiece memory;
    if (const int error =
            allocate_rings(client, abi::cq_bytes(client.control.num_workers(), entries), memory);
        error != 0) {
        return error;
    }
    for (std::uint32_t w = 0; w < client.control.num_workers(); ++w) {
        client.control.workers[w]->call([&] { cq->cq->switch_worker(w, client.rings->at(memory), entries); });
    }
    // A request to be notified moves over. A completion that came between a worker's switch and this found
    // the new memory not armed: tell the channel now.
    const std::uint32_t armed = header_of(client.rings->at(cq->memory)).arm.exchange(abi::kCqDisarmed);
    if (armed != abi::kCqDisarmed) {
        header_of(client.rings->at(memory)).arm.store(armed);
        if (has_completions(client.rings->at(memory), client.control.num_workers(), entries) &&
            header_of(client.rings->at(memory)).arm.exchange(abi::kCqDisarmed) != abi::kCqDisarmed) {
            notify(*cq->cq);
        }
    }
    client.rings->release(cq->previous);
    cq->previous = std::exchange(cq->memory, memory);
    cq->entries = entries;
    abi::CreateCqReply body{};
    body.handle = request.cq;
    body.entries = entries;
    body.memory_offset = memory.offset;
    reply.set(body);
    reply.fds = {client.rings->fd()};
    return 0;
}

int modify_cq(ClientState& client, const abi::ModifyCqRequest& request, Reply& /*reply*/) {
    CqObject* cq = client.cqs.find(request.cq);
    if (cq == nullptr) {
        return ENOENT;
    }
    cq->cq->moderation.store({request.count, request.period_us});
    // What is held back by the old rule is looked at by the new one.
    client.control.barrier();
    return 0;
}

int destroy_cq(ClientState& client, const abi::HandleRequest& request, Reply& reply) {
    CqObject* cq = client.cqs.find(request.handle);
    if (cq == nullptr) {
        return ENOENT;
    }
    if (cq->users > 0) {
        return EBUSY;
    }
    for (const auto& worker : client.control.workers) {
        worker->call([&] { worker->release_cq(*cq->cq); });
    }
    abi::DestroyReply body{};
    body.async_events = cq->cq->async_events.load();
    body.completion_events = cq->cq->completion_events.load();
    reply.set(body);
    forget_cq(client, *cq);
    client.cqs.remove(request.handle);
    return 0;
}

constexpr Operation kCqOperations[] = {
    operation<create_cq>(abi::Op::kCreateCq),
    operation<resize_cq>(abi::Op::kResizeCq),
    operation<modify_cq>(abi::Op::kModifyCq),
    operation<destroy_cq>(abi::Op::kDestroyCq),
};

}  // namespace

bool remove_cqs(ClientState& client, const ContextObject* context) {
    const auto batch = next_batch(
        client.cqs, [&](const CqObject& cq) { return context == nullptr || cq.context == context; },
        kObjectsPerStep, ring_bytes_per_step(client.is_ending));
    if (batch.empty()) {
        return false;
    }
    for (const auto& worker : client.control.workers) {
        worker->call([&] {
            for (const auto at : batch) {
                worker->release_cq(*at->second->cq);
            }
        });
    }
    return remove_batch(client.cqs, batch, [&](CqObject& cq) { forget_cq(client, cq); });
}

Operations cq_operations() { return kCqOperations; }

}  // namespace urnic::daemon
