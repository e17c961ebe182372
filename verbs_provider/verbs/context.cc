// Registration with libibverbs, devices and contexts.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs_provider/core/verbs.h"
#include "verbs_provider/interpose/librdmacm_hooks.h"

namespace urnic::provider {

namespace {

constexpr std::uint32_t kUnknownDriver = 0;  // RDMA_DRIVER_UNKNOWN: not one of the kernel's

void free_context(struct ibv_context* ibv_context);

/// Of a verb that returns an error number: it stands in errno, too, as after rdma-core's ibv_cmd_*(), on
/// which programs written for other devices rely. (Posting does it itself.)
template <auto kVerb>
struct WithErrno;
template <class... Args, int (*kVerb)(Args...)>
struct WithErrno<kVerb> {
    static int call(Args... args) {
        const int error = kVerb(args...);
        if (error > 0) {
            errno = error;
        }
        return error;
    }
};

constexpr ContextOps kContextOps = [] {
    ContextOps ops{};
    ops.alloc_dm = alloc_dm;
    ops.alloc_mw = alloc_mw;
    ops.alloc_null_mr = alloc_null_mr;
    ops.alloc_parent_domain = alloc_parent_domain;
    ops.alloc_pd = alloc_pd;
    ops.alloc_td = alloc_td;
    ops.attach_mcast = WithErrno<attach_mcast>::call;
    ops.bind_mw = WithErrno<bind_mw>::call;
    ops.close_xrcd = WithErrno<close_xrcd>::call;
    ops.create_ah = create_ah;
    ops.create_cq = create_cq;
    ops.create_cq_ex = create_cq_ex;
    ops.create_qp = create_qp;
    ops.create_qp_ex = create_qp_ex;
    ops.create_srq = create_srq;
    ops.create_srq_ex = create_srq_ex;
    ops.dealloc_mw = WithErrno<dealloc_mw>::call;
    ops.dealloc_pd = WithErrno<dealloc_pd>::call;
    ops.dealloc_td = WithErrno<dealloc_td>::call;
    ops.dereg_mr = WithErrno<dereg_mr>::call;
    ops.destroy_ah = WithErrno<destroy_ah>::call;
    ops.destroy_cq = WithErrno<destroy_cq>::call;
    ops.destroy_qp = WithErrno<destroy_qp>::call;
    ops.detach_mcast = WithErrno<detach_mcast>::call;
    ops.destroy_srq = WithErrno<destroy_srq>::call;
    ops.free_context = free_context;
    ops.free_dm = WithErrno<free_dm>::call;
    ops.get_srq_num = WithErrno<get_srq_num>::call;
    ops.import_dm = import_dm;
    ops.import_mr = import_mr;
    ops.import_pd = import_pd;
    ops.modify_cq = WithErrno<modify_cq>::call;
    ops.modify_qp = WithErrno<modify_qp>::call;
    ops.modify_qp_rate_limit = WithErrno<modify_qp_rate_limit>::call;
    ops.modify_srq = WithErrno<modify_srq>::call;
    ops.open_qp = open_qp;
    ops.open_xrcd = open_xrcd;
    ops.poll_cq = poll_cq;
    ops.post_recv = post_recv;
    ops.post_send = post_send;
    ops.post_srq_recv = post_srq_recv;
    ops.query_device_ex = WithErrno<query_device>::call;
    ops.query_port = WithErrno<query_port>::call;
    ops.query_qp = WithErrno<query_qp>::call;
    ops.query_qp_data_in_order = query_qp_data_in_order;
    ops.query_rt_values = WithErrno<query_rt_values>::call;
    ops.query_srq = WithErrno<query_srq>::call;
    ops.reg_dm_mr = reg_dm_mr;
    ops.reg_mr = reg_mr;
    ops.req_notify_cq = WithErrno<req_notify_cq>::call;
    ops.rereg_mr = rereg_mr;
    ops.resize_cq = WithErrno<resize_cq>::call;
    ops.unimport_dm = unimport_dm;
    ops.unimport_mr = unimport_mr;
    ops.unimport_pd = unimport_pd;
    return ops;
}();

/// The kernel names its devices uverbs0, uverbs1...; the daemon's are uverbs_ and the device's name.
bool match_device(SysfsDevice* sysfs_device) {
    constexpr char kPrefix[] = "uverbs_";
    constexpr std::size_t kPrefixLength = sizeof kPrefix - 1;
    return std::strncmp(sysfs_device->sysfs_name, kPrefix, kPrefixLength) == 0 &&
           std::strncmp(sysfs_device->sysfs_name + kPrefixLength, sysfs_device->ibdev_name,
                        IBV_SYSFS_NAME_MAX - kPrefixLength) == 0;
}

/// A device, in the list of those that libibverbs has, which hooks_mutex() guards.
struct ListedDevice {
    PrivateDevice device;
    ListedDevice* next;
};
ListedDevice* devices = nullptr;

PrivateDevice* alloc_device(SysfsDevice*) {
    auto* listed = static_cast<ListedDevice*>(std::calloc(1, sizeof(ListedDevice)));
    if (listed == nullptr) {
        return nullptr;
    }
    Guard guard(hooks_mutex());
    listed->next = devices;
    devices = listed;
    return &listed->device;
}

void uninit_device(PrivateDevice* device) {
    auto* listed = reinterpret_cast<ListedDevice*>(device);
    {
        Guard guard(hooks_mutex());
        unlink(devices, listed);
    }
    std::free(listed);
}

int open_events(Context& context, int daemon_socket) {
    context.event_in = daemon_socket;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return errno;
    }
    context.verbs.context.async_fd = pair[0];
    context.event_out = pair[1];
    return 0;
}

void close_events(Context& context) {
    for (int* fd : {&context.event_in, &context.event_out}) {
        if (*fd >= 0) {
            close(*fd);
            *fd = -1;
        }
    }
}

/// The daemon's file in place of the one that libibverbs opened: who is sent the descriptor can import the
/// context.
int put_token(int cmd_fd, int token) { return dup3(token, cmd_fd, O_CLOEXEC) == cmd_fd ? 0 : errno; }

/// The command fd is ours whatever comes of it.
struct verbs_context* refuse(int cmd_fd, int error) {
    close(cmd_fd);
    errno = error;
    return nullptr;
}

struct verbs_context* alloc_context(struct ibv_device* device, int cmd_fd, void*) {
    Session* session = Session::acquire();
    if (session == nullptr) {
        return refuse(cmd_fd, errno);
    }
    abi::OpenDeviceRequest request{};
    snprintf(request.name, sizeof request.name, "%s", device->name);
    abi::OpenDeviceReply reply{};
    ReplyFds fds;
    int error = session->call(abi::Op::kOpenDevice, request, reply, &fds);
    if (error == 0) {
        error = fds.count() == 2 ? put_token(cmd_fd, fds.peek(1)) : EPROTO;
        if (error != 0) {
            (void)session->call_handle(abi::Op::kCloseDevice, reply.context);
        }
    }
    if (error != 0) {
        fprintf(stderr, "urnic: the RNIC daemon did not open device %s: %s\n", device->name, strerror(error));
        Session::release(session);
        return refuse(cmd_fd, error);
    }
    struct verbs_context* context = make_context(device, cmd_fd, session, reply.context, reply.caps, fds);
    if (context == nullptr) {
        error = errno;
        (void)session->call_handle(abi::Op::kCloseDevice, reply.context);
        Session::release(session);
        errno = error;
    }
    return context;
}

void free_context(struct ibv_context* ibv_context) {
    Context* context = context_of(ibv_context);
    Session* session = context->session;
    unregister_context(*context);
    session->remove_context(context);
    // Whatever the application left behind ends with the context; the answer changes nothing.
    (void)session->call_handle(abi::Op::kCloseDevice, context->handle);
    while (context->channels != nullptr) {
        Channel* channel = context->channels;
        context->channels = channel->next;
        channel->close_fds();
        free_object(channel);
    }
    for (auto& leaf : context->qp_table.leaves) {
        std::free(leaf.load());
    }
    close_events(*context);
    std::free(context->events.items);
    Session::release(session);
    verbs_uninit_context(&context->verbs);
    std::free(context);
}

constexpr DeviceOps kDeviceOps = [] {
    DeviceOps ops{};
    ops.name = "urnic";
    ops.match_min_abi_version = 1;
    ops.match_max_abi_version = 1;
    ops.match_device = match_device;
    ops.alloc_context = alloc_context;
    ops.import_context = import_context;
    ops.alloc_device = alloc_device;
    ops.uninit_device = uninit_device;
    return ops;
}();

}  // namespace

