// What the threads of the torture share: the devices, one piece of memory, the counts of what was done.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "tests/suites/torture/random.h"

namespace urnic::torture {

inline constexpr std::uint8_t kPort = 1;
inline constexpr std::uint8_t kGid = 1;
/// Q_Keys of threads that verify what they get; the others use one of their own, so that no stray datagram
/// comes in.
inline constexpr std::uint32_t kTrafficQkey = 0x11111111;
inline constexpr std::uint32_t kChurnQkey = 0x22222222;
/// What has to come comes within this time on a busy machine too, also with a sanitizer in the daemon.
inline constexpr int kPatienceMs = 120'000;

/// Ends the program: says what went wrong, in which thread, and the seed that repeats it.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

[[nodiscard]] const char* name_of(ibv_qp_type type);

/// Of the running thread, for fail().
void name_thread(const std::string& name);

class Shared {
  public:
    Shared(std::uint64_t seed, std::size_t arena_bytes);
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared();

    [[nodiscard]] std::uint64_t seed() const { return seed_; }
    [[nodiscard]] const std::array<ibv_context*, 2>& contexts() const { return contexts_; }
    [[nodiscard]] const std::array<ibv_gid, 2>& gids() const { return gids_; }
    [[nodiscard]] bool over() const { return over_.load(std::memory_order_relaxed); }
    void end() { over_ = true; }

    /// Memory that every thread registers; each transferring thread has a part of it to itself for its data.
    [[nodiscard]] std::uint8_t* arena() const { return arena_; }
    [[nodiscard]] std::size_t arena_bytes() const { return arena_bytes_; }

    /// One more of these was done.
    void count(const std::string& what);
    [[nodiscard]] bool has_done(const std::string& what) const;
    /// Returns whether errno says that the device does not offer this, which is noted then.
    bool not_offered(const std::string& what);
    /// Prints what was done how often and what is not offered.
    void print() const;

  private:
    std::uint64_t seed_;
    std::size_t arena_bytes_;
    std::uint8_t* arena_;
    std::array<ibv_context*, 2> contexts_{};
    std::array<ibv_gid, 2> gids_{};
    std::atomic<bool> over_ = false;
    mutable std::mutex mutex_;
    std::map<std::string, std::uint64_t> done_;
    std::map<std::string, std::uint64_t> not_offered_;
};

/// Opens urnic0 or urnic1.
[[nodiscard]] ibv_context* open_device(unsigned index);

/// Creates, modifies and destroys until the time is over.
void churn(Shared& shared, unsigned thread);
/// Takes the asynchronous events of the shared devices until the time is over.
void take_events(Shared& shared);
/// Transfers data and verifies it until the time is over, in the part of the arena that belongs to `thread`.
void transfer(Shared& shared, unsigned thread, std::size_t part_bytes);

}  // namespace urnic::torture
