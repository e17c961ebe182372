// `urnic cdi`: a daemon's RNICs for container runtimes, as a specification of the Container Device Interface.
#pragma once

#include <filesystem>
#include <string>

namespace urnic::cli {

/// Where the shim and the provider lie on the host.
struct CdiLibraries {
    std::filesystem::path shim;
    std::filesystem::path provider;
};

/// JSON text: a device "urnic.io/rnic=NAME" for each RNIC of the daemon at `run_dir`, and
/// "urnic.io/rnic=all". A container gets the control socket, the libraries, the environment of `urnic run`,
/// and the files of its RNICs alone. Throws LaunchError where no daemon's files are.
[[nodiscard]] std::string cdi_specification(const std::filesystem::path& run_dir,
                                            const CdiLibraries& libraries);

}  // namespace urnic::cli
