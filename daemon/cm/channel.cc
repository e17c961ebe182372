#include "daemon/cm/channel.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace urnic::daemon {

int CmChannel::open() {
    int pair[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return errno;
    }
    ours_ = UniqueFd(pair[0]);
    theirs_ = UniqueFd(pair[1]);
    return ::shutdown(pair[1], SHUT_WR) == 0 ? 0 : errno;
}

void CmChannel::push(const CmEvent& event) {
    events_.push_back(event);
    announce();
}

void CmChannel::announce() {
    // A byte for each, so that who waits for edges sees one. A full socket is readable already.
    const char byte = 0;
    (void)::send(ours_.get(), &byte, sizeof byte, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void CmChannel::pop() {
    events_.pop_front();
    quieten();
}

void CmChannel::quieten() {
    if (!events_.empty()) {
        return;
    }
    std::array<char, 256> bytes{};
    while (::recv(theirs_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
}

}  // namespace urnic::daemon
