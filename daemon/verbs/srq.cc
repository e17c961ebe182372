// Shared receive queues of a client.
#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/check.h"
#include "daemon/verbs/batch.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/operations.h"
#include "daemon/verbs/srq.h"
#include "os/rollback.h"

namespace urnic::daemon {

namespace {

/// For each SRQ of an XRC domain its worker looks at all of the domain's target QPs.
constexpr std::size_t kSrqsPerStep = 4;

RecvRing ring_at(std::byte* memory, std::uint32_t entries, std::uint32_t stride) {
    return {memory + abi::kSrqHeaderBytes, entries, stride};
}

abi::SrqReply describe(const SrqObject& srq, std::uint32_t handle, std::uint32_t limit) {
    abi::SrqReply body{};
    body.handle = handle;
    body.srq_number = srq.srq->identity().number;
    body.entries = srq.entries;
    body.stride = srq.stride;
    body.max_sge = srq.max_sge;
    body.limit = limit;
    body.memory_offset = srq.memory.offset;
    body.memory_bytes = srq.memory.bytes;
    return body;
}

/// Counts the SRQ and makes one of an XRC domain known there.
void publish_srq(ClientState& client, SrqObject& srq) {
    ++srq.pd->users;
    ++srq.pd->context->device->num_srqs;
    if (srq.xrcd != nullptr) {
        ++srq.cq->users;
        ++srq.xrcd->users;
        client.control.workers[srq.worker]->call([&] { srq.xrcd->domain->srqs.add(*srq.srq); });
    }
}

/// The copy is made here, while QPs keep taking receives from the old ring: the worker only changes over.
int resize_srq(ClientState& client, SrqObject& srq, std::uint32_t entries) {
    RingPiece memory;
    if (const int error = allocate_rings(client, abi::srq_bytes(entries, srq.stride), memory); error != 0) {
        return error;
    }
    dataplane::Worker& worker = *client.control.workers[srq.worker];
    std::uint32_t first = 0;
    worker.call([&] { first = srq.srq->next(); });
    const RecvRing from = ring_at(client.rings->at(srq.memory), srq.entries, srq.stride);
    if (!copy_receives(from, ring_at(client.rings->at(memory), entries, srq.stride), first)) {
        client.rings->release(memory);
        return EINVAL;
    }
    worker.call([&] {
        // A limit beyond the new ring could never be kept.
        srq.srq->arm(std::min(srq.srq->limit(), entries));
        srq.srq->switch_ring(client.rings->at(memory), entries, srq.stride, srq.max_sge);
    });
    client.rings->release(std::exchange(srq.memory, memory));
    srq.entries = entries;
    return 0;
}

/// No QP uses it; target QPs of its domain, whoever made them, stop doing so here.
void forget_srq(ClientState& client, SrqObject& srq) {
    URNIC_CHECK(srq.users == 0);
    if (srq.xrcd != nullptr) {
        XrcDomain& domain = *srq.xrcd->domain;
        client.control.workers[srq.worker]->call([&] {
            domain.srqs.remove(*srq.srq);
            for (const auto& [qp_num, target] : domain.targets) {
                target->slot.qp->forget_srq(*srq.srq);
            }
        });
        --srq.cq->users;
        --srq.xrcd->users;
    }
    RnicState& device = *srq.pd->context->device;
    device.srq_numbers.free(srq.srq->identity().number);
    client.rings->release(srq.memory);
    --device.num_srqs;
    --srq.pd->users;
}

int create_srq(ClientState& client, const abi::CreateSrqRequest& request, Reply& reply) {
    PdObject* pd = client.pds.find(request.pd);
    XrcdObject* xrcd = client.xrcds.find(request.xrcd);
    CqObject* cq = client.cqs.find(request.cq);
    const bool is_xrc = request.xrcd != 0 || request.cq != 0;
    if (pd == nullptr || (request.xrcd != 0 && xrcd == nullptr) || (request.cq != 0 && cq == nullptr)) {
        return ENOENT;
    }
    if (is_xrc &&
        (xrcd == nullptr || cq == nullptr || xrcd->context != pd->context || cq->context != pd->context)) {
        return EINVAL;
    }
    RnicState& device = *pd->context->device;
    const abi::DeviceCaps& caps = device.device->caps;
    if (request.max_wr == 0 || request.max_wr > caps.max_srq_wr || request.max_sge > caps.max_srq_sge) {
        return EINVAL;
    }
    if (client.srqs.size() >= client.control.limits.max_srqs || device.num_srqs >= caps.max_srq ||
        !client.user.has_room(Resource::kSrqs)) {
        return ENOMEM;
    }
    const auto number = device.srq_numbers.allocate(0);
    if (!number) {
        return ENOMEM;
    }
    Rollback free_number([&] { device.srq_numbers.free(*number); });
    auto made = std::make_unique<SrqObject>();
    SrqObject& srq = *made;
    srq.entries = std::bit_ceil(request.max_wr);
    srq.stride = abi::recv_stride(std::max(request.max_sge, 1U));
    srq.max_sge = std::max(request.max_sge, 1U);
    if (const int error = allocate_rings(client, abi::srq_bytes(srq.entries, srq.stride), srq.memory);
        error != 0) {
        return error;
    }
    Rollback free_rings([&client, memory = srq.memory] { client.rings->release(memory); });
    srq.pd = pd;
    srq.xrcd = xrcd;
    srq.cq = cq;
    srq.worker = is_xrc ? xrcd->domain->worker : client.control.least_loaded_worker();
    srq.srq = std::make_unique<dataplane::NotifyingSrq>(
        SharedRecvQueue::Identity{*number, pd->number, is_xrc ? cq->cq.get() : nullptr},
        client.rings->at(srq.memory), srq.entries, srq.stride, srq.max_sge);
    srq.srq->async = pd->context->events();
    srq.srq->user_handle = request.user_handle;
    const std::uint32_t handle = client.srqs.add(std::move(made));
    // Nothing fails from here on.
    free_number.keep();
    free_rings.keep();
    publish_srq(client, srq);
    reply.set(describe(srq, handle, 0));
    reply.fds = {client.rings->fd()};
    return 0;
}

int modify_srq(ClientState& client, const abi::ModifySrqRequest& request, Reply& reply) {
    SrqObject* srq = client.srqs.find(request.srq);
    if (srq == nullptr) {
        return ENOENT;
    }
    if (request.mask == 0 || (request.mask & ~(kSrqMaxWr | kSrqLimit)) != 0) {
        return EINVAL;
    }
    const bool resizes = (request.mask & kSrqMaxWr) != 0;
    const std::uint32_t max_wr = resizes ? request.max_wr : srq->entries;
    if (max_wr == 0 || max_wr > srq->pd->context->device->device->caps.max_srq_wr ||
        ((request.mask & kSrqLimit) != 0 && request.limit > std::bit_ceil(max_wr))) {
        return EINVAL;
    }
    if (resizes) {
        if (const int error = resize_srq(client, *srq, std::bit_ceil(max_wr)); error != 0) {
            return error;
        }
        reply.fds = {client.rings->fd()};
    }
    std::uint32_t limit = 0;
    client.control.workers[srq->worker]->call([&] {
        if ((request.mask & kSrqLimit) != 0) {
            srq->srq->arm(request.limit);
        }
        limit = srq->srq->limit();
    });
    reply.set(describe(*srq, request.srq, limit));
    return 0;
}

int query_srq(ClientState& client, const abi::HandleRequest& request, Reply& reply) {
    const SrqObject* srq = client.srqs.find(request.handle);
    if (srq == nullptr) {
        return ENOENT;
    }
    std::uint32_t limit = 0;
    client.control.workers[srq->worker]->call([&] { limit = srq->srq->limit(); });
    reply.set(describe(*srq, request.handle, limit));
    return 0;
}

int destroy_srq(ClientState& client, const abi::HandleRequest& request, Reply& reply) {
    SrqObject* srq = client.srqs.find(request.handle);
    if (srq == nullptr) {
        return ENOENT;
    }
    if (srq->users > 0) {
        return EBUSY;
    }
    forget_srq(client, *srq);
    abi::DestroyReply body{};
    body.async_events = srq->srq->async_events.load();
    reply.set(body);
    client.srqs.remove(request.handle);
    return 0;
}

constexpr Operation kSrqOperations[] = {
    operation<create_srq>(abi::Op::kCreateSrq),
    operation<modify_srq>(abi::Op::kModifySrq),
    operation<query_srq>(abi::Op::kQuerySrq),
    operation<destroy_srq>(abi::Op::kDestroySrq),
};

}  // namespace

bool remove_srqs(ClientState& client, const ContextObject* context) {
    const auto batch = next_batch(
        client.srqs, [&](const SrqObject& srq) { return context == nullptr || srq.pd->context == context; },
        kSrqsPerStep, ring_bytes_per_step(client.is_ending));
    return remove_batch(client.srqs, batch, [&](SrqObject& srq) { forget_srq(client, srq); });
}

Operations srq_operations() { return kSrqOperations; }

}  // namespace urnic::daemon
