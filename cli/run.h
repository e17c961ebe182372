// `urnic run`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace urnic::cli {

struct RunOptions {
    bool standalone = false;
    bool keep = false;
    bool mount = false;                   // the RNICs' files by mounts, not by LD_PRELOAD
    std::string faults;                   // a file, empty: none
    std::string link_layer = "ethernet";  // of the RNICs of --standalone
    std::filesystem::path socket;
    std::vector<std::string> command;
};

/// Replaces this process by the command (--socket), or runs it as a child and ends as it ended
/// (--standalone). Throws LaunchError before the command has started.
[[noreturn]] void run(const RunOptions& options);

}  // namespace urnic::cli
