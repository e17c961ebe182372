// Which system calls threads may make (seccomp(2), by libseccomp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace urnic {

/// A call that no rule names is answered with ENOSYS, as by a kernel that does not have it: libraries then
/// do without it. Names that this machine's libseccomp does not know are left out.
class SyscallFilter {
  public:
    /// Throws SetupError.
    SyscallFilter();
    ~SyscallFilter();
    SyscallFilter(const SyscallFilter&) = delete;
    SyscallFilter& operator=(const SyscallFilter&) = delete;

    void allow(const char* name);
    /// Where `mask` of the argument with that index has that value.
    void allow_if(const char* name, unsigned argument, std::uint64_t mask, std::uint64_t value);
    /// Answered with `error`; the second: where `mask` of that argument has that value.
    void refuse(const char* name, int error);
    void refuse_if(const char* name, unsigned argument, std::uint64_t mask, std::uint64_t value, int error);
    /// Ends the process by SIGSYS, and the kernel logs it: what this program never does, and who has taken it
    /// over does first.
    void kill(const char* name);
    void kill_if(const char* name, unsigned argument, std::uint64_t mask, std::uint64_t value);

    enum class Scope : std::uint8_t { kThread, kProcess };
    /// For good, and besides what is installed already: the stricter answer counts. Threads that are made
    /// later have it too. 0 or errno.
    [[nodiscard]] int install(Scope scope);

  private:
    struct Context;
    std::unique_ptr<Context> context_;
};

}  // namespace urnic