struct ibv_device* find_device(const char* name) {
    Guard guard(hooks_mutex());
    for (ListedDevice* listed = devices; listed != nullptr; listed = listed->next) {
        if (std::strncmp(listed->device.device.name, name, sizeof listed->device.device.name) == 0) {
            return &listed->device.device;
        }
    }
    return nullptr;
}

struct verbs_context* make_context(struct ibv_device* device, int cmd_fd, Session* session,
                                   std::uint32_t handle, const abi::DeviceCaps& caps, ReplyFds& fds) {
    auto* offset = at_address<struct verbs_context>(offsetof(Context, verbs));
    auto* context = static_cast<Context*>(
        _verbs_init_and_alloc_context(device, cmd_fd, sizeof(Context), offset, kUnknownDriver));
    if (context == nullptr) {
        return nullptr;
    }
    context->event_out = -1;
    context->session = session;
    context->handle = handle;
    context->caps = caps;
    const int error = open_events(*context, fds.take(0));
    if (error != 0) {
        close_events(*context);
        verbs_uninit_context(&context->verbs);
        std::free(context);
        errno = error;
        return nullptr;
    }
    context->verbs.context.num_comp_vectors = static_cast<int>(session->num_workers());
    verbs_set_ops(&context->verbs, &kContextOps);
    register_context(*context);
    session->add_context(context);
    return &context->verbs;
}

