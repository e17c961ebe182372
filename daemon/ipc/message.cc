#include "daemon/ipc/message.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/check.h"

namespace urnic::daemon {

namespace {

union ControlBuffer {
    cmsghdr header;  // for its alignment
    std::byte bytes[CMSG_SPACE(sizeof(int) * kMaxReceivedFds)];
};

void take_fds(msghdr& message, Fds<UniqueFd>& fds) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            fds.emplace_back(fd);
        }
    }
}

}  // namespace

Received recv_request(int socket, Request& request) {
    request.fds.clear();
    request.length = 0;
    ControlBuffer control{};
    iovec part{request.bytes.data(), request.bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    const ssize_t received = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0) {
        return errno == EAGAIN || errno == EINTR ? Received::kNothing : Received::kEnd;
    }
    take_fds(message, request.fds);
    request.length = static_cast<std::size_t>(received);
    // What does not begin like a request comes from somebody who speaks something else: no reply would help.
    if (request.length < sizeof(abi::RequestHeader) || request.header().magic != abi::kControlMagic) {
        return Received::kEnd;
    }
    if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || request.fds.size() > abi::kMaxMessageFds) {
        return Received::kTooLarge;
    }
    return Received::kRequest;
}

bool send_reply(int socket, const abi::RequestHeader& request, int error, Reply& reply) {
    const bool whole = error == 0 || reply.whole_on_error;
    abi::ReplyHeader header{};
    header.magic = abi::kControlMagic;
    header.op = request.op;
    header.cookie = request.cookie;
    header.error = error;
    header.length = static_cast<std::uint32_t>(whole ? reply.length : sizeof header);
    std::memcpy(reply.bytes.data(), &header, sizeof header);

    ControlBuffer control{};
    iovec part{reply.bytes.data(), header.length};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (error == 0 && !reply.fds.empty()) {
        const std::size_t bytes = sizeof(int) * reply.fds.size();
        URNIC_CHECK(reply.fds.size() <= abi::kMaxMessageFds);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(bytes);
        cmsghdr* rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(bytes);
        std::memcpy(CMSG_DATA(rights), reply.fds.data(), bytes);
    }
    return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(header.length);
}

}  // namespace urnic::daemon
