#include "daemon/control/control_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/spin_wait.h"
#include "daemon/cm/client.h"
#include "daemon/control/capture_request.h"
#include "daemon/control/congestion_request.h"
#include "daemon/control/control_connection.h"
#include "daemon/control/fault_request.h"
#include "daemon/control/long_rounds.h"
#include "daemon/control/netlink_request.h"
#include "daemon/control/port_request.h"
#include "daemon/control/status_request.h"
#include "daemon/ipc/message.h"
#include "daemon/verbs/client.h"
#include "daemon/verbs/device.h"
#include "os/log.h"
#include "os/monotonic_clock.h"
#include "os/rollback.h"

namespace urnic::daemon {

namespace {

constexpr int kBacklog = 128;
constexpr int kAcceptsPerRound = 16;
constexpr int kAcceptRetryMs = 100;
constexpr int kQuietRoundMs = 1000;
constexpr std::chrono::seconds kEndPatience{1};
/// Refused connections with descriptors in them wait for each other: no more than this part of all
/// descriptors.
constexpr std::size_t kRefusedPart = 4;

std::size_t max_descriptors() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

bool is_exhaustion(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

ControlServer::ControlServer(ControlState& control, Options options)
    : control_(control), options_(std::move(options)), max_refused_(max_descriptors() / kRefusedPart) {
    closed_events_ = control_.event_loop.add(fd_closer_.fd(), [this] { take_closed(); });
    control_.observers.push_back(this);
}

ControlServer::~ControlServer() {
    std::erase(control_.observers, static_cast<RnicObserver*>(this));
    for (const auto& [id, connection] : connections_) {
        connection->client.reset();
        control_.captures.remove(control_, connection->capture);
        connection->ended = true;
        stop_watching(*connection);
        if (!connection->is_closing()) {
            start_closing(*connection);
        }
    }
    // For those who look at us the next moment; who does not let go is not waited for.
    const auto give_up = std::chrono::steady_clock::now() + kEndPatience;
    while (!connections_.empty() && std::chrono::steady_clock::now() < give_up) {
        pollfd closed{fd_closer_.fd(), POLLIN, 0};
        (void)::poll(&closed, 1, kAcceptRetryMs);
        take_closed();
        retry_closing();
    }
    control_.event_loop.remove(closed_events_);
    if (listener_events_ != 0) {
        control_.event_loop.remove(listener_events_);
    }
}

int ControlServer::bind(const std::string& path, mode_t mode, gid_t group, UniqueFd& socket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        return ENAMETOOLONG;
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!made) {
        return errno;
    }
    if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return errno;
    }
    if ((group != static_cast<gid_t>(-1) && ::chown(path.c_str(), static_cast<uid_t>(-1), group) != 0) ||
        ::chmod(path.c_str(), mode) != 0) {
        const int error = errno;
        ::unlink(path.c_str());
        return error;
    }
    socket = std::move(made);
    return 0;
}

int ControlServer::listen(UniqueFd socket) {
    if (::listen(socket.get(), kBacklog) != 0) {
        return errno;
    }
    const int error = control_.event_loop.add(
        socket.get(), [this] { accept_some(); }, listener_events_);
    if (error == 0) {
        listener_ = std::move(socket);
    }
    return error;
}

void ControlServer::run(std::span<const int> stop_fds, const std::function<void()>& after_round) {
    bool stop = false;
    std::vector<EventLoop::Id> stop_events;
    for (const int fd : stop_fds) {
        stop_events.push_back(control_.event_loop.add(fd, [&stop] { stop = true; }));
    }
    // Programs make one request after the other.
    SpinWait spin;
    while (!stop) {
        const bool should_poll = spin.should_poll(clock_now());
        const int patience_ms = accept_paused_ || not_started_ > 0 ? kAcceptRetryMs : kQuietRoundMs;
        bool had_events = run_round(should_poll || num_in_turn_ > 0 ? 0 : patience_ms);
        if (num_in_turn_ > 0) {
            take_turn();
            had_events = true;
        }
        if (should_poll && !had_events) {
            continue;
        }
        if (had_events) {
            spin.on_progress();
        }
        if (accept_paused_ && std::chrono::steady_clock::now() >= accept_again_) {
            resume_accept();
        }
        retry_closing();
        announce_owed();
        tell_of_long_rounds();
        after_round();
        const TimeNs now = clock_now();
        control_.turns.rounds.add(now - control_.event_loop.woke_at());
        spin.begin(now);
    }
    for (const EventLoop::Id id : stop_events) {
        control_.event_loop.remove(id);
    }
}

/// Connection events of which nothing could be reported before.
void ControlServer::announce_owed() {
    const auto now = std::chrono::steady_clock::now();
    if (now < announce_again_) {
        return;
    }
    announce_again_ = now + std::chrono::milliseconds(kAcceptRetryMs);
    for (const auto& [id, connection] : connections_) {
        if (connection->client != nullptr && connection->client->cm != nullptr) {
            connection->client->cm->announce_owed();
        }
    }
}

/// Returns whether there was anything to do.
bool ControlServer::run_round(int timeout_ms) {
    try {
        return control_.event_loop.run_once(timeout_ms);
    } catch (const std::bad_alloc&) {
        log_warning("no memory: something that happened to a port or an address may go unnoticed");
        return true;
    }
}

void ControlServer::on_socket(std::uint32_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) {
        return;
    }
    const TurnBegin begin;
    if (!serve(*found->second)) {
        disconnect(id);
    }
    control_.turns.requests.add(begin);
}

