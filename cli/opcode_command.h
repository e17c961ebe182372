// `urnic opcode`.
#pragma once

#include <string>
#include <vector>

#include "os/command_line.h"

namespace urnic::cli {

/// What `urnic opcode WORDS` prints: the packets that the words name, by number or by name, or the whole
/// table without words. Throws LaunchError when they name none.
[[nodiscard]] std::string opcode_text(const std::vector<std::string>& words);

class OpcodeCommand {
  public:
    /// Defines it in `app`, which this outlives.
    explicit OpcodeCommand(const Command& app);
    OpcodeCommand(const OpcodeCommand&) = delete;
    OpcodeCommand& operator=(const OpcodeCommand&) = delete;

    /// Returns whether the command line names it.
    [[nodiscard]] bool parsed() const { return opcode_.parsed(); }
    /// Prints. Throws LaunchError.
    void run() const;

  private:
    Command opcode_;
    std::vector<std::string> words_;
};

}  // namespace urnic::cli
