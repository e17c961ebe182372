// What of urnic works on this machine or in this container, found by trying it.
#pragma once

#include <string>
#include <vector>

namespace urnic::cli {

enum class Health {
    kWorks,
    kLimited,  // something is slower, or one way of use is closed
    kFails,    // no program can use an RNIC
};

struct Finding {
    Health health = Health::kWorks;
    std::string what;    // one or two words
    std::string detail;  // what was found, and what follows from it
    std::string hint;    // what to do or type; empty where nothing is wrong
};

/// Looks at parts, libraries, kernel and rights, in the order in which a first run would meet them. Changes
/// nothing and leaves nothing behind. `version`: of this program.
[[nodiscard]] std::vector<Finding> examine_machine(const std::string& version);

/// Starts a private daemon as `urnic run --standalone -- true` does.
[[nodiscard]] Finding try_standalone();

/// The kernel's release as major and minor number: 6.1 of "6.1.0-18-amd64"; zeros when it has another form.
struct KernelRelease {
    unsigned major = 0;
    unsigned minor = 0;
};
[[nodiscard]] KernelRelease kernel_release(const std::string& text);

}  // namespace urnic::cli
