// How far a run has come, on a terminal.
#pragma once

#include <chrono>
#include <string>

namespace urnic::experiment {

/// A bar on the standard error stream; nothing where that is no terminal, or is to be quiet.
class Progress {
  public:
    Progress(std::string title, bool quiet);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// `part` of 1 is done.
    void show(double part);

  private:
    std::string title_;
    bool on_;
    std::chrono::steady_clock::time_point begin_;
};

}  // namespace urnic::experiment
