// Pinned child processes and shared memory for the comparison programs.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace urnic::bench {

inline constexpr int kAnyCpu = -1;

/// Zeroed memory that children of fork() share. Exits with a message when there is none.
[[nodiscard]] std::byte* shared_memory(std::size_t bytes);

/// Runs the calling thread on `cpu` alone; kAnyCpu leaves it to the system. Exits with a message when the CPU
/// is not there.
void pin_to(int cpu);

/// Runs `body` in a child on `cpu`, which ends with its parent.
[[nodiscard]] pid_t start_child(int cpu, const std::function<void()>& body);

/// Waits for a child; exits with a message when it failed.
void wait_for(pid_t child);

[[nodiscard]] std::uint64_t now_ns();

/// now_ns() in so many seconds.
[[nodiscard]] std::uint64_t deadline_after(double seconds);

/// Says what of which part failed, with errno's text, and exits.
[[noreturn]] void fail(const char* part, const char* what);

/// What to do on a poll that found nothing: give the core away if somebody else needs it, else spin.
class Miss {
  public:
    explicit Miss(bool yields) : yields_(yields) {}
    void operator()() const;

  private:
    bool yields_;
};

}  // namespace urnic::bench
