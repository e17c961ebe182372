// What the processes of one user have together: who makes many processes gets no more of the daemon than who
// has one. The control thread's own.
#pragma once

#include <sys/types.h>

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/rate_limit.h"
#include "daemon/config/user_limits.h"
#include "daemon/state/limited_log.h"
#include "dataplane/worker/run_queue.h"
#include "os/event_socket.h"

namespace urnic::daemon {

/// Returns whether the user is root or the one that the daemon runs as: they may do anything to the daemon
/// anyway.
[[nodiscard]] bool is_root_or_daemon(uid_t uid);

class User {
  public:
    /// `limits` lives longer; they do not hold for the privileged.
    User(uid_t uid, bool is_privileged, const UserLimits& limits, std::size_t num_workers)
        : uid_(uid), limits_(is_privileged ? nullptr : &limits), shares_(num_workers) {}
    User(const User&) = delete;
    User& operator=(const User&) = delete;

    /// Returns whether there may be one more, and the descriptors that it takes; if not, that is a refusal.
    [[nodiscard]] bool has_room(Resource resource);
    /// How many there are; whoever adds or removes one keeps it. Descriptors are not counted here.
    [[nodiscard]] std::uint32_t& count(Resource resource) {
        return counts_[static_cast<std::size_t>(resource)];
    }
    [[nodiscard]] std::uint32_t count(Resource resource) const {
        return counts_[static_cast<std::size_t>(resource)];
    }
    /// Returns whether there may be so many more bytes; if not, that is a refusal.
    [[nodiscard]] bool has_room(ByteResource resource, std::uint64_t more);
    /// Bytes that there may be beyond those there are.
    [[nodiscard]] std::uint64_t room(ByteResource resource) const;
    /// How many bytes there are; whoever adds or removes some keeps it.
    [[nodiscard]] std::uint64_t& bytes(ByteResource resource) {
        return bytes_[static_cast<std::size_t>(resource)];
    }
    [[nodiscard]] std::uint64_t bytes(ByteResource resource) const {
        return bytes_[static_cast<std::size_t>(resource)];
    }
    /// Of the daemon, for what its processes have.
    [[nodiscard]] std::uint32_t descriptors() const;
    /// What the user may have of `most`, which a client may have.
    [[nodiscard]] std::uint32_t at_most(Resource resource, std::uint32_t most) const;
    [[nodiscard]] std::uint64_t at_most(ByteResource resource, std::uint64_t most) const;
    [[nodiscard]] uid_t uid() const { return uid_; }
    /// Returns whether it is root or the daemon's own user: without limits, and allowed what concerns others.
    [[nodiscard]] bool is_privileged() const { return limits_ == nullptr; }

    /// What its questions by RDMA netlink, about rates and for the status may take of the control thread:
    /// answers with thousands of objects take tens of milliseconds each, in which nobody else is served.
    using QuestionTime = TimeBudget<200'000'000, 20>;
    [[nodiscard]] QuestionTime& question_time() { return question_time_; }
    /// What waking its processes may cost.
    [[nodiscard]] WakeBudget& wake_budget() { return wake_budget_; }
    /// Its turns on a worker. The worker's own while a process of the user is attached to it.
    [[nodiscard]] dataplane::UserShare& share(std::size_t worker) { return shares_.at(worker); }

    /// Something was refused to the user that protects others from him. The log says to whom and what, the
    /// first few times. Needs no memory; the words are the daemon's own.
    template <typename... Args>
    void refuse(fmt::format_string<Args...> what, const Args&... args) {
        note_refusal(what, fmt::make_format_args(args...));
    }
    [[nodiscard]] const LimitedLog& refusals() const { return refusals_; }
    /// Rounds of workers that took long in its turns.
    [[nodiscard]] LimitedLog& long_rounds() { return long_rounds_; }
    [[nodiscard]] const LimitedLog& long_rounds() const { return long_rounds_; }

    /// While it lives, a request of that process is served: the log names it.
    class Serving {
      public:
        Serving(User& user, pid_t pid) : user_(user) { user_.served_pid_ = pid; }
        Serving(const Serving&) = delete;
        Serving& operator=(const Serving&) = delete;
        ~Serving() { user_.served_pid_ = 0; }

      private:
        User& user_;
    };

  private:
    void refuse_more(const char* key, std::uint64_t most);
    /// ~0: no limit.
    [[nodiscard]] std::uint64_t limit(ByteResource resource) const;
    void note_refusal(fmt::string_view what, fmt::format_args args);

    uid_t uid_;
    const UserLimits* limits_;
    std::array<std::uint32_t, kNumResources> counts_{};
    std::array<std::uint64_t, kNumByteResources> bytes_{};
    LimitedLog refusals_;
    LimitedLog long_rounds_;
    pid_t served_pid_ = 0;  // 0: none, a packet has come for it
    WakeBudget wake_budget_;
    QuestionTime question_time_;
    std::vector<dataplane::UserShare> shares_;  // by worker
};

}  // namespace urnic::daemon
