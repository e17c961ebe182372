// Address handles of a client.
#include <cerrno>

#include "base/check.h"
#include "daemon/neighbour/address_vector.h"
#include "daemon/verbs/ah.h"
#include "daemon/verbs/batch.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/operations.h"
#include "os/rollback.h"
#include "rnic/wire/frame.h"

namespace urnic::daemon {

namespace {

/// Slots of destroyed handles are given back in batches: each costs a round trip to every worker.
constexpr std::uint32_t kReleaseBatch = 64;

void release_removed(const ControlState& control, RnicState& device) {
    control.barrier();
    device.device->handles.release_removed();
}

void forget_ah(const AhObject& ah) {
    RnicState& device = *ah.pd->context->device;
    URNIC_CHECK(device.device->handles.remove(ah.key));
    device.device->neighbours->release(ah.neighbour);
    --device.num_ahs;
    --ah.pd->users;
}

int create_ah(ClientState& client, const abi::CreateAhRequest& request, Reply& reply) {
    PdObject* pd = client.pds.find(request.pd);
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
    if (client.ahs.size() >= client.control.limits.max_ahs || device.num_ahs >= device.device->caps.max_ah ||
        !client.user.has_room(Resource::kAhs)) {
        return ENOMEM;
    }
    const AddressHandles& handles = device.device->handles;
    if (handles.size() + handles.removed() == AddressHandles::kSlots) {
        release_removed(client.control, device);
    }
    spec.udp_src_port = wire::udp_source_port(spec.flow_label, 0, 0);
    auto ah = std::make_unique<AhObject>();
    ah->pd = pd;
    AhObject& made = *ah;
    abi::CreateAhReply body{};
    body.handle = client.ahs.add(std::move(ah));
    release.keep();
    made.neighbour = spec.neighbour;
    made.key = device.device->handles.add({.pd = pd->number,
                                           .has_flow_label = spec.flow_label != 0 || spec.is_infiniband,
                                           .path = wire::make_path(spec)});
    URNIC_CHECK(made.key != 0);
    ++pd->users;
    ++device.num_ahs;
    body.key = made.key;
    reply.set(body);
    return 0;
}

int destroy_ah(ClientState& client, const abi::HandleRequest& request, Reply& /*reply*/) {
    const AhObject* ah = client.ahs.find(request.handle);
    if (ah == nullptr) {
        return ENOENT;
    }
    RnicState& device = *ah->pd->context->device;
    // What was posted with it has long left a NIC. What still waits then waits for an answer: only
    // this thread tells workers of answers.
    for (const auto& worker : client.control.workers) {
        worker->call([&] { worker->catch_up(); });
    }
    forget_ah(*ah);
    client.ahs.remove(request.handle);
    if (device.device->handles.removed() >= kReleaseBatch) {
        release_removed(client.control, device);
    }
    return 0;
}

constexpr Operation kAhOperations[] = {
    operation<create_ah>(abi::Op::kCreateAh),
    operation<destroy_ah>(abi::Op::kDestroyAh),
};

}  // namespace

bool remove_ahs(ClientState& client, const ContextObject* context) {
    const auto batch = next_batch(
        client.ahs, [&](const AhObject& ah) { return context == nullptr || ah.pd->context == context; });
    const bool any = remove_batch(client.ahs, batch, forget_ah);
    for (const auto& device : client.control.devices) {
        if (device->device->handles.removed() >= kReleaseBatch) {
            release_removed(client.control, *device);
        }
    }
    return any;
}

Operations ah_operations() { return kAhOperations; }

}  // namespace urnic::daemon
