// Devices as a client opens them: contexts, port attributes, completion channels, protection domains.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "daemon/verbs/ah.h"
#include "daemon/verbs/batch.h"
#include "daemon/verbs/client_caps.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/cq.h"
#include "daemon/verbs/device.h"
#include "daemon/verbs/dm.h"
#include "daemon/verbs/mr.h"
#include "daemon/verbs/mw.h"
#include "daemon/verbs/operations.h"
#include "daemon/verbs/qp.h"
#include "daemon/verbs/srq.h"
#include "daemon/verbs/xrc.h"
#include "os/rollback.h"
#include "rnic/qp/limits.h"

namespace urnic::daemon {

namespace {

// Values of ibv_port_attr, as an active 100 Gb/s Ethernet port shows them.
constexpr std::uint8_t kPortDown = 1;
constexpr std::uint8_t kPortInit = 2;
constexpr std::uint8_t kPortArmed = 3;
constexpr std::uint8_t kPortActive = 4;
constexpr std::uint8_t kWidth4x = 2;
constexpr std::uint8_t kSpeedEdr = 32;
constexpr std::uint8_t kLinkLayerInfiniBand = 1;
constexpr std::uint8_t kLinkLayerEthernet = 2;
constexpr std::uint32_t kPortCmSupported = 1U << 16U;
constexpr std::uint8_t kMtu4096 = 5;

/// Makes the file whose descriptor stands for the context. It has no content and never gets any.
int make_token(ContextObject& context) {
    context.token = UniqueFd(::memfd_create(abi::kContextTokenName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    struct stat status {};
    if (!context.token ||
        ::fcntl(context.token.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) !=
            0 ||
        ::fstat(context.token.get(), &status) != 0) {
        return errno;
    }
    context.id = {status.st_dev, status.st_ino};
    return 0;
}

int open_device(ClientState& client, const abi::OpenDeviceRequest& request, Reply& reply) {
    const auto* end = std::find(std::begin(request.name), std::end(request.name), '\0');
    RnicState* device = client.control.find_device(std::string(std::begin(request.name), end));
    if (device == nullptr) {
        return ENODEV;
    }
    auto context = std::make_unique<ContextObject>();
    if (const int error = make_context(client, *device, context, reply); error != 0) {
        return error;
    }
    if (const int error = make_token(*context); error != 0) {
        return error;
    }
    const ContextToken id = context->id;
    const int token = context->token.get();
    ContextOwner& owner = client.control.contexts[id];
    Rollback forget([&] { client.control.contexts.erase(id); });
    abi::OpenDeviceReply body{};
    body.caps =
        client_caps(device->device->caps, client.control.limits, client.user, client.control.num_workers());
    body.context = client.contexts.add(std::move(context));
    forget.keep();
    owner = {&client, body.context, client.control.next_context_serial++, token};
    reply.set(body);
    reply.fds.push_back(token);
    return 0;
}

int close_device(ClientState& client, const abi::HandleRequest& request, Reply& /*reply*/) {
    const ContextObject* context = client.contexts.find(request.handle);
    if (context == nullptr) {
        return ENOENT;
    }
    // As when a uverbs file is closed: whatever is left in the context goes with it.
    if (end_some_objects(client, context)) {
        return kUnfinished;
    }
    forget_context(client, *context);
    client.control.disposer.take(client.contexts.take(request.handle));
    return 0;
}

}  // namespace

std::uint8_t port_state_of(const dataplane::Device& device) {
    if (device.port_state.is_up()) {
        return kPortActive;
    }
    return !device.port_state.has_link()       ? kPortDown
           : device.subnet.state == kPortArmed ? kPortArmed
                                               : kPortInit;
}

namespace {

int query_port(ClientState& client, const abi::QueryPortRequest& request, Reply& reply) {
    const ContextObject* context = client.contexts.find(request.context);
    if (context == nullptr) {
        return ENOENT;
    }
    if (request.port_num != 1) {
        return EINVAL;
    }
    const dataplane::Device& device = *context->device->device;
    abi::QueryPortReply body{};
    body.gid_table_len = device.caps.gid_table_len;
    body.pkey_table_len = static_cast<std::uint16_t>(device.caps.pkey_table_len);
    body.port_cap_flags = kPortCmSupported;
    body.max_msg_sz = kMaxMessageBytes;
    body.state = port_state_of(device);
    body.max_mtu = kMtu4096;
    // ibv_mtu: 256 bytes are 1, and each step doubles.
    body.active_mtu = static_cast<std::uint8_t>(std::bit_width(device.mtu_bytes / 256));
    body.active_width = kWidth4x;
    body.active_speed = kSpeedEdr;
    body.phys_state = static_cast<std::uint8_t>(device.port_state.phys());
    if (device.is_infiniband()) {
        body.port_cap_flags = device.subnet.capability_mask;
        body.link_layer = kLinkLayerInfiniBand;
        body.lid = device.subnet.lid;
        body.lmc = device.subnet.lmc;
        body.sm_lid = device.subnet.sm_lid;
        body.sm_sl = device.subnet.sm_sl;
    } else {
        body.link_layer = kLinkLayerEthernet;
    }
    body.max_vl_num = 1;
    for (std::uint32_t w = 0; w < client.control.num_workers(); ++w) {
        body.bad_pkey_counter += static_cast<std::uint32_t>(device.counters[w].drop_pkey.value());
        body.qkey_violation_counter += static_cast<std::uint32_t>(device.counters[w].drop_qkey.value());
    }
    reply.set(body);
    return 0;
}

int alloc_pd(ClientState& client, const abi::ContextRequest& request, Reply& reply) {
    ContextObject* context = client.contexts.find(request.context);
    if (context == nullptr) {
        return ENOENT;
    }
    return add_pd(client, *context, client.control.pd_numbers.allocate(), reply);
}

int dealloc_pd(ClientState& client, const abi::HandleRequest& request, Reply& /*reply*/) {
    const PdObject* pd = client.pds.find(request.handle);
    if (pd == nullptr) {
        return ENOENT;
    }
    if (pd->users > 0) {
        return EBUSY;
    }
    --pd->context->device->num_pds;
    client.pds.remove(request.handle);
    return 0;
}

int create_channel(ClientState& client, const abi::ContextRequest& request, Reply& reply) {
    ContextObject* context = client.contexts.find(request.context);
    if (context == nullptr) {
        return ENOENT;
    }
    if (client.channels.size() >= client.control.limits.max_channels ||
        !client.user.has_room(Resource::kChannels)) {
        return ENOMEM;
    }
    auto channel = std::make_unique<ChannelObject>();
    UniqueFd theirs;
    if (const int error = make_event_socket(channel->socket, theirs); error != 0) {
        return error;
    }
    // The provider gets our end, too, to put back what it has taken out and to wake readers when the daemon
    // dies. Of what it can do to it (flags, buffer sizes, shutdown) nothing makes send() wait.
    UniqueFd ours(::fcntl(channel->socket.get(), F_DUPFD_CLOEXEC, 0));
    if (!ours) {
        return errno;
    }
    channel->context = context;
    channel->channel.socket = {channel->socket.get(), context->budget};
    abi::HandleReply body{};
    body.handle = client.channels.add(std::move(channel));
    reply.set(body);
    reply.give(std::move(theirs));
    reply.give(std::move(ours));
    return 0;
}

int destroy_channel(ClientState& client, const abi::HandleRequest& request, Reply& /*reply*/) {
    const ChannelObject* channel = client.channels.find(request.handle);
    if (channel == nullptr) {
        return ENOENT;
    }
    if (channel->users > 0) {
        return EBUSY;
    }
    // Closing its socket wakes all its watchers.
    client.control.disposer.take(client.channels.take(request.handle));
    return 0;
}

constexpr Operation kDeviceOperations[] = {
    operation<open_device>(abi::Op::kOpenDevice),         operation<close_device>(abi::Op::kCloseDevice),
    operation<query_port>(abi::Op::kQueryPort),           operation<alloc_pd>(abi::Op::kAllocPd),
    operation<dealloc_pd>(abi::Op::kDeallocPd),           operation<create_channel>(abi::Op::kCreateChannel),
    operation<destroy_channel>(abi::Op::kDestroyChannel),
};

}  // namespace

/// A context with an event socket, whose other end goes with the reply. 0 or errno.
int make_context(const ClientState& client, RnicState& device, std::unique_ptr<ContextObject>& context,
                 Reply& reply) {
    if (client.contexts.size() >= client.control.limits.max_contexts ||
        !client.user.has_room(Resource::kContexts)) {
        return ENOMEM;
    }
    UniqueFd theirs;
    if (const int error = make_event_socket(context->async_fd, theirs); error != 0) {
        return error;
    }
    context->device = &device;
    context->budget = &client.user.wake_budget();
    reply.give(std::move(theirs));
    return 0;
}

/// Nobody finds the context by its command fd any more.
void forget_context(ClientState& client, const ContextObject& context) {
    if (!context.imported) {
        client.control.contexts.erase(context.id);
    }
}

void raise_port_event(const ClientState& client, const RnicState& device, AsyncEventType type) {
    const abi::AsyncEvent event{1, static_cast<std::uint32_t>(type), 0};
    for (const auto& [handle, context] : client.contexts) {
        if (context->device == &device) {
            // An application that lets its event socket fill up misses what comes then.
            (void)context->events().send(&event, sizeof event, EventSocket::Urgent::kYes);
        }
    }
}

/// A PD of that number, a new one or one that another client has, too.
int add_pd(ClientState& client, ContextObject& context, PdNumbers::Number number, Reply& reply) {
    if (client.pds.size() >= client.control.limits.max_pds ||
        context.device->num_pds >= context.device->device->caps.max_pd ||
        !client.user.has_room(Resource::kPds)) {
        return ENOMEM;
    }
    auto pd = std::make_unique<PdObject>();
    pd->context = &context;
    pd->number = *number;
    pd->keeps_number = std::move(number);
    abi::HandleReply body{};
    body.handle = client.pds.add(std::move(pd));
    ++context.device->num_pds;
    reply.set(body);
    return 0;
}

bool remove_pds_and_channels(ClientState& client, const ContextObject* context) {
    const auto ours = [&](const auto& object) { return context == nullptr || object.context == context; };
    const bool any_pds = remove_batch(client.pds, next_batch(client.pds, ours),
                                      [](const PdObject& pd) { --pd.context->device->num_pds; });
    const auto channels = next_batch(client.channels, ours);
    for (const auto at : channels) {
        client.control.disposer.take(std::move(at->second));
        client.channels.remove(at);
    }
    return any_pds || !channels.empty();
}

Operations device_operations() { return kDeviceOperations; }

}  // namespace urnic::daemon
