// Completion channels and async events.
//
// A channel is a socket with a message of 8 bytes, the CQ's pointer, for each event; async events come
// through another: what the daemon has sent may lie there unread when its object is destroyed. The kernel
// takes such events back and waits for the acknowledgement of those that were read. So does this file: what
// libibverbs reads of either passes by may_report_async() and may_report_completion(), which count.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

namespace {

/// Removes the channel from the context and ends it; the read end is not touched.
void end_channel(Context& context, Channel* channel) {
    {
        Guard guard(context.objects_mutex);
        unlink(context.channels, channel);
    }
    // A daemon that is dead has nothing to release.
    (void)context.session->call_handle(abi::Op::kDestroyChannel, channel->handle);
    channel->close_fds();
    free_object(channel);
}

/// An error event may be the only sign that a QP is in ERR: without a posted WQE there is no completion.
void mark_error_of(Context& context, const abi::AsyncEvent& event) {
    const auto type = static_cast<AsyncEventType>(event.event_type);
    if (type != AsyncEventType::kQpFatal && type != AsyncEventType::kQpReqErr &&
        type != AsyncEventType::kQpAccessErr) {
        return;
    }
    Guard guard(context.objects_mutex);
    if (context.event_targets.find(event.element, EventTarget::Kind::kQp) != nullptr) {
        mark_error(*at_address<Qp>(event.element));
    }
}

/// What kind of event `type` is, by what its element names.
enum class Names : std::uint8_t { kPort, kCq, kQp, kSrq, kNothing };
Names named_by(std::uint32_t type) {
    switch (static_cast<AsyncEventType>(type)) {
        case AsyncEventType::kCqErr:
            return Names::kCq;
        case AsyncEventType::kQpFatal:
        case AsyncEventType::kQpReqErr:
        case AsyncEventType::kQpAccessErr:
        case AsyncEventType::kCommEst:
        case AsyncEventType::kSqDrained:
        case AsyncEventType::kPathMig:
        case AsyncEventType::kPathMigErr:
        case AsyncEventType::kQpLastWqeReached:
            return Names::kQp;
        case AsyncEventType::kSrqErr:
        case AsyncEventType::kSrqLimitReached:
            return Names::kSrq;
        case AsyncEventType::kDeviceFatal:
        case AsyncEventType::kPortActive:
        case AsyncEventType::kPortErr:
        case AsyncEventType::kLidChange:
        case AsyncEventType::kPkeyChange:
        case AsyncEventType::kSmChange:
        case AsyncEventType::kClientReregister:
        case AsyncEventType::kGidChange:
            return Names::kPort;
    }
    return Names::kNothing;
}

/// The queue that an event names, if it is one of the context's. Under the objects mutex.
EventTarget* target_of(Context& context, const abi::AsyncEvent& event) {
    switch (named_by(event.event_type)) {
        case Names::kCq:
            return context.event_targets.find(event.element, EventTarget::Kind::kCq);
        case Names::kQp:
            return context.event_targets.find(event.element, EventTarget::Kind::kQp);
        case Names::kSrq:
            return context.event_targets.find(event.element, EventTarget::Kind::kSrq);
        default:
            return nullptr;
    }
}

/// Returns whether the application may be told of it.
bool may_be_told(Context& context, const abi::AsyncEvent& event) {
    Guard guard(context.objects_mutex);
    return named_by(event.event_type) == Names::kPort || target_of(context, event) != nullptr;
}

enum class Received : std::uint8_t { kEvent, kNone, kEnd };

/// The next event from the daemon, if one is there; kEnd: the daemon's end of the socket is closed.
Received receive_event(const Context& context, abi::AsyncEvent& event) {
    if (context.event_in < 0) {
        return Received::kNone;
    }
    const ssize_t got = recv(context.event_in, &event, sizeof event, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        return Received::kEnd;
    }
    return got == sizeof event ? Received::kEvent : Received::kNone;
}

/// Sends the queued events. Returns whether the application's socket is full.
bool send_queued(Context& context) {
    while (context.events.count != 0) {
        const ssize_t sent = send(context.event_out, context.events.items, sizeof(abi::AsyncEvent),
                                  MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
            return true;
        }
        context.events.pop();
    }
    return false;
}

/// Returns whether there was room.
bool send_event(const Channel& channel, std::uint64_t element) {
    return send(channel.own_fd, &element, sizeof element, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof element;
}

void wait_until_acknowledged(pthread_mutex_t& mutex, pthread_cond_t& cond, const std::uint32_t& completed,
                             std::uint32_t wanted) {
    pthread_mutex_lock(&mutex);
    while (static_cast<std::int32_t>(wanted - completed) > 0) {
        pthread_cond_wait(&cond, &mutex);
    }
    pthread_mutex_unlock(&mutex);
}

}  // namespace

void Channel::close_fds() {
    for (int* fd : {&take_fd, &own_fd}) {
        if (*fd >= 0) {
            close(*fd);
            *fd = -1;
        }
    }
}

bool EventQueue::push(const abi::AsyncEvent& event) {
    if (count == room) {
        const std::size_t more = room == 0 ? 16 : 2 * room;
        auto* grown = static_cast<abi::AsyncEvent*>(std::realloc(items, more * sizeof event));
        if (grown == nullptr) {
            return false;
        }
        items = grown;
        room = more;
    }
    items[count++] = event;
    return true;
}

void EventQueue::pop() { std::memmove(items, items + 1, --count * sizeof *items); }

int create_channel(Context& context) {
    auto* channel = make_object<Channel>();
    if (channel == nullptr) {
        return -1;
    }
    abi::ContextRequest request{};
    request.context = context.handle;
    abi::HandleReply reply{};
    ReplyFds fds;
    int error = context.session->call(abi::Op::kCreateChannel, request, reply, &fds);
    // Of anything else, a file of gigabytes for one, libibverbs would read events until its end.
    struct stat read_end {};
    if (error == 0 &&
        (fds.count() != 2 || fstat(fds.peek(0), &read_end) != 0 || !S_ISSOCK(read_end.st_mode))) {
        (void)context.session->call_handle(abi::Op::kDestroyChannel, reply.handle);
        error = EPROTO;
    }
    if (error != 0) {
        free_object(channel);
        errno = error;
        return -1;
    }
    channel->handle = reply.handle;
    channel->read_fd = fds.take(0);
    channel->own_fd = fds.take(1);
    channel->take_fd = fcntl(channel->read_fd, F_DUPFD_CLOEXEC, 0);
    if (channel->take_fd < 0) {
        error = errno;
        close(channel->read_fd);
        (void)context.session->call_handle(abi::Op::kDestroyChannel, channel->handle);
        channel->close_fds();
        free_object(channel);
        errno = error;
        return -1;
    }
    // The fd number is free, so a channel that had it was closed behind our back.
    if (Channel* stale = find_channel(context, channel->read_fd); stale != nullptr) {
        end_channel(context, stale);
    }
    Guard guard(context.objects_mutex);
    channel->next = context.channels;
    context.channels = channel;
    return channel->read_fd;
}

Channel* find_channel(Context& context, int read_fd) {
    Guard guard(context.objects_mutex);
    for (Channel* channel = context.channels; channel != nullptr; channel = channel->next) {
        if (channel->read_fd == read_fd) {
            return channel;
        }
    }
    return nullptr;
}

void end_channel_of_fd(Context& context, int fd) {
    if (Channel* channel = find_channel(context, fd); channel != nullptr) {
        end_channel(context, channel);
    }
}

bool forward_events(Context& context) {
    Guard guard(context.event_mutex);
    for (;;) {
        if (send_queued(context)) {
            return true;
        }
        abi::AsyncEvent event{};
        const Received received = receive_event(context, event);
        if (received == Received::kEnd) {
            // Only here, in the thread that polls it: another's close would leave that thread polling a
            // number that the application may have got for a file of its own.
            close(context.event_in);
            context.event_in = -1;
        }
        if (received != Received::kEvent) {
            return false;
        }
        if (!may_be_told(context, event)) {
            continue;
        }
        mark_error_of(context, event);
        if (!context.events.push(event)) {
            fprintf(stderr, "urnic: out of memory; an async event is lost\n");
            return false;
        }
    }
}

void send_fatal(Context& context) {
    Guard guard(context.event_mutex);
    const abi::AsyncEvent event{1, static_cast<std::uint32_t>(AsyncEventType::kDeviceFatal), 0};
    if (context.events.push(event)) {
        (void)send_queued(context);  // if there is no room, the service thread continues
    }
}

namespace {

/// Discards the unread async events of a target.
void discard_async_events(Context& context, const EventTarget& target) {
    Guard guard(context.event_mutex);
    EventQueue kept{};
    const auto sort = [&](const abi::AsyncEvent& event) {
        return event.element == target.element || kept.push(event);
    };
    abi::AsyncEvent event{};
    bool room = true;
    const int unread = context.verbs.context.async_fd;
    while (room && unread >= 0 && recv(unread, &event, sizeof event, MSG_DONTWAIT) == sizeof event) {
        room = sort(event);
    }
    for (std::size_t i = 0; i < context.events.count; ++i) {
        (void)sort(context.events.items[i]);
    }
    // Those that are there now: a daemon that sends without end keeps nobody here.
    int unread_bytes = 0;
    if (context.event_in < 0 || ioctl(context.event_in, FIONREAD, &unread_bytes) != 0) {
        unread_bytes = 0;
    }
    for (std::size_t left = static_cast<std::size_t>(unread_bytes) / sizeof event;
         room && left != 0 && receive_event(context, event) == Received::kEvent; --left) {
        room = sort(event);
    }
    std::free(context.events.items);
    context.events = kept;
    (void)send_queued(context);
}

/// Discards the unread completion events of `cq` in its channel.
void discard_completion_events(Cq& cq) {
    if (cq.channel == nullptr || cq.channel->take_fd < 0) {
        return;
    }
    Context& context = *cq.context;
    const int fd = cq.channel->take_fd;
    // One turn of the queue: what belongs to others goes back in at the end.
    Guard guard(context.objects_mutex);
    int unread_bytes = 0;
    if (ioctl(fd, FIONREAD, &unread_bytes) != 0) {
        return;
    }
    for (std::size_t left = static_cast<std::size_t>(unread_bytes) / sizeof(std::uint64_t); left != 0;
         --left) {
        std::uint64_t element = 0;
        if (recv(fd, &element, sizeof element, MSG_DONTWAIT) != sizeof element) {
            break;  // the application has read it meanwhile
        }
        if (element != cq.event_target.element) {
            (void)send_event(*cq.channel, element);  // without room for it, it is lost
        }
    }
}

}  // namespace

bool may_report_async(Context& context, const abi::AsyncEvent& event) {
    Guard guard(context.objects_mutex);
    EventTarget* target = target_of(context, event);
    if (target != nullptr) {
        ++target->async_events;
    }
    return target != nullptr || named_by(event.event_type) == Names::kPort;
}

bool may_report_completion(Context& context, std::uint64_t element) {
    Guard guard(context.objects_mutex);
    EventTarget* target = context.event_targets.find(element, EventTarget::Kind::kCq);
    if (target != nullptr) {
        ++target->completion_events;
    }
    return target != nullptr;
}

void drain_cq_events(Cq& cq, bool has_async_events) {
    discard_completion_events(cq);
    wait_until_acknowledged(cq.cq.mutex, cq.cq.cond, cq.cq.comp_events_completed,
                            cq.event_target.completion_events);
    if (has_async_events) {
        discard_async_events(*cq.context, cq.event_target);
    }
    wait_until_acknowledged(cq.cq.mutex, cq.cq.cond, cq.cq.async_events_completed,
                            cq.event_target.async_events);
}

void drain_qp_events(Qp& qp, bool has_async_events) {
    if (has_async_events) {
        discard_async_events(*qp.context, qp.event_target);
    }
    wait_until_acknowledged(qp.qp.mutex, qp.qp.cond, qp.qp.events_completed, qp.event_target.async_events);
}

void drain_srq_events(Srq& srq, bool has_async_events) {
    if (has_async_events) {
        discard_async_events(*srq.context, srq.event_target);
    }
    wait_until_acknowledged(srq.srq.mutex, srq.srq.cond, srq.srq.events_completed,
                            srq.event_target.async_events);
}

bool notify_channel(Cq& cq) {
    const std::uint64_t element = reinterpret_cast<std::uintptr_t>(&cq);
    return cq.channel != nullptr && send_event(*cq.channel, element);
}

}  // namespace urnic::provider
