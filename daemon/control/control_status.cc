// Which clients a user may see, and what he is told of them.
#include <algorithm>

#include "daemon/control/control_connection.h"
#include "daemon/control/control_server.h"
#include "os/monotonic_clock.h"
#include "os/rollback.h"

namespace urnic::daemon {

/// A step. 0, kUnfinished or errno.
int ControlServer::answer_status(Connection& connection, const Request& request, Reply& reply) {
    const User& user = *connection.user;
    const ClientFrom client_from = [&](std::uint32_t id) -> const ClientState* {
        const auto found =
            std::find_if(connections_.lower_bound(id), connections_.end(), [&](const auto& entry) {
                return entry.second->client != nullptr && may_see(user, *entry.second);
            });
        return found == connections_.end() ? nullptr : found->second->client.get();
    };
    Rollback forget([&] { connection.status.reset(); });
    const int error = answer_status_request(control_, status_cache_, user, clock_now(), client_from, request,
                                            reply, connection.status);
    if (error == kUnfinished) {
        forget.keep();
    }
    return error;
}

/// Those of others are for the privileged alone.
bool ControlServer::may_see(const User& user, const Connection& connection) {
    return user.is_privileged() || connection.user == &user;
}

std::vector<const ClientState*> ControlServer::clients_for(const User& user) const {
    std::vector<const ClientState*> clients;
    for (const auto& [id, connection] : connections_) {
        if (connection->client != nullptr && may_see(user, *connection)) {
            clients.push_back(connection->client.get());
        }
    }
    return clients;
}

}  // namespace urnic::daemon
