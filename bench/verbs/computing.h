// Processes that use every cycle that they get, and on which CPUs processes run.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace urnic::bench {

/// The calling process runs on the CPU number `index` (modulo their number) of those it may run on.
void pin_this_process(std::uint32_t index);

/// When it ends the calling process may run again where it could when it began.
class CpusOfThisProcess {
  public:
    CpusOfThisProcess();
    ~CpusOfThisProcess();
    CpusOfThisProcess(const CpusOfThisProcess&) = delete;
    CpusOfThisProcess& operator=(const CpusOfThisProcess&) = delete;

  private:
    cpu_set_t before_{};
};

/// Computing processes beside this one, for as long as this lives.
class Computing {
  public:
    /// `pinned`: each on a CPU of its own as long as there are enough.
    explicit Computing(std::uint32_t count, bool pinned = false);
    ~Computing();
    Computing(const Computing&) = delete;
    Computing& operator=(const Computing&) = delete;

  private:
    std::vector<pid_t> children_;
};

}  // namespace urnic::bench
