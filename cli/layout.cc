#include "cli/layout.h"

#include <fmt/core.h>
#include <unistd.h>

#include "cli/launch_error.h"

namespace urnic::cli {
namespace fs = std::filesystem;

namespace {

// Directories as Meson installs them, relative to the prefix unless absolute.
constexpr const char* kBinDir = URNIC_BINDIR;
constexpr const char* kSbinDir = URNIC_SBINDIR;
constexpr const char* kLibDir = URNIC_LIBDIR;
constexpr const char* kLibexecDir = URNIC_LIBEXECDIR;

struct PartPlace {
    const char* what;
    const char* in_build_tree;  // relative to the executable
    const char* install_dir;    // relative to the prefix
    const char* below;          // relative to install_dir
    const char* package;        // Debian's
};

PartPlace place_of(Part part) {
    switch (part) {
        case Part::kShim:
            return {"discovery shim", "verbs_provider/liburnic-discovery.so", kLibDir,
                    "urnic/liburnic-discovery.so", "libibverbs-urnic"};
        case Part::kProvider:
            return {"verbs provider", "verbs_provider/liburnic-rdmav34.so", kLibDir,
                    "libibverbs/liburnic-rdmav34.so", "libibverbs-urnic"};
        case Part::kDecoder:
            return {"decoder of captures", "cli/decode/urnic-decode", kLibexecDir, "urnic/urnic-decode",
                    "urnic"};
        case Part::kExperiment:
            return {"program for experiments", "experiment/urnic-experiment", kLibexecDir,
                    "urnic/urnic-experiment", "urnic-experiments"};
        case Part::kIpoib:
            return {"program for IP over InfiniBand", "ulp/ipoib/urnic-ipoib", kLibexecDir,
                    "urnic/urnic-ipoib", "urnic"};
        case Part::kConform:
            return {"conformance tester", "conform/urnic-conform", kLibexecDir, "urnic/urnic-conform",
                    "urnic"};
        case Part::kConformAgent:
            return {"agent of the conformance tester", "conform/urnic-conform-agent", kBinDir,
                    "urnic-conform-agent", "urnic-conform-agent"};
        case Part::kDaemon:
            break;
    }
    return {"daemon", "urnicd", kSbinDir, "urnicd", "urnicd"};
}

/// The install prefix: the executable's directory without the components of bindir.
fs::path prefix_of(fs::path exe_dir) {
    for (const fs::path& component : fs::path(kBinDir)) {
        if (!component.empty() && component != "/") exe_dir = exe_dir.parent_path();
    }
    return exe_dir;
}

}  // namespace

std::vector<fs::path> candidates(Part part, const fs::path& exe_dir) {
    const PartPlace place = place_of(part);
    // operator/ drops its left side when the right one is absolute.
    return {exe_dir / place.in_build_tree, prefix_of(exe_dir) / place.install_dir / place.below};
}

fs::path executable_directory() { return fs::read_symlink("/proc/self/exe").parent_path(); }

fs::path find_part(Part part) {
    const PartPlace part_place = place_of(part);
    const std::vector<fs::path> places = candidates(part, executable_directory());
    for (const fs::path& place : places) {
        if (access(place.c_str(), R_OK) == 0) return place;
    }
    throw LaunchError(fmt::format(
        "the {0} was found neither at {1} nor at {2}: build it with scripts/build, or install the "
        "package {3} again (sudo apt install --reinstall {3}), or unpack the tarball anew",
        part_place.what, places[0].string(), places[1].string(), part_place.package));
}

}  // namespace urnic::cli