/// A forked child may hold the socket open: the end of the process decides as well.
void ControlServer::on_process_end(std::uint32_t id) {
    if (connections_.contains(id)) {
        disconnect(id);
    }
}

void ControlServer::tell_of_long_rounds() {
    try {
        log_long_rounds(control_);
    } catch (const std::bad_alloc&) {
        log_warning("no memory: a round of a worker took long");
    }
}

void ControlServer::stop_watching(Connection& connection) {
    for (EventLoop::Id* const id : {&connection.socket_events, &connection.process_events}) {
        if (*id != 0) {
            control_.event_loop.remove(std::exchange(*id, 0));
        }
    }
}

void ControlServer::accept_some() {
    for (int i = 0; i < kAcceptsPerRound; ++i) {
        if (num_refused_ >= max_refused_) {
            pause_accept();
            return;
        }
        UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (socket) {
            exhaustion_logged_ = false;
            add_connection(std::move(socket));
        } else if (is_exhaustion(errno)) {
            tell_exhaustion();
            pause_accept();
            return;
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

void ControlServer::tell_exhaustion() {
    if (!exhaustion_logged_) {
        exhaustion_logged_ = true;
        log_warning(
            "cannot accept connections: {}; new programs wait. Raise the limit on open files "
            "(ulimit -n, LimitNOFILE=) or end some programs",
            std::strerror(errno));
    }
}

/// The listener stays readable, so it is left alone for a while instead of spinning.
void ControlServer::pause_accept() {
    control_.event_loop.disable(listener_events_);
    accept_paused_ = true;
    accept_again_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(kAcceptRetryMs);
}

void ControlServer::resume_accept() {
    if (accept_paused_) {
        accept_paused_ = !control_.event_loop.enable(listener_events_);
    }
}

void ControlServer::add_connection(UniqueFd socket) {
    int error = ENOMEM;
    try {
        error = admit(socket);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): ENOMEM it is
    }
    if (error != 0) {
        refuse(socket, error);
    }
}

/// Takes the socket, or leaves it and answers why not.
int ControlServer::admit(UniqueFd& socket) {
    ucred credentials{};
    socklen_t length = sizeof credentials;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
        return errno;
    }
    User& user = control_.user(credentials.uid);
    const User::Serving serving(user, credentials.pid);
    std::uint32_t& of_user = user.count(Resource::kConnections);
    if (admitted_ >= options_.max_connections || of_user >= options_.max_connections_per_uid) {
        user.refuse("a connection: it has {}, all users have {}", of_user, admitted_);
        return EUSERS;
    }
    if (!user.has_room(Resource::kConnections)) {
        return EUSERS;
    }
    auto made = std::make_unique<Connection>();
    Connection& connection = *made;
    connection.id = new_id();
    connection.user = &user;
    connection.peer.pid = credentials.pid;
    connection.peer.uid = credentials.uid;
    // No pidfd (the process has ended, or lives in another PID namespace): the socket alone tells its end.
    connection.peer.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, credentials.pid, 0)));
    const std::uint32_t id = connection.id;
    Rollback unwatch([&] { stop_watching(connection); });
    int error = control_.event_loop.add(
        socket.get(), [this, id] { on_socket(id); }, connection.socket_events);
    if (error == 0 && connection.peer.pidfd) {
        error = control_.event_loop.add(
            connection.peer.pidfd.get(), [this, id] { on_process_end(id); }, connection.process_events);
    }
    if (error != 0) {
        return error;
    }
    connections_.emplace(connection.id, std::move(made));
    unwatch.keep();
    ++of_user;
    ++admitted_;
    connection.socket = std::move(socket);
    return 0;
}

void ControlServer::disconnect(std::uint32_t id) {
    Connection& connection = *connections_.find(id)->second;
    if (connection.ended) {
        return;
    }
    if (connection.client != nullptr) {
        log_debug("client {} ({}, pid {}) is gone", id, connection.client->program, connection.peer.pid);
    }
    if (std::exchange(connection.is_unfinished, false)) {
        --num_in_turn_;
    }
    connection.ended = true;
    connection.long_answer.reset();
    control_.captures.remove(control_, std::exchange(connection.capture, 0));
    stop_watching(connection);
    if (connection.wants_turn()) {
        ++num_in_turn_;
    } else if (!connection.is_closing()) {
        start_closing(connection);
    }
}