std::size_t qp_ex_flag_offset() {
    static const std::size_t found = [] {
        for (const std::size_t candidate : {std::size_t{352}, std::size_t{344}, std::size_t{360}}) {
            alignas(16) std::byte probe[kPrivateQpRoom] = {};
            std::memcpy(probe + candidate, &kPrivateQpEx, sizeof kPrivateQpEx);
            if (ibv_qp_to_qp_ex(reinterpret_cast<struct ibv_qp*>(probe)) != nullptr) {
                return candidate;
            }
        }
        return std::size_t{0};
    }();
    return found;
}

int QpTable::insert(std::uint32_t qp_num, Qp& qp) {
    if (qp_num == 0 || qp_num > kMaxQpNum) {
        return EPROTO;
    }
    std::atomic<Leaf*>& place = leaves[(qp_num >> kLeafBits) % kLeafSize];
    Leaf* leaf = place.load(std::memory_order_relaxed);
    if (leaf == nullptr) {
        leaf = static_cast<Leaf*>(std::calloc(1, sizeof(Leaf)));
        if (leaf == nullptr) {
            return ENOMEM;
        }
        place.store(leaf, std::memory_order_release);
    }
    Entry& entry = leaf->entries[qp_num % kLeafSize];
    if (entry.qp.load(std::memory_order_relaxed) != nullptr) {
        return EPROTO;
    }
    entry.qp.store(&qp, std::memory_order_relaxed);
    entry.send_cq.store(qp.qp.send_cq != nullptr ? cq_of(qp.qp.send_cq) : nullptr, std::memory_order_release);
    entry.recv_cq.store(qp.qp.recv_cq != nullptr ? cq_of(qp.qp.recv_cq) : nullptr, std::memory_order_release);
    return 0;
}

void QpTable::remove(std::uint32_t qp_num) {
    Leaf* leaf = leaves[(qp_num >> kLeafBits) % kLeafSize].load(std::memory_order_relaxed);
    if (leaf != nullptr) {
        Entry& entry = leaf->entries[qp_num % kLeafSize];
        entry.send_cq.store(nullptr, std::memory_order_release);
        entry.recv_cq.store(nullptr, std::memory_order_release);
        entry.qp.store(nullptr, std::memory_order_release);
    }
}

}  // namespace urnic::provider

/// Runs when libibverbs loads this file.
__attribute__((constructor)) static void register_urnic() {
    using namespace urnic::provider;
    if (!install_hooks()) {
        fprintf(stderr, "urnic: cannot divert calls of libibverbs; completion channels will not work\n");
    }
    // In this order: a child writes to its sessions, which lie on the heap, when the heap is its own.
    urnic::memory::install_fork_handlers();
    Session::install_fork_handlers();
    install_cm_fork_handlers();
    verbs_register_driver_34(&kDeviceOps);
}
