// Whether a request and its reply are awaited without sleeping for a moment. Being woken on another CPU takes
// several times as long as most requests do, so both ends look again and again before they sleep, as long as
// that pays.
//
// They do not yield meanwhile: where others compute that gives away a time slice of milliseconds, while a
// sleeper is put before them when it is woken.
#pragma once

#include <cstdint>

namespace urnic {

class SpinWait {
  public:
    static constexpr std::uint64_t kSpinNs = 50'000;
    /// So many spins in vain, and only one wait in kRarely spins, until one pays again.
    static constexpr std::uint32_t kTries = 8;
    static constexpr std::uint32_t kRarely = 16;

    constexpr explicit SpinWait(std::uint64_t spin_ns = kSpinNs) : spin_ns_(spin_ns) {}

    /// A wait begins at `now_ns`, of a clock that never goes back.
    void begin(std::uint64_t now_ns) {
        is_spinning_ = tries_ != 0 || ++without_ % kRarely == 0;
        until_ns_ = now_ns + spin_ns_;
    }
    /// Returns whether to poll once more; if not, sleep until there is something.
    [[nodiscard]] bool should_poll(std::uint64_t now_ns) {
        if (is_spinning_ && now_ns >= until_ns_) {
            is_spinning_ = false;
            tries_ -= tries_ != 0 ? 1 : 0;
        }
        return is_spinning_;
    }
    /// The look found something.
    void on_progress() { tries_ = is_spinning_ ? kTries : tries_; }

  private:
    std::uint64_t spin_ns_;
    bool is_spinning_ = false;
    std::uint64_t until_ns_ = 0;
    std::uint32_t tries_ = kTries;
    std::uint32_t without_ = 0;
};

}  // namespace urnic
