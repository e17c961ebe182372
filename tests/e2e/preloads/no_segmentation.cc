// Preloaded into urnicd: a kernel that does not know UDP segments of packet sockets (before Linux 6.2)
// answers EINVAL to the first message of a burst that has them, and sends what comes before one.
#include <dlfcn.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>

extern "C" __attribute__((visibility("default"))) int sendmmsg(int fd, mmsghdr* messages, unsigned count,
                                                               int flags) {
    static const auto next = reinterpret_cast<decltype(&::sendmmsg)>(::dlsym(RTLD_NEXT, "sendmmsg"));
    constexpr std::size_t kPiecesOfAFrame = 2;  // what the kernel is told of it, and the frame
    unsigned known = 0;
    while (known < count && messages[known].msg_hdr.msg_iovlen <= kPiecesOfAFrame) {
        ++known;
    }
    if (known == 0 && count != 0) {
        errno = EINVAL;
        return -1;
    }
    return next(fd, messages, known, flags);
}
