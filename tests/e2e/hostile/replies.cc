#include "tests/e2e/hostile/replies.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace urnic::e2e {

namespace {

constexpr std::size_t kMaxFds = 64;
constexpr std::size_t kMaxSentBytes = 4096;

/// Numbers at which something changes: of counts, sizes, indexes, handles.
std::uint64_t edge(Random& random) {
    static constexpr std::uint64_t kEdges[] = {0,           1,
                                               2,           3,
                                               7,           15,
                                               63,          64,
                                               4095,        4096,
                                               0x7fff,      0x8000,
                                               0xffff,      0x10000,
                                               0xff'ffff,   0x100'0000,
                                               0x7fff'ffff, 1U << 31U,
                                               1U << 30U,   0xffff'fff0,
                                               0xffff'ffff, 1ULL << 32U,
                                               1ULL << 47U, 1ULL << 62U,
                                               1ULL << 63U, ~0ULL << 12U,
                                               ~0ULL - 1,   ~0ULL};
    return kEdges[below(random, std::size(kEdges))];
}

/// Without the room that a reply of the connection manager does not use: all of it is used by an event whose
/// id comes with it.
std::size_t meaningful_bytes(const Message& reply) {
    abi::CmCommandReply answer{};
    if (reply.bytes.size() != sizeof answer) {
        return reply.bytes.size();
    }
    std::memcpy(static_cast<void*>(&answer), reply.bytes.data(), sizeof answer);
    if (answer.snapshot.is_valid != 0) {
        return reply.bytes.size();
    }
    return offsetof(abi::CmCommandReply, body) +
           std::clamp<std::size_t>(answer.out_bytes, 8, sizeof answer.body);
}

void change_words(Message& reply, Random& random) {
    // The header is right most of the time: what does not begin as an answer is not read any further.
    const std::size_t first = below(random, 8) == 0 ? 0 : sizeof(abi::ReplyHeader);
    if (reply.bytes.size() < first + sizeof(std::uint64_t)) {
        return;
    }
    const std::size_t end = meaningful_bytes(reply);
    for (std::uint64_t times = 1 + below(random, 3); times != 0; --times) {
        const std::size_t size = std::size_t{1} << below(random, 4);
        const std::size_t places = (end - first) / size;
        std::byte* at = reply.bytes.data() + first + below(random, places) * size;
        std::uint64_t value = 0;
        std::memcpy(&value, at, size);
        switch (below(random, 4)) {
            case 0:
                value = edge(random);
                break;
            case 1:
                value = random();
                break;
            case 2:
                value ^= std::uint64_t{1} << below(random, 8 * size);
                break;
            default:
                value += below(random, 2) == 0 ? 1 : ~std::uint64_t{0};
                break;
        }
        std::memcpy(at, &value, size);
    }
}

void change_descriptors(Message& reply, Random& random) {
    if (reply.fds.empty() || below(random, 6) == 0) {
        reply.fds.push_back(other_kind(random));
        return;
    }
    UniqueFd& fd = reply.fds[below(random, reply.fds.size())];
    switch (below(random, 4)) {
        case 0:
            reply.fds.pop_back();
            break;
        case 1:
            std::swap(fd, reply.fds.front());
            break;
        case 2:
            reply.fds.emplace_back(::dup(fd.get()));
            break;
        default:
            fd = other_kind(random);
            break;
    }
}

void change_error(Message& reply, Random& random) {
    abi::ReplyHeader header{};
    if (reply.bytes.size() < sizeof header) {
        return;
    }
    std::memcpy(&header, reply.bytes.data(), sizeof header);
    header.error = static_cast<std::int32_t>(below(random, 2) == 0 ? below(random, 135) : edge(random));
    std::memcpy(reply.bytes.data(), &header, sizeof header);
    if (below(random, 2) == 0) {
        reply.bytes.resize(sizeof header);
    }
}

UniqueFd memory(Random& random, unsigned seals) {
    UniqueFd fd(::memfd_create("lie", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    (void)!::ftruncate(fd.get(), static_cast<off_t>(std::uint64_t{1} << below(random, 36)));
    (void)::fcntl(fd.get(), F_ADD_SEALS, seals);
    return fd;
}

}  // namespace

bool Message::receive(int socket) {
    bytes.resize(kMaxSentBytes);
    fds.clear();
    iovec data{bytes.data(), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    if (got <= 0) {
        return false;
    }
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            fds.emplace_back(fd);
        }
    }
    return true;
}

bool Message::send(int socket) const {
    iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    std::size_t count = 0;
    int numbers[kMaxFds];
    for (const UniqueFd& fd : fds) {
        if (fd && count < kMaxFds) {
            numbers[count++] = fd.get();
        }
    }
    if (count != 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * count);
        std::memcpy(CMSG_DATA(header), numbers, sizeof(int) * count);
    }
    return ::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0;
}

UniqueFd other_kind(Random& random) {
    int pair[2] = {-1, -1};
    switch (below(random, 9)) {
        case 0:
            return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
        case 1:
            return UniqueFd(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
        case 2:
            return UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        case 3:
            if (::pipe2(pair, O_CLOEXEC) == 0) {
                const UniqueFd closed(pair[1]);
            }
            return UniqueFd(pair[0]);
        case 4:
            // A stream, which has no messages, with something in it.
            if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
                const UniqueFd closed(pair[1]);
                (void)!::write(pair[1], "lies, lies, lies", 1 + below(random, 16));
            }
            return UniqueFd(pair[0]);
        case 5:
            return UniqueFd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
        case 6:
            return memory(random, F_SEAL_GROW);
        case 7:
            return memory(random, F_SEAL_SHRINK | F_SEAL_GROW);
        default:
            return memory(random, 0);
    }
}

int lie(Message& reply, Random& random) {
    switch (below(random, 16)) {
        case 0:
            reply.bytes.resize(below(random, reply.bytes.size() + 1));
            break;
        case 1:
            reply.bytes.resize(reply.bytes.size() + 1 + below(random, 64));
            break;
        case 2:
            for (std::byte& byte : reply.bytes) {
                byte = static_cast<std::byte>(random());
            }
            break;
        case 3:
        case 4:
            change_error(reply, random);
            break;
        case 5:
        case 6:
        case 7:
        case 8:
            change_descriptors(reply, random);
            break;
        case 9:
            return static_cast<int>(2 * below(random, 2));
        default:
            change_words(reply, random);
            break;
    }
    return 1;
}

}  // namespace urnic::e2e
