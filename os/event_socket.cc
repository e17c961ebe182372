#include "os/event_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>

#include "os/monotonic_clock.h"

namespace urnic {

EventSocket::Sent EventSocket::send(const void* message, std::size_t bytes, Urgent urgent) const {
    const TimeNs begin = clock_now();
    if (budget != nullptr && !budget->can_send(begin) && (urgent == Urgent::kNo || !budget->take_urgent())) {
        return Sent::kLater;
    }
    const bool is_suspect = budget != nullptr && budget->is_suspect(begin);
    const TimeNs cpu_begin = is_suspect ? thread_cpu_now() : 0;
    const bool sent = ::send(fd, message, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
    const int error = errno;
    if (is_suspect) {
        budget->charge(begin, thread_cpu_now() - cpu_begin);
    }
    if (budget != nullptr) {
        budget->note(begin, clock_now() - begin);
    }
    const bool no_room = error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == EINTR;
    return sent ? Sent::kSent : no_room ? Sent::kLater : Sent::kGone;
}

int make_event_socket(UniqueFd& ours, UniqueFd& theirs) {
    int pair[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return errno;
    }
    ours = UniqueFd(pair[0]);
    theirs = UniqueFd(pair[1]);
    // A socket without a name gets one in send() when somebody wants credentials with each message
    // (SO_PASSCRED), under a lock that sleeps. This one has a name.
    const sockaddr_un any{AF_UNIX, {}};
    if (::shutdown(theirs.get(), SHUT_WR) != 0 ||
        ::bind(ours.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any.sun_family) != 0) {
        return errno;
    }
    return 0;
}

}  // namespace urnic
