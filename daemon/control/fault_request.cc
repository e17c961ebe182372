#include "daemon/control/fault_request.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daemon/control/fault_json.h"

namespace urnic::daemon {

namespace {

/// The whole text of a file that can neither shrink nor block; false: it is another kind of file, or too
/// large.
bool read_text(int fd, std::string& text) {
    constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW;
    const int seals = ::fcntl(fd, F_GET_SEALS);
    struct stat status {};
    if (seals < 0 || (seals & kNeeded) != kNeeded || ::fstat(fd, &status) != 0 || status.st_size < 0 ||
        static_cast<std::size_t>(status.st_size) > abi::kMaxFaultTextBytes) {
        return false;
    }
    text.resize(static_cast<std::size_t>(status.st_size));
    return ::pread(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

int add(ControlState& control, const abi::FaultRequest& request, int fd, Reply& reply) {
    std::string text;
    if (!read_text(fd, text)) {
        return EINVAL;
    }
    const std::string source(request.source, ::strnlen(request.source, sizeof request.source));
    const auto parsed = parse_faults(text, source);
    if (const auto* error = std::get_if<FaultError>(&parsed)) {
        return reply.refuse<abi::FaultReply>(EINVAL, error->message);
    }
    const std::string problem = control.faults.add(control, std::get<std::vector<fault::Rule>>(parsed));
    return problem.empty() ? 0
                           : reply.refuse<abi::FaultReply>(EINVAL, fmt::format("{}: {}", source, problem));
}

int remove(ControlState& control, std::uint32_t id, Reply& reply) {
    if (control.faults.remove(control, id)) {
        return 0;
    }
    return reply.refuse<abi::FaultReply>(
        ENOENT, fmt::format("no fault has the number {}: urnic fault list shows them", id));
}

int list(const ControlState& control, User& user, Reply& reply) {
    UniqueFd file(::memfd_create("urnic-faults", MFD_CLOEXEC));
    if (!file) {
        return errno;
    }
    const std::string text = faults_json(control.faults.rules_for(user));
    if (::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
        return errno;
    }
    reply.give(std::move(file));
    return 0;
}

}  // namespace

int answer_fault_request(ControlState& control, User& user, const Request& request, Reply& reply) {
    if (request.length != sizeof(abi::FaultRequest)) {
        return EINVAL;
    }
    const auto message = request.as<abi::FaultRequest>();
    // Faults hurt every user of the RNICs: only who could end the daemon may inject them.
    if (message.action != abi::FaultAction::kList && !user.is_privileged()) {
        user.refuse("to change faults: that is for root and the daemon's own user");
        return EPERM;
    }
    if (request.fds.size() != (message.action == abi::FaultAction::kAdd ? 1U : 0U)) {
        return EINVAL;
    }
    reply.set(abi::FaultReply{});
    switch (message.action) {
        case abi::FaultAction::kList:
            return list(control, user, reply);
        case abi::FaultAction::kAdd:
            return add(control, message, request.fds.front().get(), reply);
        case abi::FaultAction::kRemove:
            return remove(control, message.id, reply);
        case abi::FaultAction::kClear:
            control.faults.clear(control);
            return 0;
    }
    return EINVAL;
}

}  // namespace urnic::daemon
