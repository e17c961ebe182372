#include "cli/environment.h"

#include <fmt/core.h>

#include <cstdlib>
#include <string>

#include "cli/launch_error.h"
#include "cli/layout.h"

namespace urnic::cli {
namespace {

/// Puts `value` in front of the list that the variable `name` holds, unless it is there already (`urnic run`
/// under `urnic run`).
void prepend(const char* name, const std::string& value, char separator) {
    const char* old = std::getenv(name);
    std::string list = value;
    if (old != nullptr && *old != '\0') {
        const std::string wrapped = fmt::format("{0}{1}{0}", separator, old);
        if (wrapped.find(fmt::format("{0}{1}{0}", separator, value)) != std::string::npos) return;
        list = fmt::format("{}{}{}", value, separator, old);
    }
    setenv(name, list.c_str(), 1);
}

void preload_shim() {
    const std::string shim = find_part(Part::kShim).string();
    if (shim.find_first_of(" :") != std::string::npos) {
        throw LaunchError(
            fmt::format("LD_PRELOAD cannot hold the path {}: it has a space or a colon in it; move "
                        "the build tree or the installation",
                        shim));
    }
    prepend("LD_PRELOAD", shim, ':');
    // A program built with AddressSanitizer refuses to start when another library is preloaded before its own
    // runtime. The shim allocates nothing and calls on to the runtime's functions, so the order is harmless.
    const char* asan = std::getenv("ASAN_OPTIONS");
    if (asan == nullptr || std::string(asan).find("verify_asan_link_order") == std::string::npos) {
        prepend("ASAN_OPTIONS", "verify_asan_link_order=0", ':');
    }
    // Valgrind reads its options from here too, and stops at a file that is not there.
    const std::filesystem::path suppressions = std::filesystem::path(shim).parent_path() / "valgrind.supp";
    if (std::error_code none; std::filesystem::exists(suppressions, none)) {
        prepend("VALGRIND_OPTS", "--suppressions=" + suppressions.string(), ' ');
    }
}

}  // namespace

void set_program_environment(const std::filesystem::path& run_dir, Discovery discovery) {
    const std::string provider = find_part(Part::kProvider).string();
    if (provider.find_first_of(":;") != std::string::npos) {
        throw LaunchError(
            fmt::format("RDMAV_DRIVERS cannot hold the path {}: it has a colon or a semicolon in "
                        "it; move the build tree or the installation",
                        provider));
    }
    if (discovery == Discovery::kPreload) preload_shim();
    // libibverbs appends this ending itself.
    constexpr const char* kEnding = "-rdmav34.so";
    prepend("RDMAV_DRIVERS", provider.substr(0, provider.rfind(kEnding)), ':');
    setenv("URNIC_RUN_DIR", run_dir.c_str(), 1);
}

}  // namespace urnic::cli
