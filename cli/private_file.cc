#include "cli/private_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/launch_error.h"

namespace urnic::cli {

UniqueFd open_private_file(const std::string& path, Replace replace) {
    constexpr mode_t kForTheOwner = 0600;
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
    if (replace == Replace::kFile) {
        (void)::unlink(path.c_str());
        flags |= O_EXCL | O_NOFOLLOW;
    }
    UniqueFd file(::open(path.c_str(), flags, kForTheOwner));
    struct stat found {};
    if (!file || ::fstat(file.get(), &found) != 0) {
        throw LaunchError(fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
    }
    if (!S_ISREG(found.st_mode)) return file;
    if (found.st_uid != ::geteuid()) {
        throw LaunchError(fmt::format(
            "{} belongs to uid {}, who could read the packets of others: remove it, or name another file",
            path, found.st_uid));
    }
    if (::fchmod(file.get(), kForTheOwner) != 0 || ::ftruncate(file.get(), 0) != 0) {
        throw LaunchError(fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
    }
    return file;
}

}  // namespace urnic::cli
