// A client of the daemon without a provider: what a program can say on the control socket.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "abi/control.h"

namespace urnic::e2e {

class RawClient {
  public:
    /// Connects and says Hello. Ends the program if that fails.
    explicit RawClient(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_SEQPACKET, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            std::perror("raw client: connect");
            std::_Exit(1);
        }
        abi::HelloRequest hello{};
        hello.abi_version = abi::kAbiVersion;
        must(call<abi::HelloReply>(abi::Op::kHello, hello).header.error, "Hello");
    }

    /// The reply; its descriptors are in `fds`.
    template <typename ReplyBody, typename RequestBody>
    ReplyBody call(abi::Op op, RequestBody request) {
        request.header = {abi::kControlMagic, op, ++cookie_, sizeof request};
        if (::send(socket_, &request, sizeof request, 0) != sizeof request) {
            std::perror("raw client: send");
            std::_Exit(1);
        }
        ReplyBody reply{};
        union {
            cmsghdr header;
            char bytes[CMSG_SPACE(sizeof(int) * abi::kMaxMessageFds)];
        } control{};
        iovec part{&reply, sizeof reply};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        if (::recvmsg(socket_, &message, MSG_CMSG_CLOEXEC) <= 0) {
            std::perror("raw client: recvmsg");
            std::_Exit(1);
        }
        fds.clear();
        for (cmsghdr* part_of = CMSG_FIRSTHDR(&message); part_of != nullptr;
             part_of = CMSG_NXTHDR(&message, part_of)) {
            fds.resize((part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            std::memcpy(fds.data(), CMSG_DATA(part_of), fds.size() * sizeof(int));
        }
        return reply;
    }

    [[nodiscard]] std::uint32_t open(const char* device) {
        abi::OpenDeviceRequest request{};
        std::strncpy(request.name, device, sizeof request.name - 1);
        const auto reply = call<abi::OpenDeviceReply>(abi::Op::kOpenDevice, request);
        must(reply.header.error, "OpenDevice");
        return reply.context;
    }

    void hang_up() const { ::close(socket_); }

    static void must(int error, const char* what) {
        if (error != 0) {
            std::fprintf(stderr, "raw client: %s: %s\n", what, std::strerror(error));
            std::_Exit(1);
        }
    }

    std::vector<int> fds;  // of the last reply

  private:
    int socket_;
    std::uint32_t cookie_ = 0;
};

}  // namespace urnic::e2e
