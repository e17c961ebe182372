// Processes that use every cycle that they get.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace urnic::bench {

/// Computing processes beside this one, for as long as this lives.
class Computing {
  public:
    explicit Computing(std::uint32_t count);
    ~Computing();
    Computing(const Computing&) = delete;
    Computing& operator=(const Computing&) = delete;

  private:
    std::vector<pid_t> children_;
};

}  // namespace urnic::bench
