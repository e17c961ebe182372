// What time does: messages sent again, ends of waiting and of timewait.
#include "rnic/cm/manager.h"
#include "rnic/cm/manager_send.h"

namespace urnic::cm {

void Manager::advance(TimeNs now, Outbox& out) {
    while (Connection* connection = connections_.take_due(now)) {
        expire(*connection, {now, out});
    }
}

void Manager::expire(Connection& connection, Call call) {
    switch (connection.state()) {
        case State::kTimewait:
            if (connection.is_owned) {
                close(connection);
                raise(connection, EventType::kTimewaitExit, nullptr, call);
            } else {
                close(connection);
            }
            return;
        case State::kClosed:
            connections_.forget(connection);
            close(connection);
            return;
        default:
            break;
    }
    if (connection.retries_left == 0) {
        expire_unanswered(connection, call);
        return;
    }
    --connection.retries_left;
    ++stats_.retries;
    connections_.set_timer(connection, call.now + connection.response_ns + connection.mra_ns);
    send_again(connection, call);
}

void Manager::expire_unanswered(Connection& connection, Call call) {
    ++stats_.timeouts;
    switch (connection.state()) {
        case State::kReqSent:
        case State::kMraReqReceived:
            give_up_request(connection, call);
            close(connection);
            raise(connection, EventType::kUnreachable, nullptr, call);
            break;
        case State::kRepSent:
        case State::kMraRepReceived:
            give_up_request(connection, call);
            close_keeping_reply(connection, call.now);
            raise(connection, EventType::kUnreachable, nullptr, call);
            break;
        case State::kDreqSent:
            enter_timewait(connection, call.now);
            raise(connection, EventType::kDisconnectTimeout, nullptr, call);
            break;
        case State::kSidrReqSent:
            close(connection);
            raise(connection, EventType::kSidrUnreachable, nullptr, call);
            break;
        default:
            break;
    }
}

}  // namespace urnic::cm
