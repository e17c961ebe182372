// Closing what clients gave, and connections, where the control thread need not block (fd_closer.h): until it
// is done the client waits for its answer.
#include <sys/socket.h>

#include <new>

#include "daemon/control/control_connection.h"
#include "daemon/control/control_server.h"
#include "os/rollback.h"

namespace urnic::daemon {

/// Says why, and closes it: at once if that does not wait for anybody.
void ControlServer::refuse(UniqueFd& socket, int error) {
    abi::RequestHeader header{};
    header.op = abi::Op::kHello;
    Reply reply;
    (void)send_reply(socket.get(), header, error, reply);
    if (!drain(socket.get())) {
        keep_refused(socket);
    }
}

/// Each user has one thread for these. Without memory for that it is closed by the caller.
void ControlServer::keep_refused(UniqueFd& socket) {
    ucred peer{};
    socklen_t length = sizeof peer;
    (void)::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length);
    try {
        Connection*& of_user = refused_of_[peer.uid];
        if (of_user != nullptr) {
            of_user->waiting.push_back(std::move(socket));
            ++num_refused_;
            return;
        }
        Rollback forget([&] { refused_of_.erase(peer.uid); });
        auto made = std::make_unique<Connection>();
        made->id = new_id();
        made->peer.uid = peer.uid;
        made->refused = made->ended = true;
        Connection& connection = *connections_.emplace(made->id, std::move(made)).first->second;
        of_user = &connection;
        forget.keep();
        ++num_refused_;
        connection.socket = std::move(socket);
        start_closing(connection);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the caller closes it
    }
}

/// Returns whether all is closed; otherwise the answer waits for it.
bool ControlServer::close_given(Connection& connection, Fds<UniqueFd>& fds) {
    for (UniqueFd& fd : fds) {
        if (fd && !is_small_memory_file(fd.get())) {
            connection.job->fds.push_back(std::move(fd));
        }
    }
    fds.clear();
    if (connection.job->fds.empty()) {
        return true;
    }
    control_.event_loop.disable(connection.socket_events);
    start_closing(connection);
    return false;
}

void ControlServer::start_closing(Connection& connection) {
    if (connection.ended && connection.socket) {
        connection.job->fds.push_back(std::move(connection.socket));
    }
    connection.job->id = connection.id;
    if (!fd_closer_.close(connection.job)) {
        connection.not_started = true;
        ++not_started_;
    }
}

void ControlServer::retry_closing() {
    for (auto at = connections_.begin(); not_started_ > 0 && at != connections_.end(); ++at) {
        Connection& connection = *at->second;
        if (connection.not_started && fd_closer_.close(connection.job)) {
            connection.not_started = false;
            --not_started_;
        }
    }
}

void ControlServer::take_closed() {
    while (std::unique_ptr<FdCloser::Job> job = fd_closer_.next_closed()) {
        const auto at = connections_.find(job->id);
        at->second->job = std::move(job);
        go_on(at);
    }
}

/// What a client gave is closed: it gets its answer, or was the last that there was of it.
void ControlServer::go_on(Connections::iterator at) {
    Connection& connection = *at->second;
    if (!connection.ended) {
        const bool answered =
            send_reply(connection.socket.get(), connection.request, connection.error, connection.reply) &&
            control_.event_loop.enable(connection.socket_events);
        connection.reply = {};
        if (!answered) {
            disconnect(connection.id);
        }
        return;
    }
    if (connection.wants_turn()) {
        return;
    }
    if (connection.refused) {
        --num_refused_;
        if (!connection.waiting.empty()) {
            connection.socket = std::move(connection.waiting.back());
            connection.waiting.pop_back();
        }
    }
    if (connection.socket) {
        start_closing(connection);
        return;
    }
    if (!connection.refused) {
        --admitted_;
        --connection.user->count(Resource::kConnections);
    } else {
        refused_of_.erase(connection.peer.uid);
    }
    connections_.erase(at);
    resume_accept();
}

}  // namespace urnic::daemon
