#include "cli/daemon_client.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "abi/capture.h"
#include "abi/control.h"
#include "cli/launch_error.h"
#include "os/unique_fd.h"

namespace urnic::cli {
namespace fs = std::filesystem;

namespace {

constexpr const char* kDefaultRunDir = "/run/urnic";
constexpr const char* kSocketName = "control.sock";
constexpr time_t kReplyTimeoutSeconds = 10;

std::string user_name() {
    const passwd* entry = getpwuid(geteuid());
    return entry != nullptr ? entry->pw_name : fmt::format("uid {}", geteuid());
}

[[noreturn]] void not_permitted(const fs::path& socket) {
    struct stat info {};
    std::string owner;
    if (stat(socket.c_str(), &info) == 0) {
        owner = fmt::format(" (its owner is uid {}, its group gid {}, its mode {:04o})", info.st_uid,
                            info.st_gid, info.st_mode & 07777U);
    }
    throw LaunchError(fmt::format(
        "{} may not connect to urnicd at {}{}: join the group that the daemon's configuration gives the "
        "socket, or use urnic run --standalone",
        user_name(), socket.string(), owner));
}

[[noreturn]] void cannot_connect(const fs::path& socket, int error) {
    struct stat info {};
    if (error == EACCES || error == EPERM) not_permitted(socket);
    if (error == ENOENT || error == ENOTDIR) {
        throw LaunchError(fmt::format(
            "no urnicd at {}: there is no such socket. Start one with urnicd --config FILE.toml, name "
            "another with --socket, or use urnic run --standalone",
            socket.string()));
    }
    if (stat(socket.c_str(), &info) == 0 && !S_ISSOCK(info.st_mode)) {
        throw LaunchError(fmt::format(
            "{} is not a socket: --socket wants the control socket of a running urnicd", socket.string()));
    }
    if (error == ECONNREFUSED) {
        throw LaunchError(fmt::format(
            "urnicd at {} has ended: the socket is there but nobody listens. Start urnicd again, or "
            "use urnic run --standalone",
            socket.string()));
    }
    if (error == EAGAIN) {
        throw LaunchError(
            fmt::format("urnicd at {} has let nobody in for {} s: it, or the machine, is very busy",
                        socket.string(), kReplyTimeoutSeconds));
    }
    if (error == EPROTOTYPE) {
        throw LaunchError(fmt::format("{} is the socket of another program, not of urnicd", socket.string()));
    }
    throw LaunchError(
        fmt::format("cannot connect to urnicd at {}: {}", socket.string(), std::strerror(error)));
}

UniqueFd connect_to(const fs::path& socket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string text = socket.string();
    if (text.size() >= sizeof(address.sun_path)) {
        throw LaunchError(
            fmt::format("the socket path {} is too long: {} bytes where a Unix socket can have {}", text,
                        text.size(), sizeof(address.sun_path) - 1));
    }
    std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (fd.get() < 0) throw LaunchError(fmt::format("cannot make a socket: {}", std::strerror(errno)));
    const timeval timeout{kReplyTimeoutSeconds, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        cannot_connect(socket, errno);
    }
    return fd;
}

/// Sends a request, with a descriptor unless it is -1.
bool send_request(int fd, const void* request, std::size_t length, int request_fd) {
    iovec part{const_cast<void*>(request), length};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (request_fd >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        cmsghdr* rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(rights), &request_fd, sizeof(int));
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(length);
}

/// Sends a request, returns the bytes of its reply. `reply_fd`: where to put the reply's first descriptor.
std::vector<std::byte> exchange(int fd, const fs::path& socket, const void* request, std::size_t length,
                                UniqueFd* reply_fd, int request_fd = -1) {
    if (!send_request(fd, request, length, request_fd)) {
        throw LaunchError(
            fmt::format("urnicd at {} takes no request: {}", socket.string(), std::strerror(errno)));
    }
    std::vector<std::byte> reply(abi::kMaxMessageBytes);
    iovec part{reply.data(), reply.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (reply_fd != nullptr) {
        // Without room for them the kernel drops a reply's descriptors.
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
    }
    const ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        throw LaunchError(
            fmt::format("urnicd at {} does not answer: it took the request and was silent for {} "
                        "seconds. Restart it",
                        socket.string(), kReplyTimeoutSeconds));
    }
    if (got <= 0) {
        throw LaunchError(fmt::format("urnicd at {} closed the connection{}{}", socket.string(),
                                      got < 0 ? ": " : "", got < 0 ? std::strerror(errno) : ""));
    }
    reply.resize(static_cast<std::size_t>(got));
    cmsghdr* rights = reply_fd != nullptr ? CMSG_FIRSTHDR(&message) : nullptr;
    if (rights != nullptr && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS) {
        int received = -1;
        std::memcpy(&received, CMSG_DATA(rights), sizeof(received));
        *reply_fd = UniqueFd(received);
    }
    return reply;
}

/// The reply's header, after the checks that hold for every reply.
abi::ReplyHeader header_of(const std::vector<std::byte>& reply, abi::Op op, const fs::path& socket) {
    abi::ReplyHeader header{};
    if (reply.size() >= sizeof(header)) std::memcpy(&header, reply.data(), sizeof(header));
    if (header.magic != abi::kControlMagic || header.op != op) {
        throw LaunchError(
            fmt::format("what answers at {} is not urnicd: its reply is not one of the control protocol",
                        socket.string()));
    }
    return header;
}

/// The reply to a question of which each user has a part of the daemon's time: when that is taken, it comes
/// back as time passes.
template <typename Question>
std::vector<std::byte> ask_in_turn(int fd, const fs::path& socket, abi::Op op, Question request,
                                   UniqueFd& reply_fd) {
    request.header = {abi::kControlMagic, op, 1, sizeof(request)};
    constexpr std::chrono::milliseconds kPause(50);
    for (auto left = std::chrono::seconds(kReplyTimeoutSeconds) / kPause; left > 0; --left) {
        std::vector<std::byte> bytes = exchange(fd, socket, &request, sizeof(request), &reply_fd);
        if (header_of(bytes, op, socket).error != EAGAIN) {
            return bytes;
        }
        std::this_thread::sleep_for(kPause);
    }
    throw LaunchError(
        fmt::format("urnicd at {} answers no more questions for now: those that {} has asked have "
                    "taken too much of its time. Ask again later, and less often",
                    socket.string(), user_name()));
}

std::string read_all(int file) {
    std::string text;
    char part[4096];
    for (off_t offset = 0;;) {
        const ssize_t got = pread(file, part, sizeof(part), offset);
        if (got < 0)
            throw LaunchError(fmt::format("cannot read the answer of urnicd: {}", std::strerror(errno)));
        if (got == 0) return text;
        text.append(part, static_cast<std::size_t>(got));
        offset += got;
    }
}

[[noreturn]] void may_not_inject(const fs::path& socket) {
    throw LaunchError(
        fmt::format("{} may not inject faults at {}: only root and the user that urnicd runs as may, since "
                    "faults hurt all "
                    "who use its RNICs. Use sudo, or a daemon of your own (urnic run --standalone)",
                    user_name(), socket.string()));
}

/// A sealed file with that text in it.
UniqueFd file_of(const std::string& text) {
    UniqueFd file(memfd_create("urnic-faults", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (file.get() < 0 || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
        throw LaunchError(fmt::format("cannot make shared memory: {}", std::strerror(errno)));
    }
    return file;
}

/// The reply; throws LaunchError, with what the daemon says or else the errno, when it refuses.
template <class Reply>
Reply accepted(const std::vector<std::byte>& bytes, const abi::ReplyHeader& header, const fs::path& socket) {
    Reply reply{};
    std::memcpy(&reply, bytes.data(), std::min(bytes.size(), sizeof(reply)));
    reply.message[sizeof(reply.message) - 1] = '\0';
    if (header.error != 0) {
        throw LaunchError(reply.message[0] != '\0' ? std::string(reply.message)
                                                   : fmt::format("urnicd at {} refuses: {}", socket.string(),
                                                                 std::strerror(header.error)));
    }
    return reply;
}

/// Asks for something about faults; returns the reply's descriptor, if it has one.
UniqueFd ask_about_faults(const fs::path& socket, abi::FaultRequest request, int request_fd = -1) {
    const UniqueFd fd = connect_to(socket);
    request.header = {abi::kControlMagic, abi::Op::kFault, 1, sizeof(request)};
    UniqueFd reply_fd;
    const std::vector<std::byte> bytes =
        exchange(fd.get(), socket, &request, sizeof(request), &reply_fd, request_fd);
    const abi::ReplyHeader header = header_of(bytes, abi::Op::kFault, socket);
    if (header.error == EPERM) may_not_inject(socket);
    if (header.error == EPROTO || header.error == EOPNOTSUPP) {
        throw LaunchError(fmt::format("urnicd at {} knows no faults: it is older than this urnic. Restart it",
                                      socket.string()));
    }
    (void)accepted<abi::FaultReply>(bytes, header, socket);
    return reply_fd;
}

}  // namespace

fs::path default_socket() {
    const char* run_dir = std::getenv("URNIC_RUN_DIR");
    return fs::path(run_dir != nullptr && *run_dir == '/' ? run_dir : kDefaultRunDir) / kSocketName;
}

fs::path control_socket(const fs::path& path) {
    fs::path socket = fs::absolute(path).lexically_normal();
    std::error_code ignored;
    if (fs::is_directory(socket, ignored)) socket /= kSocketName;
    if (socket.filename() != kSocketName) {
        throw LaunchError(
            fmt::format("--socket {}: a daemon's socket is called {}; give that file, or the run "
                        "directory it is in",
                        path.string(), kSocketName));
    }
    return socket;
}

void check_daemon(const fs::path& socket) {
    const UniqueFd fd = connect_to(socket);
    abi::HelloRequest request{};
    request.header = {abi::kControlMagic, abi::Op::kHello, 1, sizeof(request)};
    request.abi_version = abi::kAbiVersion;
    std::strncpy(request.program, "urnic run", sizeof(request.program) - 1);
    const std::vector<std::byte> bytes = exchange(fd.get(), socket, &request, sizeof(request), nullptr);
    const abi::ReplyHeader header = header_of(bytes, abi::Op::kHello, socket);
    abi::HelloReply reply{};
    if (bytes.size() >= sizeof(reply)) std::memcpy(&reply, bytes.data(), sizeof(reply));
    if (header.error == EPROTO || (header.error == 0 && reply.abi_version != abi::kAbiVersion)) {
        throw LaunchError(fmt::format(
            "urnicd at {} speaks version {} of the control protocol, this urnic speaks version {}: "
            "install the same release of both and restart urnicd",
            socket.string(), reply.abi_version, abi::kAbiVersion));
    }
    if (header.error == EACCES || header.error == EPERM) not_permitted(socket);
    if (header.error != 0) {
        throw LaunchError(fmt::format("urnicd at {} refuses this client: {}", socket.string(),
                                      std::strerror(header.error)));
    }
}

std::string fetch_status(const fs::path& socket) {
    const UniqueFd fd = connect_to(socket);
    UniqueFd text_fd;
    const std::vector<std::byte> bytes =
        ask_in_turn(fd.get(), socket, abi::Op::kStatus, abi::StatusRequest{}, text_fd);
    const abi::ReplyHeader header = header_of(bytes, abi::Op::kStatus, socket);
    if (header.error != 0 || text_fd.get() < 0) {
        throw LaunchError(
            fmt::format("urnicd at {} gives no status: {}", socket.string(),
                        header.error != 0 ? std::strerror(header.error) : "its reply has no file"));
    }
    return read_all(text_fd.get());
}

std::string fetch_faults(const fs::path& socket) {
    abi::FaultRequest request{};
    request.action = abi::FaultAction::kList;
    const UniqueFd file = ask_about_faults(socket, request);
    if (file.get() < 0) {
        throw LaunchError(
            fmt::format("urnicd at {} gives no list of faults: its reply has no file", socket.string()));
    }
    return read_all(file.get());
}

void add_faults(const fs::path& socket, const std::string& events, const std::string& source) {
    if (events.size() > abi::kMaxFaultTextBytes) {
        throw LaunchError(fmt::format("{} is too large: {} bytes, at most {}", source, events.size(),
                                      abi::kMaxFaultTextBytes));
    }
    abi::FaultRequest request{};
    request.action = abi::FaultAction::kAdd;
    std::strncpy(request.source, source.c_str(), sizeof(request.source) - 1);
    const UniqueFd file = file_of(events);
    (void)ask_about_faults(socket, request, file.get());
}

void remove_fault(const fs::path& socket, std::uint32_t id) {
    abi::FaultRequest request{};
    request.action = abi::FaultAction::kRemove;
    request.id = id;
    (void)ask_about_faults(socket, request);
}

void clear_faults(const fs::path& socket) {
    abi::FaultRequest request{};
    request.action = abi::FaultAction::kClear;
    (void)ask_about_faults(socket, request);
}

namespace {

bool ask_about_port(const fs::path& socket, const std::string& device, abi::PortAction action) {
    abi::PortRequest request{};
    if (device.size() >= sizeof(request.device)) {
        throw LaunchError(fmt::format("\"{}\" is too long for an RNIC's name", device));
    }
    const UniqueFd fd = connect_to(socket);
    request.header = {abi::kControlMagic, abi::Op::kPort, 1, sizeof(request)};
    request.action = action;
    std::memcpy(request.device, device.data(), device.size());
    const std::vector<std::byte> bytes = exchange(fd.get(), socket, &request, sizeof(request), nullptr);
    const abi::ReplyHeader header = header_of(bytes, abi::Op::kPort, socket);
    if (header.error == EPERM) {
        throw LaunchError(fmt::format(
            "{} may not change ports at {}: only root and the user that urnicd runs as may, since "
            "all who use the RNIC are cut off. Use sudo, or a daemon of your own (urnic run "
            "--standalone)",
            user_name(), socket.string()));
    }
    return accepted<abi::PortReply>(bytes, header, socket).up != 0;
}

}  // namespace

void set_port(const fs::path& socket, const std::string& device, bool up) {
    (void)ask_about_port(socket, device, up ? abi::PortAction::kUp : abi::PortAction::kDown);
}

bool port_is_up(const fs::path& socket, const std::string& device) {
    return ask_about_port(socket, device, abi::PortAction::kQuery);
}

namespace {

UniqueFd ask_about_congestion(const fs::path& socket, abi::CongestionRequest request) {
    const UniqueFd fd = connect_to(socket);
    UniqueFd reply_fd;
    const std::vector<std::byte> bytes =
        ask_in_turn(fd.get(), socket, abi::Op::kCongestion, request, reply_fd);
    const abi::ReplyHeader header = header_of(bytes, abi::Op::kCongestion, socket);
    if (header.error == EPERM) {
        throw LaunchError(
            fmt::format("{} may not change congestion control at {}: only root and the user that urnicd runs "
                        "as may, since "
                        "all who use the RNIC share its settings. Use sudo, or a daemon of your own (urnic "
                        "run --standalone)",
                        user_name(), socket.string()));
    }
    if (header.error == EPROTO || header.error == EOPNOTSUPP) {
        throw LaunchError(
            fmt::format("urnicd at {} has no congestion control: it is older than this urnic. Restart it",
                        socket.string()));
    }
    const auto reply = accepted<abi::CongestionReply>(bytes, header, socket);
    if (reply.message[0] != '\0') {
        fmt::print(stderr, "urnic: warning: {}\n", reply.message);
    }
    return reply_fd;
}

}  // namespace

std::string fetch_congestion(const fs::path& socket) {
    abi::CongestionRequest request{};
    request.action = abi::CongestionAction::kShow;
    const UniqueFd file = ask_about_congestion(socket, request);
    if (file.get() < 0) {
        throw LaunchError(
            fmt::format("urnicd at {} shows no settings: its reply has no file", socket.string()));
    }
    return read_all(file.get());
}

void set_congestion(const fs::path& socket, const std::string& device, std::uint32_t qpn,
                    const std::string& values) {
    abi::CongestionRequest request{};
    if (device.size() >= sizeof(request.device)) {
        throw LaunchError(fmt::format("\"{}\" is too long for an RNIC's name", device));
    }
    if (values.size() >= sizeof(request.values)) {
        throw LaunchError(
            fmt::format("too many settings at once: at most {} characters; set the rest after them",
                        sizeof(request.values) - 1));
    }
    request.action = abi::CongestionAction::kSet;
    request.qpn = qpn;
    std::memcpy(request.device, device.data(), device.size());
    std::memcpy(request.values, values.data(), values.size());
    (void)ask_about_congestion(socket, request);
}

StartedCapture start_capture(const fs::path& socket, abi::CaptureRequest request, int buffer) {
    StartedCapture started;
    started.connection = connect_to(socket);
    request.header = {abi::kControlMagic, abi::Op::kCapture, 1, sizeof(request)};
    UniqueFd file;
    const std::vector<std::byte> bytes =
        exchange(started.connection.get(), socket, &request, sizeof(request), &file, buffer);
    const abi::ReplyHeader header = header_of(bytes, abi::Op::kCapture, socket);
    if (header.error == EPERM) {
        throw LaunchError(fmt::format(
            "{} may not capture at {}: only root and the user that urnicd runs as may, since packets "
            "have the data of all who use its RNICs. Use sudo, or a daemon of your own (urnic run "
            "--standalone)",
            user_name(), socket.string()));
    }
    if (header.error == EPROTO || header.error == EOPNOTSUPP) {
        throw LaunchError(fmt::format("urnicd at {} has no captures: it is older than this urnic. Restart it",
                                      socket.string()));
    }
    const auto reply = accepted<abi::CaptureReply>(bytes, header, socket);
    if (file.get() < 0) {
        throw LaunchError(fmt::format("urnicd at {} names no RNICs: its reply has no file", socket.string()));
    }
    started.rnics = read_all(file.get());
    started.rings = reply.rings;
    started.ring_bytes = reply.ring_bytes;
    started.control_bytes = reply.control_bytes;
    return started;
}

}  // namespace urnic::cli
