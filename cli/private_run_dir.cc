#include "cli/private_run_dir.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace urnic::cli {
namespace fs = std::filesystem;

namespace {

/// A Unix socket's path has 107 bytes, of which the directory's own name and "control.sock" need about 30.
constexpr std::size_t kLongestParent = 70;
/// "sysroot/dev/infiniband/.umad_control" needs more.
constexpr std::size_t kLongestParentWithUmad = 57;

}  // namespace

fs::path make_run_dir(bool has_umad, std::string& tried) {
    const std::size_t longest = has_umad ? kLongestParentWithUmad : kLongestParent;
    const auto note = [&](const char* place, const std::string& why) {
        tried += fmt::format("{}{}: {}", tried.empty() ? "" : ", ", place, why);
    };
    for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR", ""}) {
        const char* value = *name == '\0' ? "/tmp" : std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
        if (value == nullptr || *value != '/') continue;
        if (std::strlen(value) > longest) {
            note(value, fmt::format("longer than {} characters", longest));
            continue;
        }
        std::string path = (fs::path(value) / "urnic-XXXXXX").string();
        if (mkdtemp(path.data()) != nullptr) return path;
        note(value, std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
    }
    return {};
}

}  // namespace urnic::cli