bool ControlServer::serve(Connection& connection) {
    const TimeNs until = options_.clock() + options_.turn_ns;
    for (std::size_t i = 0; i < options_.requests_per_turn && !connection.is_closing() && !connection.ended;
         ++i) {
        if (i > 0 && options_.clock() > until) {
            return true;
        }
        Request request;
        const Received received = recv_request(connection.socket.get(), request);
        if (received == Received::kNothing) {
            return true;
        }
        if (received == Received::kEnd) {
            connection.job->fds = std::move(request.fds);
            return false;
        }
        Reply reply;
        const int error = received == Received::kTooLarge ? EMSGSIZE : answer(connection, request, reply);
        if (error == kUnfinished) {
            control_.event_loop.disable(connection.socket_events);
            connection.unfinished = std::move(request);
            connection.is_unfinished = true;
            ++num_in_turn_;
            return true;
        }
        if (!finish_request(connection, request, error, reply)) {
            return false;
        }
    }
    return true;
}

/// Answers, at once or when what was given is closed. Returns whether the connection continues.
bool ControlServer::finish_request(Connection& connection, Request& request, int error, Reply& reply) {
    // Before the answer, so that a client that waits for it finds nothing left.
    if (!close_given(connection, request.fds)) {
        connection.request = request.header();
        connection.error = error;
        connection.reply = std::move(reply);
        return true;
    }
    return send_reply(connection.socket.get(), request.header(), error, reply);
}

/// A step of the answer to a user's question, which begin() begins, unless those before have taken too much
/// of the control thread's time. 0, kUnfinished or errno.
template <typename Begin>
int ControlServer::answer_question(Connection& connection, const char* what, Reply& reply,
                                   const Begin& begin) {
    User& user = *connection.user;
    const TimeNs begun_at = options_.clock();
    const bool is_new = connection.long_answer == nullptr;
    if (is_new && !user.is_privileged() && !user.question_time().has_some(begun_at)) {
        user.refuse("a question {}: those before have taken too much time", what);
        return EAGAIN;
    }
    const ClientFrom client_from = [&](std::uint32_t id) { return first_client(user, id); };
    Rollback forget([&] { connection.long_answer.reset(); });
    int error = is_new ? begin(connection.long_answer) : 0;
    if (error == 0) {
        error = connection.long_answer->step(client_from, reply);
    }
    if (error == kUnfinished) {
        forget.keep();
    }
    user.question_time().spend(options_.clock() - begun_at);
    return error;
}

int ControlServer::answer(Connection& connection, Request& request, Reply& reply) {
    const abi::RequestHeader header = request.header();
    const User::Serving serving(*connection.user, connection.peer.pid);
    if (header.length != request.length) {
        connection.user->refuse("a request of {} bytes that says it has {}", request.length, header.length);
        return EINVAL;
    }
    try {
        if (header.op == abi::Op::kStatus) {
            return answer_question(connection, "for the status", reply, [&](auto& answer) {
                return begin_status_answer(control_, status_cache_, *connection.user, clock_now(), request,
                                           answer);
            });
        }
        if (header.op == abi::Op::kFault) {
            return answer_fault_request(control_, *connection.user, request, reply);
        }
        if (header.op == abi::Op::kCongestion && is_about_rates(request)) {
            return answer_question(connection, "about rates", reply,
                                   [&](auto& answer) { return begin_rates_answer(control_, answer); });
        }
        if (header.op == abi::Op::kCongestion) {
            return answer_congestion_request(control_, clients(), *connection.user, request, reply);
        }
        if (header.op == abi::Op::kCapture) {
            return answer_capture_request(control_, *connection.user, request, reply, connection.capture);
        }
        if (header.op == abi::Op::kNetlink) {
            return answer_question(connection, "by RDMA netlink", reply, [&](auto& answer) {
                return begin_netlink_answer(control_, request, answer);
            });
        }
        if (header.op == abi::Op::kPort) {
            return answer_port_request(control_, *connection.user, request, reply);
        }
        if (header.op == abi::Op::kHello) {
            return connection.client != nullptr
                       ? EEXIST
                       : hello(control_, connection.peer, connection.id, request, reply, connection.client);
        }
        return connection.client == nullptr ? EPROTO : handle_request(*connection.client, request, reply);
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
}

void ControlServer::raise(const RnicState& device, AsyncEventType type) const {
    for (const auto& [id, connection] : connections_) {
        if (connection->client != nullptr) {
            raise_port_event(*connection->client, device, type);
        }
    }
}

/// The one with the lowest id that is not below `id`, of those of which the user may know: others are for the
/// privileged alone. nullptr: none.
const ClientState* ControlServer::first_client(const User& user, std::uint32_t id) const {
    const auto found = std::find_if(connections_.lower_bound(id), connections_.end(), [&](const auto& entry) {
        return entry.second->client != nullptr && (user.is_privileged() || entry.second->user == &user);
    });
    return found == connections_.end() ? nullptr : found->second->client.get();
}

std::vector<const ClientState*> ControlServer::clients() const {
    std::vector<const ClientState*> clients;
    for (const auto& [id, connection] : connections_) {
        if (connection->client != nullptr && !connection->ended) {
            clients.push_back(connection->client.get());
        }
    }
    return clients;
}

}  // namespace urnic::daemon
