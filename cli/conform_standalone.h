// `urnic conform --port standalone`: judges an RNIC of urnic's own, over a veth pair that nobody else sees.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace urnic::cli {

struct ConformStandalone {
    std::string profile;             // of the RNIC; empty: its own behaviour
    std::vector<std::string> words;  // of the command line but for --port
};

/// What a command line of `urnic conform` asks for; nothing: another device. `arguments` is null-terminated.
/// Throws LaunchError when it has options that do not go with it.
[[nodiscard]] std::optional<ConformStandalone> conform_standalone_of(char* const* arguments);

/// Makes a network namespace (with a user namespace where that needs one) and a veth pair in it, starts a
/// daemon and urnic-conform-agent at one end and the tester at the other, and ends as the tester ended.
/// Throws LaunchError before the tester has started.
[[noreturn]] void run_conform_standalone(const ConformStandalone& asked);

}  // namespace urnic::cli
