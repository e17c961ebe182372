// One request and its reply on the control socket, with the file descriptors they carry.
#pragma once

#include <algorithm>
#include <array>
#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "abi/control.h"
#include "os/unique_fd.h"

namespace urnic::daemon {

/// As many descriptors as the kernel lets anybody send at once (its SCM_MAX_FD): those that did not fit, it
/// would close while we receive.
inline constexpr std::size_t kMaxReceivedFds = 253;
static_assert(abi::kMaxMessageFds <= kMaxReceivedFds);

/// Descriptors of one message. Room for all that fit into one, so that receiving and answering need no
/// memory, and for the connection that they came by.
template <typename Fd>
using Fds = boost::container::static_vector<Fd, kMaxReceivedFds + 1>;

/// A datagram as it was received, together with its descriptors. Whoever has no use for one leaves it here:
/// closing it can wait for somebody (fd_closer.h).
struct Request {
    std::array<std::byte, abi::kMaxMessageBytes> bytes{};
    std::size_t length = 0;
    Fds<UniqueFd> fds;

    /// The message as a T. The caller has checked its length.
    template <typename T>
    [[nodiscard]] T as() const {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= abi::kMaxMessageBytes);
        T message{};
        std::memcpy(&message, bytes.data(), sizeof message);
        return message;
    }
    [[nodiscard]] abi::RequestHeader header() const { return as<abi::RequestHeader>(); }
};

/// A reply under construction: only the body and the descriptors; the header is filled in when it is sent.
struct Reply {
    std::array<std::byte, abi::kMaxMessageBytes> bytes{};
    std::size_t length = sizeof(abi::ReplyHeader);
    bool whole_on_error = false;  // send the body with an error too (Hello's EPROTO)
    Fds<int> fds;                 // sent, not closed
    Fds<UniqueFd> owned;          // kept until the reply is sent

    template <typename T>
    void set(const T& message) {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= abi::kMaxMessageBytes);
        std::memcpy(bytes.data(), &message, sizeof message);
        length = sizeof message;
    }
    /// What a person is to read of a request that was refused: a Body with its `message`, sent with the
    /// `error` returned.
    template <typename Body>
    [[nodiscard]] int refuse(int error, const std::string& why) {
        Body body{};
        std::memcpy(body.message, why.data(), std::min(why.size(), sizeof body.message - 1));
        set(body);
        whole_on_error = true;
        return error;
    }
    void give(UniqueFd fd) {
        fds.push_back(fd.get());
        owned.push_back(std::move(fd));
    }
};

/// What is answered after a step of a request that takes long, instead of 0 or an errno value: it is to be
/// executed again, with an empty reply, and others have their turn in between.
inline constexpr int kUnfinished = -1;

/// What recv_request() found.
enum class Received : std::uint8_t {
    kRequest,
    kNothing,   // no message now
    kEnd,       // the peer closed, or speaks something else: disconnect; its descriptors are in `request`
    kTooLarge,  // a message or its descriptors did not fit; `request` holds the beginning
};
[[nodiscard]] Received recv_request(int socket, Request& request);

/// Returns whether the reply could be sent at once. A client that does not read, or has ended, is to be
/// disconnected.
[[nodiscard]] bool send_reply(int socket, const abi::RequestHeader& request, int error, Reply& reply);

}  // namespace urnic::daemon
