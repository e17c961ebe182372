// One connection of the control socket, and what the server's epoll says of it. For the server's own files
// alone.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <memory>

#include "daemon/control/control_server.h"
#include "daemon/ipc/fd_closer.h"
#include "daemon/ipc/message.h"
#include "daemon/ipc/peer.h"
#include "daemon/verbs/client_state.h"
#include "os/unique_fd.h"

namespace urnic::dataplane {

/// What an epoll event is about: the low three bits; above them lies a connection's id, or the index of a
/// device or of a watch.
/// Ids, not pointers: an earlier event of the same round may have ended the connection.
enum Tag : std::uint64_t {
    kListener = 0,
    kSocket = 1,
    kProcess = 2,
    kStop = 3,
    kMads = 4,
    kWatch = 5,
    kClosed = 6,
    kTagMask = 7
};
constexpr std::uint64_t tag_of(Tag tag, std::uint32_t id) { return (std::uint64_t{id} << 3U) | tag; }

struct ControlServer::Connection {
    std::uint32_t id = 0;
    UniqueFd socket;
    Peer peer;                            // outlives the client, which uses its pidfd
    std::unique_ptr<ClientState> client;  // after Hello
    bool refused = false;
    bool ended = false;  // but for what is still to be closed
    // What was given to us and is being closed. Until it is, the client waits for its answer, and nothing
    // more of it is read: one at a time, whatever it does, so that it has one thread and not many.
    std::unique_ptr<FdCloser::Job> job = std::make_unique<FdCloser::Job>();  // nullptr: it is being done
    bool not_started = false;                                                // there was no thread for it
    abi::RequestHeader request{};
    int error = 0;
    Reply reply;

    [[nodiscard]] bool is_closing() const { return job == nullptr || not_started; }
};

}  // namespace urnic::dataplane
