// Closing what clients gave, and connections, where the control thread need not block (fd_closer.h): until it
// is done the client waits for its answer.
#include "daemon/control/control_connection.h"
#include "daemon/control/control_server.h"

namespace urnic::daemon {

/// Returns whether all is closed; otherwise the answer waits for it.
bool ControlServer::close_given(Connection& connection, Fds<UniqueFd>& fds) {
    for (UniqueFd& fd : fds) {
        if (fd && !is_memory_file(fd.get())) {
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
    if (connection.socket) {
        start_closing(connection);
        return;
    }
    if (!connection.refused) {
        --admitted_;
        const auto count = connections_of_.find(connection.peer.uid);
        if (--count->second == 0) {
            connections_of_.erase(count);
        }
    }
    connections_.erase(at);
    resume_accept();
}

}  // namespace urnic::daemon
