#include "cli/last_look.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace urnic::cli {
namespace fs = std::filesystem;

namespace {

using LookJson = nlohmann::ordered_json;

/// A status of thousands of QPs is smaller without them.
constexpr std::size_t kMostOctets = 16U << 20U;
constexpr std::size_t kMostLooks = 4;

double boot_seconds() {
    timespec now{};
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Returns whether nobody else can write into it.
bool is_own_directory(const fs::path& path) {
    struct stat found {};
    return lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
           (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// Where a user's files of one boot are. Empty: there is none.
fs::path directory() {
    const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime != nullptr && *runtime == '/') return is_own_directory(runtime) ? runtime : "";
    fs::path own = fmt::format("/run/user/{}", geteuid());
    if (is_own_directory(own)) return own;
    return geteuid() == 0 && is_own_directory("/run") ? "/run" : "";
}

std::string read_file(const fs::path& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return {};
    std::string text;
    std::string part(65536, '\0');
    for (ssize_t got = 0; text.size() <= kMostOctets && (got = read(file, part.data(), part.size())) > 0;) {
        text.append(part, 0, static_cast<std::size_t>(got));
    }
    (void)close(file);
    return text.size() > kMostOctets ? std::string() : text;
}

void write_file(const fs::path& path, const std::string& text) {
    // Another `urnic status` may be at it: what is renamed is whole.
    std::string temporary = path.string() + ".XXXXXX";
    const int file = mkostemp(temporary.data(), O_CLOEXEC);
    if (file < 0) return;
    const bool is_written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    (void)close(file);
    if (!is_written || rename(temporary.c_str(), path.c_str()) != 0) (void)unlink(temporary.c_str());
}

/// What rates and troubles are reckoned from.
LookJson without_objects(const LookJson& status) {
    LookJson kept = status;
    for (const char* name : {"clients", "users", "faults", "wires"}) kept.erase(name);
    if (kept.contains("devices")) {
        for (LookJson& device : kept["devices"]) device.erase("counters_per_worker");
    }
    return kept;
}

void forget_looks() {
    const fs::path where = directory();
    if (!where.empty()) (void)unlink((where / "urnic-status.json").c_str());
}

double uptime(const LookJson& status) {
    const LookJson& daemon = status.at("daemon");
    return daemon.at("uptime_seconds").get<double>();
}

}  // namespace

LastLook exchange_last_look(const fs::path& socket, const LookJson& status) {
    LastLook last;
    try {
        const double now = boot_seconds();
        last.seconds_ago = uptime(status);
        const fs::path where = directory();
        if (where.empty()) return last;
        const fs::path file = where / "urnic-status.json";
        const LookJson kept = LookJson::parse(read_file(file), nullptr, false);
        // The newest first, one of each daemon.
        LookJson looks = LookJson::array();
        looks.push_back({{"socket", socket.string()}, {"at", now}, {"status", without_objects(status)}});
        for (const LookJson& look : kept.is_array() ? kept : LookJson::array()) {
            if (look.at("socket") != socket.string()) {
                if (looks.size() < kMostLooks) looks.push_back(look);
                continue;
            }
            const LookJson& earlier = look.at("status");
            const double seconds = now - look.at("at").get<double>();
            const bool is_same = earlier.at("daemon").at("pid") == status.at("daemon").at("pid") &&
                                 seconds > 0 && seconds <= uptime(status) + 2;
            if (is_same) last = {earlier, seconds};
        }
        write_file(file, looks.dump());
    } catch (const LookJson::exception&) {
        // Not of this release: what is kept is replaced by the next look; status_page() tells of the
        // daemon's.
        forget_looks();
    }
    return last;
}

}  // namespace urnic::cli
