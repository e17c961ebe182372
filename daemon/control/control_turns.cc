// What takes long continues in turns: requests of which steps are left, and clients that have ended. Others
// are served in between, whatever anybody owns.
#include <utility>

#include "daemon/control/control_connection.h"
#include "daemon/control/control_server.h"

namespace urnic::daemon {

/// They follow each other, so that nobody's end waits for all of another's.
ControlServer::Connection* ControlServer::next_in_turn() {
    auto at = connections_.upper_bound(last_in_turn_);
    for (std::size_t looked_at = 0; looked_at < connections_.size(); ++looked_at, ++at) {
        if (at == connections_.end()) {
            at = connections_.begin();
        }
        if (at->second->wants_turn()) {
            last_in_turn_ = at->first;
            return at->second.get();
        }
    }
    return nullptr;
}

/// One step. Returns whether there are more.
bool ControlServer::go_on_with(Connection& connection) {
    if (connection.ended) {
        if (connection.client->end_some()) {
            return true;
        }
        connection.client.reset();
        --num_in_turn_;
        if (!connection.is_closing()) {
            start_closing(connection);
        }
        return false;
    }
    Reply reply;
    const int error = answer(connection, connection.unfinished, reply);
    if (error == kUnfinished) {
        return true;
    }
    connection.is_unfinished = false;
    --num_in_turn_;
    // Closing what came with the request disables its events once more, which does nothing.
    if (!finish_request(connection, connection.unfinished, error, reply) ||
        (!connection.is_closing() && !control_.event_loop.enable(connection.socket_events))) {
        disconnect(connection.id);
    }
    return false;
}

void ControlServer::take_turn() {
    const TimeNs until = options_.clock() + options_.turn_ns;
    bool is_over = false;
    while (!is_over) {
        Connection* const connection = next_in_turn();
        if (connection == nullptr) {
            return;
        }
        bool has_more = true;
        while (has_more && !is_over) {
            is_over = options_.clock() >= until;
            const TurnBegin begin;
            has_more = go_on_with(*connection);
            control_.turns.steps.add(begin);
        }
    }
}

}  // namespace urnic::daemon
