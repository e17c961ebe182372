// The calls of libibverbs that never reach a provider: ibv_create_comp_channel() writes a command to the
// context's command fd, ibv_destroy_comp_channel() closes the channel's fd, ibv_get_cq_event() and
// ibv_get_async_event() read what they take for pointers. All are diverted here, for libibverbs alone: the
// application's own write(), close() and read() stay as they are.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "abi/context_token.h"
#include "verbs_provider/core/got_patch.h"
#include "verbs_provider/core/verbs.h"
#include "verbs_provider/interpose/librdmacm_hooks.h"
#include "verbs_provider/memory/advised_memory.h"
#include "verbs_provider/memory/calls.h"

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

/// Returns whether libibverbs may have what it read. Events of a context of ours only if they name an object
/// that is not destroyed: libibverbs takes what stands in them for its address.
bool may_pass(int fd, const void* data, std::size_t got) {
    Guard guard(registry_mutex);
    for (Context* context = registry; context != nullptr; context = context->next_by_fd) {
        abi::AsyncEvent event{};
        if (context->verbs.context.async_fd == fd && got == sizeof event) {
            std::memcpy(&event, data, sizeof event);
            return may_report_async(*context, event);
        }
    }
    std::uint64_t element = 0;
    if (got != sizeof element) {
        return true;
    }
    std::memcpy(&element, data, sizeof element);
    bool is_ours = false;
    for (Context* context = registry; context != nullptr; context = context->next_by_fd) {
        if (may_report_completion(*context, element)) {
            return true;
        }
        is_ours = is_ours || find_channel(*context, fd) != nullptr;
    }
    return !is_ours;
}

extern "C" ssize_t urnic_read(int fd, void* data, std::size_t size) {
    ssize_t got = 0;
    do {
        got = read(fd, data, size);
    } while (got > 0 && !may_pass(fd, data, static_cast<std::size_t>(got)));
    return got;
}

// What libibverbs asks of the command fd of an imported context: a socket for asynchronous events, which it
// has already.
int serve_ioctl(const Context& context, unsigned long request, void* argument) {
    auto* header = static_cast<ib_uverbs_ioctl_hdr*>(argument);
    if (request != RDMA_VERBS_IOCTL || header->object_id != UVERBS_OBJECT_ASYNC_EVENT ||
        header->method_id != UVERBS_METHOD_ASYNC_EVENT_ALLOC || header->num_attrs != 1) {
        errno = ENOTTY;
        return -1;
    }
    header->attrs[0].data_s64 = context.verbs.context.async_fd;
    return 0;
}

extern "C" int urnic_ioctl(int fd, unsigned long request, void* argument) {
    {
        Guard guard(registry_mutex);
        const Context* context = find_by_command_fd(fd);
        if (context != nullptr) {
            return serve_ioctl(*context, request, argument);
        }
    }
    return ioctl(fd, request, argument);
}

// For programs that found us without the discovery shim, which does this too.
extern "C" int urnic_fstat(int fd, struct stat* status) {
    const int result = fstat(fd, status);
    if (result == 0 && is_context_token(fd, *status)) {
        show_as_device(*status);
    }
    return result;
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

// libibverbs looks for devices: librdmacm, which may have been loaded since we were, does that before
// anything else.
extern "C" DIR* urnic_opendir(const char* path) {
    install_cm_hooks();
    return opendir(path);
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

void install_memory_calls() {
    static constexpr memory::Calls kCalls{};
    auto* calls = static_cast<std::atomic<const memory::Calls*>*>(dlsym(RTLD_DEFAULT, memory::kCallsSymbol));
    if (calls != nullptr) {
        calls->store(&kCalls, std::memory_order_release);
    }
    memory::use_advised_memory(
        static_cast<const memory::AdvisedMemory*>(dlsym(RTLD_DEFAULT, memory::kAdvisedMemorySymbol)));
}

bool install_hooks() {
    // libibverbs is the library that defines what only providers call.
    const auto* inside = reinterpret_cast<const void*>(&verbs_register_driver_34);
    const GotPatch patches[] = {{"write", reinterpret_cast<void*>(&urnic_write)},
                                {"close", reinterpret_cast<void*>(&urnic_close)},
                                {"read", reinterpret_cast<void*>(&urnic_read)},
                                {"ioctl", reinterpret_cast<void*>(&urnic_ioctl)},
                                {"fstat", reinterpret_cast<void*>(&urnic_fstat)},
                                {"opendir", reinterpret_cast<void*>(&urnic_opendir)}};
    install_cm_hooks();
    return patch_got(inside, patches, 6) >= 3;
}

}  // namespace urnic::provider
