// Devices as a client opens them: contexts, port attributes, completion channels, protection domains.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "daemon/verbs/client.h"
#include "daemon/verbs/client_caps.h"
#include "os/rollback.h"
#include "rnic/qp/limits.h"

namespace urnic::dataplane {

namespace {

// Values of ibv_port_attr, as an active 100 Gb/s Ethernet port shows them.
constexpr std::uint8_t kPortDown = 1;
constexpr std::uint8_t kPortActive = 4;
constexpr std::uint8_t kWidth4x = 2;
constexpr std::uint8_t kSpeedEdr = 32;
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

}  // namespace

int Client::open_device(const abi::OpenDeviceRequest& request, Request& /*message*/, Reply& reply) {
    const auto* end = std::find(std::begin(request.name), std::end(request.name), '\0');
    RnicState* device = control_.find_device(std::string(std::begin(request.name), end));
    if (device == nullptr) {
        return ENODEV;
    }
    auto context = std::make_unique<ContextObject>();
    if (const int error = make_context(*device, context, reply); error != 0) {
        return error;
    }
    if (const int error = make_token(*context); error != 0) {
        return error;
    }
    const ContextToken id = context->id;
    const int token = context->token.get();
    ContextOwner& owner = control_.contexts[id];
    Rollback forget([&] { control_.contexts.erase(id); });
    abi::OpenDeviceReply body{};
    body.caps = client_caps(device->device->caps, control_.limits, control_.num_workers());
    body.context = contexts_.add(std::move(context));
    forget.keep();
    owner = {this, body.context, control_.next_context_serial++, token};
    reply.set(body);
    reply.fds.push_back(token);
    return 0;
}

/// A context with an event socket, whose other end goes with the reply. 0 or errno.
int Client::make_context(RnicState& device, std::unique_ptr<ContextObject>& context, Reply& reply) const {
    if (contexts_.size() >= control_.limits.max_contexts) {
        return ENOMEM;
    }
    int pair[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return errno;
    }
    UniqueFd ours(pair[0]);
    UniqueFd theirs(pair[1]);
    context->device = &device;
    context->async_fd = std::move(ours);
    // Only our end: whether reads block is the application's choice.
    if (::fcntl(pair[0], F_SETFL, O_NONBLOCK) != 0) {
        return errno;
    }
    reply.give(std::move(theirs));
    return 0;
}

/// Nobody finds the context by its command fd any more.
void Client::forget_context(const ContextObject& context) {
    if (!context.imported) {
        control_.contexts.erase(context.id);
    }
}

int Client::close_device(const abi::HandleRequest& request, Request& /*message*/, Reply& /*reply*/) {
    const ContextObject* context = contexts_.find(request.handle);
    if (context == nullptr) {
        return ENOENT;
    }
    // As when a uverbs file is closed: whatever is left in the context goes with it.
    send_posted(context);
    remove_qps(context);
    remove_xrc_targets(context);
    remove_srqs(context);
    remove_xrcds(context);
    remove_ahs(context);
    remove_cqs(context);
    remove_mws(context);
    remove_mrs(context);
    remove_dms(context);
    remove_pds_and_channels(context);
    forget_context(*context);
    contexts_.remove(request.handle);
    return 0;
}

int Client::query_port(const abi::QueryPortRequest& request, Request& /*message*/, Reply& reply) {
    const ContextObject* context = contexts_.find(request.context);
    if (context == nullptr) {
        return ENOENT;
    }
    if (request.port_num != 1) {
        return EINVAL;
    }
    const Device& device = *context->device->device;
    abi::QueryPortReply body{};
    body.gid_table_len = device.caps.gid_table_len;
    body.pkey_table_len = static_cast<std::uint16_t>(device.caps.pkey_table_len);
    body.port_cap_flags = kPortCmSupported;
    body.max_msg_sz = kMaxMessageBytes;
    body.state = device.port_state.is_up() ? kPortActive : kPortDown;
    body.max_mtu = kMtu4096;
    // ibv_mtu: 256 bytes are 1, and each step doubles.
    body.active_mtu = static_cast<std::uint8_t>(std::bit_width(device.mtu_bytes / 256));
    body.active_width = kWidth4x;
    body.active_speed = kSpeedEdr;
    body.phys_state = static_cast<std::uint8_t>(device.port_state.phys());
    body.link_layer = kLinkLayerEthernet;
    body.max_vl_num = 1;
    for (std::uint32_t w = 0; w < control_.num_workers(); ++w) {
        body.bad_pkey_counter += static_cast<std::uint32_t>(device.counters[w].drop_pkey.value());
        body.qkey_violation_counter += static_cast<std::uint32_t>(device.counters[w].drop_qkey.value());
    }
    reply.set(body);
    return 0;
}

void Client::raise(const RnicState& device, AsyncEventType type) const {
    const abi::AsyncEvent event{1, static_cast<std::uint32_t>(type), 0};
    for (const auto& [handle, context] : contexts_) {
        if (context->device == &device) {
            // An application that lets its event socket fill up misses what comes then.
            (void)::send(context->async_fd.get(), &event, sizeof event, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
    }
}

int Client::alloc_pd(const abi::ContextRequest& request, Request& /*message*/, Reply& reply) {
    ContextObject* context = contexts_.find(request.context);
    if (context == nullptr) {
        return ENOENT;
    }
    return add_pd(*context, control_.next_pd_number++, reply);
}

/// A PD of that number, a new one or one that another client has, too.
int Client::add_pd(ContextObject& context, std::uint32_t number, Reply& reply) {
    if (pds_.size() >= control_.limits.max_pds ||
        context.device->num_pds >= context.device->device->caps.max_pd) {
        return ENOMEM;
    }
    auto pd = std::make_unique<PdObject>();
    pd->context = &context;
    pd->number = number;
    abi::HandleReply body{};
    body.handle = pds_.add(std::move(pd));
    ++context.device->num_pds;
    reply.set(body);
    return 0;
}

int Client::dealloc_pd(const abi::HandleRequest& request, Request& /*message*/, Reply& /*reply*/) {
    const PdObject* pd = pds_.find(request.handle);
    if (pd == nullptr) {
        return ENOENT;
    }
    if (pd->users > 0) {
        return EBUSY;
    }
    --pd->context->device->num_pds;
    pds_.remove(request.handle);
    return 0;
}

int Client::create_channel(const abi::ContextRequest& request, Request& /*message*/, Reply& reply) {
    ContextObject* context = contexts_.find(request.context);
    if (context == nullptr) {
        return ENOENT;
    }
    if (channels_.size() >= control_.limits.max_channels) {
        return ENOMEM;
    }
    int pipe_fds[2] = {-1, -1};
    if (::pipe2(pipe_fds, O_CLOEXEC) != 0) {
        return errno;
    }
    UniqueFd read_end(pipe_fds[0]);
    UniqueFd write_end(pipe_fds[1]);
    // The provider gets an open file description of its own: O_NONBLOCK on a shared one would be its to
    // change.
    UniqueFd provider_end(
        ::open(fmt::format("/proc/self/fd/{}", pipe_fds[1]).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!provider_end || ::fcntl(write_end.get(), F_SETFL, O_NONBLOCK) != 0) {
        return errno;
    }
    auto channel = std::make_unique<ChannelObject>();
    channel->context = context;
    channel->write_end = std::move(write_end);
    abi::HandleReply body{};
    body.handle = channels_.add(std::move(channel));
    reply.set(body);
    reply.give(std::move(read_end));
    reply.give(std::move(provider_end));
    return 0;
}

int Client::destroy_channel(const abi::HandleRequest& request, Request& /*message*/, Reply& /*reply*/) {
    const ChannelObject* channel = channels_.find(request.handle);
    if (channel == nullptr) {
        return ENOENT;
    }
    if (channel->users > 0) {
        return EBUSY;
    }
    channels_.remove(request.handle);
    return 0;
}

void Client::remove_pds_and_channels(const ContextObject* context) {
    for (auto entry = pds_.begin(); entry != pds_.end();) {
        const PdObject& pd = *entry->second;
        if (context == nullptr || pd.context == context) {
            --pd.context->device->num_pds;
            entry = pds_.remove(entry);
        } else {
            ++entry;
        }
    }
    for (auto entry = channels_.begin(); entry != channels_.end();) {
        const bool ours = context == nullptr || entry->second->context == context;
        entry = ours ? channels_.remove(entry) : std::next(entry);
    }
}

}  // namespace urnic::dataplane
