#include "tests/unit/daemon/lingering.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <vector>

namespace urnic::daemon {

Lingering make_lingering() {
    Lingering made;
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int small = 4096;
    (void)::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener.get(), any, length), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), any, &length), 0);
    made.end = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    (void)::setsockopt(made.end.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    EXPECT_EQ(::connect(made.end.get(), any, length), 0);
    made.peer = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(made.peer);
    const std::vector<char> data(1U << 16U);
    // Full, and it stays so: what loopback has not handed over yet makes room once more.
    for (int turns_without_room = 0; turns_without_room < 5; ++turns_without_room) {
        while (::send(made.end.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
            turns_without_room = 0;
        }
        ::usleep(10'000);
    }
    const linger hour{1, 3600};
    EXPECT_EQ(::setsockopt(made.end.get(), SOL_SOCKET, SO_LINGER, &hour, sizeof hour), 0);
    return made;
}

}  // namespace urnic::daemon
