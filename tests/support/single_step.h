// Runs code one instruction at a time (the CPU's trap flag), so that a test sees memory as another thread
// might at the worst moment. x86 alone shows other cores stores in the order in which they are made. Without
// effect under a sanitizer.
#pragma once

#include <csignal>
#include <cstdint>
#include <type_traits>

namespace urnic::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSingleSteps = false;
#else
inline constexpr bool kSingleSteps = true;
#endif

class SingleStep {
  public:
    /// Calls `run`, and `look` after each of its instructions; `look` must not allocate. Returns their
    /// number.
    template <typename Run, typename Look>
    static std::uint64_t through(Run&& run, Look&& look) {
        look_ = [](void* with) { (*static_cast<std::remove_reference_t<Look>*>(with))(); };
        with_ = &look;
        steps_ = 0;
        struct sigaction action {};
        struct sigaction earlier {};
        action.sa_handler = [](int) {
            steps_ = steps_ + 1;
            look_(with_);
        };
        sigaction(SIGTRAP, &action, &earlier);
        if constexpr (kSingleSteps) {
            // Below the red zone, in which the compiler may keep what it likes.
            asm volatile(
                "lea -128(%%rsp), %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::
                    : "memory", "cc");
        }
        run();
        if constexpr (kSingleSteps) {
            asm volatile(
                "lea -128(%%rsp), %%rsp\n pushfq\n andq $~0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::
                    : "memory", "cc");
        }
        sigaction(SIGTRAP, &earlier, nullptr);
        return steps_;
    }

  private:
    static inline void (*look_)(void*) = nullptr;
    static inline void* with_ = nullptr;
    static inline volatile std::uint64_t steps_ = 0;
};

}  // namespace urnic::test
