// Two hosts whose owners do random things with connections, over a network that loses, doubles and reorders
// messages, in virtual time; and what has to be true of every event and at the end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/cm/cm_script.h"

namespace urnic::sim::cm {

/// What a seed stands for.
struct Impairments {
    double loss = 0;
    double duplicate = 0;
    TimeNs max_delay_ns = 0;     // each message takes between nothing and this
    bool is_impatient = false;   // owners destroy and reject a lot
    bool gives_up_soon = false;  // few retries: what is lost stays lost
    bool reuses_qps = false;     // QP numbers are used again at once, which makes stale connections
};

class Walk {
  public:
    explicit Walk(std::uint64_t seed);
    /// Runs it; what was wrong, or nothing.
    [[nodiscard]] std::string run();
    /// How many connections came up at both ends, ended, were rejected: a walk in which nothing happens
    /// shows.
    struct Seen {
        std::uint64_t established = 0;
        std::uint64_t disconnected = 0;
        std::uint64_t rejected = 0;
        std::uint64_t unreachable = 0;
        std::uint64_t resolved = 0;
        std::uint64_t stale = 0;
        std::uint64_t duplicates = 0;
        std::uint64_t retries = 0;
    };
    [[nodiscard]] const Seen& seen() const { return seen_; }

  private:
    /// What an owner knows of a handle.
    enum class Knows : std::uint8_t {
        kAsked,      // connect() or send_sidr_req() was called
        kRequested,  // kRequest or kSidrRequest came
        kAccepted,
        kReplied,
        kUp,
        kEnding,    // disconnect() was called
        kAskedEnd,  // kDisconnectRequest came
        kOver,
    };
    struct Known {
        Knows state = Knows::kAsked;
        bool is_active = false;
        bool is_resolution = false;
        std::uint64_t token = 0;  // of the attempt, in the private data: the same at both ends
        std::uint32_t qpn = 0;
        bool has_exited = false;  // kTimewaitExit came
        std::set<EventType> events;
    };
    struct Host final : Outbox {
        explicit Host(Walk& the_walk, int the_number) : walk(the_walk), number(the_number) {}
        void send(const SendMad& mad) override { walk.transmit(*this, mad); }
        void event(const Event& event) override { walk.heard(*this, event); }
        Walk& walk;
        int number;
        std::unique_ptr<Manager> manager;
        std::map<Handle, Known> handles;
        std::vector<SeenEvent> news;  // to act on after the call that made them
    };

    [[nodiscard]] std::uint64_t random(std::uint64_t below) { return rng_() % below; }
    [[nodiscard]] bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(rng_) < p; }
    void wrong(const std::string& what);
    void transmit(Host& from, const SendMad& mad);
    void heard(Host& host, const Event& event);
    void check(Host& host, const Event& event);
    void check_known(Known& known, const Event& event);
    void act(Host& host, const SeenEvent& event);
    void answer_request(Host& host, Handle handle, Known& known);
    void begin_something(Host& host);
    void touch_something(Host& host);
    void destroy(Host& host, Handle handle);
    void ready(Host& host, Handle handle, Known& known);
    void disconnect(Host& host, Handle handle, Known& known);
    [[nodiscard]] std::uint32_t draw_qpn();
    /// The next message arrives, or the next timer fires, not later than `until`.
    [[nodiscard]] bool step(TimeNs until);
    void run_until(TimeNs until);
    void check_agreement();
    void check_empty();

    std::mt19937_64 rng_;
    Impairments impairments_;
    bool is_calm_ = false;  // nothing is lost, owners only answer
    TimeNs now_ = kSecond;
    std::unique_ptr<Host> hosts_[2];
    std::multimap<TimeNs, std::pair<int, ReceivedMad>> wire_;
    std::uint64_t last_token_ = 0;
    std::uint32_t last_qpn_ = 2;
    /// Attempts that an end gave up after its REP: by one REJ, which may be lost, and the RTU's answer
    /// likewise.
    std::set<std::uint64_t> given_up_;
    std::map<std::uint64_t, int> requests_;  // how many kRequest events a token made
    Seen seen_;
    std::string wrong_;
};

}  // namespace urnic::sim::cm
