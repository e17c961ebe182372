#include "os/net_namespace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "os/setup_error.h"

namespace urnic {

NetNamespace::NetNamespace(const std::string& name) : name_(name) {
    if (name.empty()) {
        return;
    }
    const std::string path = name.find('/') == std::string::npos ? "/run/netns/" + name : name;
    fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd_ && errno == ENOENT) {
        throw SetupError(fmt::format(
            "there is no network namespace \"{}\" ({}): see ip netns list, or make it (ip netns add {})",
            name, path, name));
    }
    if (!fd_) {
        throw SetupError(fmt::format("cannot open the network namespace {}: {}. Run urnicd as root", path,
                                     std::strerror(errno)));
    }
}

NetNamespace::Inside::Inside(const NetNamespace& where) {
    if (!where.fd_) {
        return;
    }
    home_ = UniqueFd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (!home_ || ::setns(where.fd_.get(), CLONE_NEWNET) != 0) {
        const int error = errno;
        throw SetupError(fmt::format("cannot enter the network namespace \"{}\": {}. {}", where.name_,
                                     std::strerror(error),
                                     error == EINVAL ? "That file is no network namespace"
                                                     : "Run urnicd as root, or with CAP_SYS_ADMIN"));
    }
}

NetNamespace::Inside::~Inside() {
    // Going on in somebody else's namespace would be worse than ending.
    URNIC_CHECK(!home_ || ::setns(home_.get(), CLONE_NEWNET) == 0);
}

}  // namespace urnic
