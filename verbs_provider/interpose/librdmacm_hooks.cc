#include "verbs_provider/interpose/librdmacm_hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "verbs_provider/core/address.h"
#include "verbs_provider/core/deferred_modifies.h"
#include "verbs_provider/core/got_patch.h"
#include "verbs_provider/core/session.h"
#include "verbs_provider/interpose/cm_ids.h"

namespace urnic::provider {

namespace {

constexpr char kDevice[] = "/dev/infiniband/rdma_cm";
constexpr unsigned kNullMajor = 1;
constexpr unsigned kNullMinor = 3;

/// One open event channel, in the table until it is closed. As an open file it lives while a thread is inside
/// a command: one that waits for an event continues waiting when another closes the channel.
struct CmChannel {
    int fd;
    ino_t inode;  // of the socket: the application may have closed the descriptor by itself
    Session* session;
    std::uint32_t handle;
    std::uint32_t users;               // the table's place among them
    std::atomic<std::uint32_t> taken;  // messages received
    std::atomic<bool> silent;          // the daemon is dead and every id was told: nothing comes any more
    int silent_peer;                   // the other end of what stands in the socket's place then
    CmChannel* next;
};

constexpr std::size_t kBuckets = 256;
Mutex channels_mutex;
CmChannel* channels[kBuckets] = {};

CmChannel*& bucket(int fd) { return channels[static_cast<unsigned>(fd) % kBuckets]; }

ino_t inode_of(int fd) {
    struct stat status {};
    return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

/// Under channels_mutex.
CmChannel** place_of(int fd) {
    for (CmChannel** at = &bucket(fd); *at != nullptr; at = &(*at)->next) {
        if ((*at)->fd == fd && (*at)->inode == inode_of(fd)) {
            return at;
        }
    }
    return nullptr;
}

CmChannel* acquire_channel(int fd) {
    const int saved = errno;
    Guard guard(channels_mutex);
    CmChannel** at = place_of(fd);
    errno = saved;
    if (at == nullptr) {
        return nullptr;
    }
    ++(*at)->users;
    return *at;
}

CmPlace place_of(const CmChannel& channel) { return {channel.session, channel.handle}; }

void release_channel(CmChannel* channel) {
    {
        Guard guard(channels_mutex);
        if (--channel->users != 0) {
            return;
        }
    }
    forget_cm_channel(place_of(*channel));
    (void)channel->session->call_handle(abi::Op::kCloseCmChannel, channel->handle);
    Session::release(channel->session);
    if (channel->silent.load()) {
        close(channel->silent_peer);
    }
    std::free(channel);
}

/// The socket of a daemon that is dead is readable for ever, and whoever polls it would spin. Puts one in its
/// place that never is.
void silence(CmChannel& channel) {
    Guard guard(channels_mutex);
    CmChannel** at = place_of(channel.fd);
    int ends[2];
    if (at == nullptr || *at != &channel || channel.silent.load() ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return;
    }
    const int flags = fcntl(channel.fd, F_GETFL);
    const int descriptor_flags = fcntl(channel.fd, F_GETFD);
    (void)fcntl(ends[0], F_SETFL, flags);
    (void)dup3(ends[0], channel.fd, (descriptor_flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
    close(ends[0]);
    channel.inode = inode_of(channel.fd);
    channel.silent_peer = ends[1];
    channel.silent.store(true);
}

bool is_our_device(int fd) {
    struct stat status {};
    // The daemon's tree leads to /dev/null; anything else is the kernel's, and stays what it is.
    return fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) &&
           status.st_rdev == makedev(kNullMajor, kNullMinor);
}

/// The channel's descriptor, or -1 with errno set.
int open_channel(bool close_on_exec) {
    auto* channel = static_cast<CmChannel*>(std::calloc(1, sizeof(CmChannel)));
    if (channel == nullptr) {
        return -1;
    }
    channel->session = Session::acquire();
    if (channel->session == nullptr) {
        std::free(channel);
        return -1;
    }
    abi::OpenCmChannelRequest request{};
    abi::HandleReply reply{};
    ReplyFds fds;
    int error = channel->session->call(abi::Op::kOpenCmChannel, request, reply, &fds);
    if (error == 0 && fds.count() != 1) {
        error = EPROTO;
    }
    if (error != 0) {
        Session::release(channel->session);
        std::free(channel);
        errno = error;
        return -1;
    }
    const int fd = fds.take(0);
    if (!close_on_exec) {
        fcntl(fd, F_SETFD, 0);
    }
    channel->fd = fd;
    channel->inode = inode_of(fd);
    channel->handle = reply.handle;
    channel->users = 1;
    Guard guard(channels_mutex);
    channel->next = bucket(fd);
    bucket(fd) = channel;
    return fd;
}

/// Where in a command's body the pointer to the answer's place stands; -1: it has no answer.
constexpr int response_place(std::uint32_t command) {
    switch (command) {
        case RDMA_USER_CM_CMD_CREATE_ID:
            return offsetof(rdma_ucm_create_id, response);
        case RDMA_USER_CM_CMD_DESTROY_ID:
        case RDMA_USER_CM_CMD_LEAVE_MCAST:
            return offsetof(rdma_ucm_destroy_id, response);
        case RDMA_USER_CM_CMD_QUERY_ROUTE:
        case RDMA_USER_CM_CMD_QUERY:
            return offsetof(rdma_ucm_query, response);
        case RDMA_USER_CM_CMD_INIT_QP_ATTR:
            return offsetof(rdma_ucm_init_qp_attr, response);
        case RDMA_USER_CM_CMD_GET_EVENT:
            return offsetof(rdma_ucm_get_event, response);
        case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
            return offsetof(rdma_ucm_join_ip_mcast, response);
        case RDMA_USER_CM_CMD_JOIN_MCAST:
            return offsetof(rdma_ucm_join_mcast, response);
        case RDMA_USER_CM_CMD_MIGRATE_ID:
            return offsetof(rdma_ucm_migrate_id, response);
        default:
            return -1;
    }
}

/// What a command names outside its body is put in; `other`: the descriptor of a second channel. 0 or errno.
int complete_body(abi::CmCommandRequest& request, int& other) {
    if (request.command == RDMA_USER_CM_CMD_SET_OPTION && request.in_bytes == sizeof(rdma_ucm_set_option)) {
        rdma_ucm_set_option option{};
        std::memcpy(&option, request.body, sizeof option);
        if (option.optlen > sizeof request.body - sizeof option) {
            return EINVAL;
        }
        std::memcpy(request.body + sizeof option, at_address<const void>(option.optval), option.optlen);
        request.in_bytes += option.optlen;
    } else if (request.command == RDMA_USER_CM_CMD_MIGRATE_ID &&
               request.in_bytes >= sizeof(rdma_ucm_migrate_id)) {
        rdma_ucm_migrate_id migrate{};
        std::memcpy(&migrate, request.body, sizeof migrate);
        other = static_cast<int>(migrate.fd);
        CmChannel* from = acquire_channel(other);
        if (from == nullptr) {
            return EINVAL;
        }
        migrate.fd = from->handle;
        release_channel(from);
        std::memcpy(request.body, &migrate, sizeof migrate);
    }
    return 0;
}

/// Sleeps until an event waits, unless the channel does not block. 0 or errno. As with a read of the kernel's
/// device, a signal whose handler restarts system calls is not seen.
int wait_for_event(const CmChannel& channel) {
    if (channel.silent.load()) {
        return EIO;
    }
    char byte = 0;
    const ssize_t got = recv(channel.fd, &byte, sizeof byte, MSG_PEEK);
    if (got < 0) {
        return errno;
    }
    return got == 0 ? EIO : 0;  // the daemon is dead
}

/// Receives the messages whose events were taken, and leaves those of events that have come since.
void take_messages(CmChannel& channel, const abi::CmChannelFill& fill) {
    const int saved = errno;
    std::uint32_t taken = channel.taken.load();
    while (static_cast<std::int32_t>(fill.announced - taken - fill.waiting) > 0 && !channel.silent.load()) {
        char byte = 0;
        if (channel.taken.compare_exchange_weak(taken, taken + 1)) {
            if (recv(channel.fd, &byte, sizeof byte, MSG_DONTWAIT) <= 0) {
                break;  // what is announced is there: this was not
            }
            ++taken;
        }
    }
    errno = saved;
}

/// The same of the channel that an id came from.
void take_messages_of(int fd, const abi::CmChannelFill& fill) {
    if (CmChannel* channel = acquire_channel(fd); channel != nullptr) {
        take_messages(*channel, fill);
        release_channel(channel);
    }
}

bool ends_something(std::uint32_t command) {
    return command == RDMA_USER_CM_CMD_DESTROY_ID || command == RDMA_USER_CM_CMD_LEAVE_MCAST;
}

/// GET_EVENT without a daemon. 0 or errno.
int event_of_gone_daemon(CmChannel& channel, abi::CmCommandReply& reply) {
    reply.out_bytes = static_cast<std::uint32_t>(
        next_event_of_gone_daemon(place_of(channel), reply.body, sizeof reply.body));
    if (reply.out_bytes != 0) {
        return 0;
    }
    silence(channel);
    return EIO;
}

/// To the daemon and back, with what waits for this command.
int send_command(Session& session, const abi::CmCommandRequest& request, abi::CmCommandReply& reply) {
    if (request.command == RDMA_USER_CM_CMD_ACCEPT && deferred_modifies().count != 0) {
        abi::CmAcceptRequest accept{};
        accept.command = request;
        deferred_modifies().move_to(session, accept);
        return session.call(abi::Op::kCmAccept, accept, reply);
    }
    abi::CmCommandRequest command = request;
    return session.call(abi::Op::kCmCommand, command, reply);
}

/// 0 or errno.
int exchange(CmChannel& channel, abi::CmCommandRequest& request, abi::CmCommandReply& reply) {
    for (;;) {
        if (request.command == RDMA_USER_CM_CMD_GET_EVENT) {
            if (const int error = wait_for_event(channel); error != 0) {
                return error == EIO ? event_of_gone_daemon(channel, reply) : error;
            }
        }
        reply = {};
        const std::uint64_t changes_before = cm_changes();
        const int error = send_command(*channel.session, request, reply);
        take_messages(channel, reply.own);
        drop_cm_snapshot(place_of(channel), request.command, request.body, request.in_bytes);
        if (error == EIO && request.command == RDMA_USER_CM_CMD_GET_EVENT) {
            return event_of_gone_daemon(channel, reply);
        }
        if (error == 0) {
            reply.out_bytes = std::min<std::uint32_t>(reply.out_bytes, request.out_bytes);
            std::memset(reply.body + reply.out_bytes, 0, sizeof reply.body - reply.out_bytes);
            const CmAnswer answer = take_cm_answer(place_of(channel), request.command, request.body,
                                                   request.in_bytes, reply.body, reply.out_bytes);
            if (answer == CmAnswer::kOfNobody) {
                continue;
            }
            if (answer == CmAnswer::kGood && request.command == RDMA_USER_CM_CMD_GET_EVENT) {
                keep_cm_snapshot(place_of(channel), reply.snapshot, changes_before);
            }
            return answer == CmAnswer::kImpossible ? EIO : 0;
        }
        // EAGAIN: another thread was first.
        if (error != EAGAIN || request.command != RDMA_USER_CM_CMD_GET_EVENT) {
            if (ends_something(request.command)) {
                // It has ended already, with the daemon or before; no event was reported that is not
                // acknowledged. librdmacm drops its ids of its own and all groups whatever the answer.
                reply.out_bytes = sizeof(rdma_ucm_destroy_id_resp);
                (void)take_cm_answer(place_of(channel), request.command, request.body, request.in_bytes,
                                     reply.body, reply.out_bytes);
                return error == EIO || request.command == RDMA_USER_CM_CMD_DESTROY_ID ? 0 : error;
            }
            forget_refused_join(request.command, request.body, request.in_bytes);
            return error;
        }
    }
}

/// librdmacm changes the QP next, if it has got attributes without a request.
void announce_state(const abi::CmCommandRequest& request, bool is_known) {
    rdma_ucm_init_qp_attr init{};
    if (is_known && request.command == RDMA_USER_CM_CMD_INIT_QP_ATTR) {
        std::memcpy(&init, request.body, sizeof init);
    }
    deferred_modifies().announced_state = init.qp_state;
}

/// 0 or errno.
int serve(CmChannel& channel, const void* data, std::size_t size) {
    rdma_ucm_cmd_hdr header{};
    if (size < sizeof header) {
        return EINVAL;
    }
    std::memcpy(&header, data, sizeof header);
    abi::CmCommandRequest request{};
    if (header.in > size - sizeof header || header.in > sizeof request.body) {
        return EINVAL;
    }
    request.channel = channel.handle;
    request.command = header.cmd;
    request.in_bytes = header.in;
    request.out_bytes = std::min<std::uint32_t>(header.out, sizeof request.body);
    std::memcpy(request.body, static_cast<const char*>(data) + sizeof header, header.in);
    void* response = nullptr;
    if (const int place = response_place(header.cmd); place >= 0) {
        if (header.in < static_cast<unsigned>(place) + sizeof(std::uint64_t)) {
            return EINVAL;
        }
        std::uint64_t pointer = 0;
        std::memcpy(&pointer, request.body + place, sizeof pointer);
        response = at_address<void>(pointer);
    }
    int other = -1;
    if (const int error = complete_body(request, other); error != 0) {
        return error;
    }
    abi::CmCommandReply reply{};
    int error = 0;
    const bool is_known = answer_from_cm_snapshot(place_of(channel), request.command, request.body,
                                                  request.in_bytes, reply.body, request.out_bytes);
    announce_state(request, is_known);
    if (!is_known) {
        note_cm_command(place_of(channel), request.command, request.body, request.in_bytes);
        error = exchange(channel, request, reply);
    }
    if (other >= 0) {
        take_messages_of(other, reply.other);
    }
    if (error == 0 && response != nullptr) {
        // All that was asked for: librdmacm does not look how much came.
        std::memcpy(response, reply.body, request.out_bytes);
    }
    return error;
}

extern "C" int urnic_cm_open(const char* path, int flags, mode_t mode) {
    const int fd = open(path, flags, mode);
    if (fd < 0 || strcmp(path, kDevice) != 0 || !is_our_device(fd)) {
        return fd;
    }
    close(fd);
    return open_channel((flags & O_CLOEXEC) != 0);
}

// librdmacm takes nothing but a character device.
extern "C" int urnic_cm_fstat(int fd, struct stat* status) {
    const int result = fstat(fd, status);
    if (result == 0 && S_ISSOCK(status->st_mode)) {
        if (CmChannel* channel = acquire_channel(fd); channel != nullptr) {
            status->st_mode = (status->st_mode & ~static_cast<mode_t>(S_IFMT)) | S_IFCHR;
            release_channel(channel);
        }
    }
    return result;
}

extern "C" ssize_t urnic_cm_write(int fd, const void* data, std::size_t size) {
    CmChannel* channel = acquire_channel(fd);
    if (channel == nullptr) {
        return write(fd, data, size);
    }
    const int error = serve(*channel, data, size);
    release_channel(channel);
    if (error != 0) {
        errno = error;
        return -1;
    }
    return static_cast<ssize_t>(size);
}

extern "C" int urnic_cm_close(int fd) {
    CmChannel* channel = nullptr;
    {
        Guard guard(channels_mutex);
        CmChannel** at = place_of(fd);
        if (at != nullptr) {
            channel = *at;
            *at = channel->next;
        }
    }
    const int result = close(fd);
    if (channel != nullptr) {
        const int saved = errno;
        release_channel(channel);
        errno = saved;
    }
    return result;
}

extern "C" int urnic_cm_modify_qp(struct ibv_qp* qp, struct ibv_qp_attr* attr, int mask) {
    deferred_modifies().is_from_librdmacm = true;
    const int result = ibv_modify_qp(qp, attr, mask);
    deferred_modifies().is_from_librdmacm = false;
    return result;
}

thread_local constinit bool creates_cq = false;

extern "C" struct ibv_cq* urnic_cm_create_cq(struct ibv_context* context, int entries, void* cq_context,
                                             struct ibv_comp_channel* channel, int comp_vector) {
    creates_cq = true;
    struct ibv_cq* cq = ibv_create_cq(context, entries, cq_context, channel, comp_vector);
    creates_cq = false;
    return cq;
}

void lock_channels() {
    channels_mutex.lock();
    lock_cm_ids();
}
void unlock_channels() {
    unlock_cm_ids();
    channels_mutex.unlock();
}
void reset_channels() {
    reset_cm_ids();
    channels_mutex.reset();
}

Mutex patching_mutex;

}  // namespace

void install_cm_hooks() {
    const GotPatch patches[] = {{"open", reinterpret_cast<void*>(&urnic_cm_open)},
                                {"fstat", reinterpret_cast<void*>(&urnic_cm_fstat)},
                                {"write", reinterpret_cast<void*>(&urnic_cm_write)},
                                {"close", reinterpret_cast<void*>(&urnic_cm_close)},
                                {"ibv_modify_qp", reinterpret_cast<void*>(&urnic_cm_modify_qp)},
                                {"ibv_create_cq", reinterpret_cast<void*>(&urnic_cm_create_cq)}};
    Guard guard(patching_mutex);
    (void)patch_got_of("librdmacm.so.1", patches, 6);
}

bool is_librdmacm_creating_cq() { return creates_cq; }

void install_cm_fork_handlers() { pthread_atfork(lock_channels, unlock_channels, reset_channels); }

}  // namespace urnic::provider
