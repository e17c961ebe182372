#include "cli/cdi.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "cli/launch_error.h"

namespace urnic::cli {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

/// The oldest version with all that is used here, so that old runtimes take it.
constexpr const char* kCdiVersion = "0.3.0";
constexpr const char* kRunDirInside = "/run/urnic";
constexpr const char* kLibrariesInside = "/usr/lib/urnic";

std::vector<fs::path> entries(const fs::path& directory) {
    std::error_code missing;
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, missing)) {
        found.push_back(entry.path());
    }
    // The same text for the same daemon.
    std::sort(found.begin(), found.end());
    return found;
}

Json bind_mount_of(const fs::path& host, const fs::path& inside, Json options) {
    options.insert(options.end(), {"rbind", "nosuid"});
    return {{"hostPath", host.string()}, {"containerPath", inside.string()}, {"options", options}};
}

Json bind_file(const fs::path& host, const fs::path& inside) {
    return bind_mount_of(host, inside, {"ro", "nodev"});
}

/// The files of the daemon's tree by the RNIC that they belong to; "" for those of all.
class Tree {
  public:
    explicit Tree(const fs::path& run_dir) : run_dir_(run_dir) {
        for (const fs::path& device : entries(run_dir / "sysroot/sys/class/infiniband")) {
            add(device.filename().string(), device);
        }
        // Their names are others than the RNICs', and device files have them too.
        std::map<std::string, std::string> owners;
        for (const fs::path& kind : entries(run_dir / "sysroot/sys/class")) {
            if (kind.filename() == "infiniband") continue;
            for (const fs::path& entry : entries(kind)) {
                std::string owner;
                std::ifstream(entry / "ibdev") >> owner;
                owners[entry.filename().string()] = owner;
                add(owner, entry);
            }
        }
        for (const fs::path& file : entries(run_dir / "sysroot/dev/infiniband")) {
            add(owners[file.filename().string()], file);
        }
    }

    [[nodiscard]] const std::map<std::string, Json>& mounts() const { return mounts_; }

  private:
    void add(const std::string& owner, const fs::path& path) {
        const fs::path inside = kRunDirInside / path.lexically_relative(run_dir_);
        // Device files are links to a device of the host's, which programs open for writing.
        mounts_[owner].push_back(fs::is_symlink(path) ? bind_mount_of(fs::read_symlink(path), inside, {"rw"})
                                                      : bind_file(path, inside));
    }

    fs::path run_dir_;
    std::map<std::string, Json> mounts_;
};

}  // namespace

std::string cdi_specification(const fs::path& run_dir, const CdiLibraries& libraries) {
    const Tree tree(run_dir);
    Json common = Json::array();
    Json devices = Json::array();
    Json all = Json::array();
    for (const auto& [owner, mounts] : tree.mounts()) {
        if (owner.empty()) {
            common = mounts;
            continue;
        }
        devices.push_back({{"name", owner}, {"containerEdits", {{"mounts", mounts}}}});
        all.insert(all.end(), mounts.begin(), mounts.end());
    }
    if (devices.empty()) {
        throw LaunchError(
            fmt::format("there is no RNIC below {}: start urnicd (systemctl start urnicd), or name its run "
                        "directory with --socket",
                        (run_dir / "sysroot").string()));
    }
    devices.push_back({{"name", "all"}, {"containerEdits", {{"mounts", all}}}});
    const fs::path inside = kLibrariesInside;
    const fs::path shim = inside / libraries.shim.filename();
    const fs::path provider = inside / libraries.provider.filename();
    common.push_back(bind_file(run_dir / "control.sock", fs::path(kRunDirInside) / "control.sock"));
    common.push_back(bind_file(libraries.shim, shim));
    common.push_back(bind_file(libraries.provider, provider));
    const std::string driver = provider.string();
    const Json specification = {
        {"cdiVersion", kCdiVersion},
        {"kind", "urnic.io/rnic"},
        {"containerEdits",
         {{"env",
           {fmt::format("URNIC_RUN_DIR={}", kRunDirInside), "LD_PRELOAD=" + shim.string(),
            // libibverbs appends the rest itself.
            "RDMAV_DRIVERS=" + driver.substr(0, driver.rfind("-rdmav34.so"))}},
          {"mounts", common}}},
        {"devices", devices}};
    return specification.dump(2) + "\n";
}

}  // namespace urnic::cli
