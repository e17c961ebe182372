// One connection of the control socket. For the server's own files alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/control/control_server.h"
#include "daemon/control/long_answer.h"
#include "daemon/ipc/fd_closer.h"
#include "daemon/ipc/message.h"
#include "daemon/ipc/peer.h"
#include "daemon/verbs/client_state.h"
#include "os/event_loop.h"
#include "os/unique_fd.h"

namespace urnic::daemon {

struct ControlServer::Connection {
    std::uint32_t id = 0;
    UniqueFd socket;
    User* user = nullptr;                 // of the peer
    Peer peer;                            // outlives the client, which uses its pidfd
    std::unique_ptr<ClientState> client;  // after Hello
    EventLoop::Id socket_events = 0;      // 0: none
    EventLoop::Id process_events = 0;     // of peer.pidfd; 0: none
    // Connections that were refused to one user, and in which he has put descriptors: closed one after the
    // other, however many they are.
    bool refused = false;
    std::vector<UniqueFd> waiting;
    std::uint32_t capture = 0;  // ActiveCaptures' number of it; 0: none
    bool ended = false;         // but for what is still to be closed, and for `client`
    // What was given to us and is being closed. Until it is, the client waits for its answer, and nothing
    // more of it is read: one at a time, whatever it does, so that it has one thread and not many.
    std::unique_ptr<FdCloser::Job> job = std::make_unique<FdCloser::Job>();  // nullptr: it is being done
    bool not_started = false;                                                // there was no thread for it
    // A request of which steps are left; until it is answered, nothing more is read.
    bool is_unfinished = false;
    Request unfinished;
    std::unique_ptr<LongAnswer> long_answer;  // to that
    abi::RequestHeader request{};
    int error = 0;
    Reply reply;

    /// Something of it continues in turns.
    [[nodiscard]] bool wants_turn() const { return is_unfinished || (ended && client != nullptr); }
    [[nodiscard]] bool is_closing() const { return job == nullptr || not_started; }
};

}  // namespace urnic::daemon
