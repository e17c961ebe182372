// The calls of libibverbs that never reach a provider: ibv_create_comp_channel() writes a command to the
// context's command fd, ibv_destroy_comp_channel() closes the channel's fd. Both are diverted here, for
// libibverbs alone: the application's own write() and close() stay as they are.
#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include "verbs_provider/got_patch.h"
#include "verbs_provider/verbs.h"

namespace urnic::provider {

namespace {

Mutex registry_mutex;
Context* registry = nullptr;

Context* find_by_command_fd(int fd) {
    for (Context* context = registry; context != nullptr; context = context->next_by_fd) {
        if (context->verbs.context.cmd_fd == fd) {
            return context;
        }
    }
    return nullptr;
}

struct CreateChannelCommand {
    ib_uverbs_cmd_hdr header;
    ib_uverbs_create_comp_channel command;
};

/// A command that libibverbs itself gives for one of our contexts. There is only one it can need.
ssize_t serve_command(Context& context, const void* data, std::size_t size) {
    CreateChannelCommand request{};
    if (size < sizeof request) {
        errno = EOPNOTSUPP;
        return -1;
    }
    std::memcpy(&request, data, sizeof request);
    if (request.header.command != IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL) {
        errno = EOPNOTSUPP;
        return -1;
    }
    const int fd = create_channel(context);
    if (fd < 0) {
        return -1;
    }
    auto* response = at_address<ib_uverbs_create_comp_channel_resp>(request.command.response);
    response->fd = static_cast<__u32>(fd);
    return static_cast<ssize_t>(size);
}

extern "C" ssize_t urnic_write(int fd, const void* data, std::size_t size) {
    {
        Guard guard(registry_mutex);
        Context* context = find_by_command_fd(fd);
        if (context != nullptr) {
            return serve_command(*context, data, size);
        }
    }
    return write(fd, data, size);
}

extern "C" int urnic_close(int fd) {
    {
        Guard guard(registry_mutex);
        for (Context* context = registry; context != nullptr; context = context->next_by_fd) {
            end_channel_of_fd(*context, fd);
        }
    }
    return close(fd);
}

}  // namespace

Mutex& hooks_mutex() { return registry_mutex; }

void register_context(Context& context) {
    Guard guard(registry_mutex);
    context.next_by_fd = registry;
    registry = &context;
}

void unregister_context(Context& context) {
    Guard guard(registry_mutex);
    for (Context** at = &registry; *at != nullptr; at = &(*at)->next_by_fd) {
        if (*at == &context) {
            *at = context.next_by_fd;
            return;
        }
    }
}

bool install_hooks() {
    // libibverbs is the library that defines what only providers call.
    const auto* inside = reinterpret_cast<const void*>(&verbs_register_driver_34);
    const GotPatch patches[] = {{"write", reinterpret_cast<void*>(&urnic_write)},
                                {"close", reinterpret_cast<void*>(&urnic_close)}};
    return patch_got(inside, patches, 2) >= 2;
}

}  // namespace urnic::provider
