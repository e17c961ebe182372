// Address handles of a client.
#include <cerrno>

#include "base/check.h"
#include "daemon/neighbour/address_vector.h"
#include "daemon/verbs/client.h"
#include "os/rollback.h"
#include "rnic/wire/frame.h"

namespace urnic::dataplane {

namespace {

/// Slots of destroyed handles are given back in batches: each costs a round trip to every worker.
constexpr std::uint32_t kReleaseBatch = 64;

void release_removed(const ControlState& control, RnicState& device) {
    control.barrier();
    device.device->handles.release_removed();
}

}  // namespace

int Client::create_ah(const abi::CreateAhRequest& request, Request& /*message*/, Reply& reply) {
    PdObject* pd = pds_.find(request.pd);
    if (pd == nullptr) {
        return ENOENT;
    }
    if (request.av.port_num != 1) {
        return EINVAL;
    }
    RnicState& device = *pd->context->device;
    wire::PathSpec spec;
    if (const int error = resolve_address(*device.device, request.av, spec); error != 0) {
        return error;
    }
    NeighbourResolver& neighbours = *device.device->neighbours;
    Rollback release([&] { neighbours.release(spec.neighbour); });
    if (ahs_.size() >= control_.limits.max_ahs || device.num_ahs >= device.device->caps.max_ah) {
        return ENOMEM;
    }
    const AddressHandles& handles = device.device->handles;
    if (handles.size() + handles.removed() == AddressHandles::kSlots) {
        release_removed(control_, device);
    }
    spec.udp_src_port = wire::udp_source_port(spec.flow_label, 0, 0);
    auto ah = std::make_unique<AhObject>();
    ah->pd = pd;
    AhObject& made = *ah;
    abi::CreateAhReply body{};
    body.handle = ahs_.add(std::move(ah));
    release.keep();
    made.neighbour = spec.neighbour;
    made.key = device.device->handles.add(
        {.pd = pd->number, .has_flow_label = spec.flow_label != 0, .path = wire::make_path(spec)});
    URNIC_CHECK(made.key != 0);
    ++pd->users;
    ++device.num_ahs;
    body.key = made.key;
    reply.set(body);
    return 0;
}

int Client::destroy_ah(const abi::HandleRequest& request, Request& /*message*/, Reply& /*reply*/) {
    const AhObject* ah = ahs_.find(request.handle);
    if (ah == nullptr) {
        return ENOENT;
    }
    RnicState& device = *ah->pd->context->device;
    // What was posted with it has long gone out of a NIC. What still waits then waits for an answer: only
    // this thread tells workers of answers.
    for (const auto& worker : control_.workers) {
        worker->call([&] { worker->catch_up(); });
    }
    forget_ah(*ah);
    ahs_.remove(request.handle);
    if (device.device->handles.removed() >= kReleaseBatch) {
        release_removed(control_, device);
    }
    return 0;
}

void Client::forget_ah(const AhObject& ah) {
    RnicState& device = *ah.pd->context->device;
    URNIC_CHECK(device.device->handles.remove(ah.key));
    device.device->neighbours->release(ah.neighbour);
    --device.num_ahs;
    --ah.pd->users;
}

void Client::remove_ahs(const ContextObject* context) {
    for (auto entry = ahs_.begin(); entry != ahs_.end();) {
        if (context == nullptr || entry->second->pd->context == context) {
            forget_ah(*entry->second);
            entry = ahs_.remove(entry);
        } else {
            ++entry;
        }
    }
    for (const auto& device : control_.devices) {
        if (device->device->handles.removed() >= kReleaseBatch) {
            release_removed(control_, *device);
        }
    }
}

}  // namespace urnic::dataplane
