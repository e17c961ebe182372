#include "os/service_manager.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "os/setup_error.h"

namespace urnic {

namespace {

std::string_view environment(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : "";
}

std::optional<std::uint64_t> number_in(std::string_view text) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// In the environment of a process that inherited it, it is another one's.
TimeNs watchdog_time() {
    constexpr std::uint64_t kMostUs = 86'400'000'000;  // a day
    const auto time_us = number_in(environment("WATCHDOG_USEC"));
    const std::string_view pid = environment("WATCHDOG_PID");
    const bool is_ours = pid.empty() || number_in(pid) == static_cast<std::uint64_t>(::getpid());
    return time_us && is_ours ? static_cast<TimeNs>(std::min(*time_us, kMostUs) * 1'000) : 0;
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
    ServiceManager manager;
    const std::string_view path = environment("NOTIFY_SOCKET");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty()) {
        return manager;
    }
    // A name that begins with '@' is no path but an abstract one (unix(7)).
    std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path));
    if (path.front() == '@') {
        address.sun_path[0] = '\0';
    }
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    manager.socket_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const bool fits = path.size() < sizeof address.sun_path;
    if (!fits || !manager.socket_ ||
        ::connect(manager.socket_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
        throw SetupError(fmt::format("cannot reach the service manager at {} (NOTIFY_SOCKET): {}", path,
                                     std::strerror(fits ? errno : ENAMETOOLONG)));
    }
    manager.watchdog_ns_ = watchdog_time();
    return manager;
}

void ServiceManager::tell(std::string_view state) const {
    if (socket_) {
        (void)::send(socket_.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

}  // namespace urnic
