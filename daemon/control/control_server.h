// The control socket: connections, their credentials, requests and replies. It runs the control thread's
// event loop, which sleeps when nobody asks for anything.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>

#include "daemon/control/status_cache.h"
#include "daemon/control/status_text.h"
#include "daemon/ipc/fd_closer.h"
#include "daemon/state/control_state.h"
#include "os/event_loop.h"
#include "os/monotonic_clock.h"
#include "os/unique_fd.h"

namespace urnic::daemon {

struct ClientState;

class ControlServer final : private RnicObserver {
  public:
    struct Options {
        std::size_t max_connections = 1024;
        /// One user cannot keep the others out.
        std::size_t max_connections_per_uid = 512;
        /// Requests of one client in a row before the next one's turn comes.
        std::size_t requests_per_turn = 16;
        /// After that long in one turn nothing more is begun in it: requests of one client, steps of what
        /// takes long. With the last of them it ends within 2 ms.
        TimeNs turn_ns = 1'000'000;
        /// For tests.
        std::function<TimeNs()> clock = clock_now;
        /// For tests: numbers of connections come round after it. There are more than connections.
        std::uint32_t last_id = std::numeric_limits<std::uint32_t>::max();
    };

    ControlServer(ControlState& control, Options options);
    explicit ControlServer(ControlState& control) : ControlServer(control, Options{}) {}
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;
    /// Disconnects everybody.
    ~ControlServer() override;

    /// Makes a Unix socket at `path`, which must not exist, with that mode and group (-1: as it comes). Who
    /// connects is refused until listen(). 0 or errno.
    [[nodiscard]] static int bind(const std::string& path, mode_t mode, gid_t group, UniqueFd& socket);
    /// Listens on what bind() made. 0 or errno.
    [[nodiscard]] int listen(UniqueFd socket);

    /// Serves until one of `stop_fds` becomes readable or hangs up. `after_round` is called each time that
    /// the thread was awake for something, and once a second when it was not.
    void run(std::span<const int> stop_fds, const std::function<void()>& after_round);

    /// All who have sent Hello. Until the next round.
    [[nodiscard]] std::vector<const ClientState*> clients() const;
    /// Those included of which something is still being closed.
    [[nodiscard]] std::size_t num_connections() const { return connections_.size(); }

  private:
    struct Connection;
    using Connections = std::map<std::uint32_t, std::unique_ptr<Connection>>;

    void accept_some();
    void add_connection(UniqueFd socket);
    /// Numbers come round while there are connections from before: one that no connection has.
    [[nodiscard]] std::uint32_t new_id() {
        do {
            newest_id_ = newest_id_ == options_.last_id ? 1 : newest_id_ + 1;
        } while (connections_.contains(newest_id_));
        return newest_id_;
    }
    [[nodiscard]] int admit(UniqueFd& socket);
    void refuse(UniqueFd& socket, int error);
    void keep_refused(UniqueFd& socket);
    void pause_accept();
    void tell_exhaustion();
    void resume_accept();
    /// Returns whether the connection continues; otherwise the caller disconnects it.
    [[nodiscard]] bool serve(Connection& connection);
    [[nodiscard]] bool finish_request(Connection& connection, Request& request, int error, Reply& reply);
    [[nodiscard]] Connection* next_in_turn();
    [[nodiscard]] bool go_on_with(Connection& connection);
    void take_turn();
    [[nodiscard]] int answer(Connection& connection, Request& request, Reply& reply);
    template <typename Begin>
    [[nodiscard]] int answer_question(Connection& connection, const char* what, Reply& reply,
                                      const Begin& begin);
    [[nodiscard]] const ClientState* first_client(const User& user, std::uint32_t id) const;
    [[nodiscard]] bool run_round(int timeout_ms);
    void on_socket(std::uint32_t id);
    void on_process_end(std::uint32_t id);
    void on_port_state(const RnicState& rnic, bool is_up) override {
        raise(rnic, is_up ? AsyncEventType::kPortActive : AsyncEventType::kPortErr);
    }
    void on_gids(const RnicState& rnic) override { raise(rnic, AsyncEventType::kGidChange); }
    void on_subnet(const RnicState& rnic, std::optional<AsyncEventType> event) override {
        if (event) {
            raise(rnic, *event);
        }
    }
    void raise(const RnicState& device, AsyncEventType type) const;
    void disconnect(std::uint32_t id);
    [[nodiscard]] bool close_given(Connection& connection, Fds<UniqueFd>& fds);
    void start_closing(Connection& connection);
    void take_closed();
    void go_on(Connections::iterator at);
    void retry_closing();
    void announce_owed();
    void tell_of_long_rounds();
    void stop_watching(Connection& connection);

    ControlState& control_;
    Options options_;
    UniqueFd listener_;
    EventLoop::Id listener_events_ = 0;  // 0: none
    EventLoop::Id closed_events_ = 0;
    bool accept_paused_ = false;
    std::chrono::steady_clock::time_point accept_again_;
    std::chrono::steady_clock::time_point announce_again_;
    StatusCache<StatusText> status_cache_;
    bool exhaustion_logged_ = false;
    std::uint32_t newest_id_ = 0;
    Connections connections_;
    FdCloser fd_closer_;
    std::size_t admitted_ = 0;     // connections, without those that were refused
    std::size_t not_started_ = 0;  // connections with something to close for which there was no thread
    std::size_t num_in_turn_ = 0;  // connections that want a turn
    std::uint32_t last_in_turn_ = 0;
    std::unordered_map<uid_t, Connection*> refused_of_;
    std::size_t num_refused_ = 0;  // connections that wait in those
    std::size_t max_refused_;
};

}  // namespace urnic::daemon
