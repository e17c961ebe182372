#include "daemon/subnet/umad_server.h"

#include <fmt/format.h>
#include <rdma/ib_user_mad.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "daemon/state/user.h"
#include "os/log.h"
#include "os/monotonic_clock.h"
#include "os/secure_random.h"

namespace urnic::daemon {

namespace {

constexpr int kUmadBacklog = 16;
/// Asked for; the kernel's own limit may be less.
constexpr int kBufferBytes = 4 * static_cast<int>(abi::kMaxUmadBytes);

std::uint32_t oui_of_request(const std::uint8_t (&oui)[3]) {
    return static_cast<std::uint32_t>(oui[0]) << 16U | static_cast<std::uint32_t>(oui[1]) << 8U | oui[2];
}

}  // namespace

UmadServer::UmadServer(ControlState& control, const std::string& tree, std::uint32_t num_ports,
                       Effects effects)
    : control_(control), effects_(std::move(effects)), num_sms_(num_ports) {
    for (std::uint32_t port = 0; port < num_ports; ++port) {
        listen(Kind::kUmad, port, fmt::format("{}/dev/infiniband/umad{}", tree, port));
        listen(Kind::kIssm, port, fmt::format("{}/dev/infiniband/issm{}", tree, port));
    }
    listen(Kind::kControl, 0, tree + abi::kUmadControlSocket);
}

UmadServer::~UmadServer() {
    while (!files_.empty()) {
        control_.event_loop.remove(files_.begin()->second->events);
        files_.erase(files_.begin());
    }
    for (const auto& listener : listeners_) {
        control_.event_loop.remove(listener->events);
    }
}

/// The daemon's umask leaves the right to connect to its own user and root: who manages a subnet rules all of
/// it. peer_error() asks again, for whoever has changed the mode.
void UmadServer::listen(Kind kind, std::uint32_t port, const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        throw std::system_error(ENAMETOOLONG, std::generic_category(), path);
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    auto listener = std::make_unique<Listener>(Listener{
        kind, port, UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), 0});
    if (!listener->socket ||
        ::bind(listener->socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener->socket.get(), kUmadBacklog) != 0) {
        throw std::system_error(errno, std::generic_category(), path);
    }
    listener->events = control_.event_loop.add(listener->socket.get(),
                                               [this, one = listener.get()] { on_connection(*one); });
    listeners_.push_back(std::move(listener));
}

/// 0, or what the program hears that has connected (errno).
int UmadServer::peer_error(const Listener& listener, int socket) const {
    ucred credentials{};
    socklen_t length = sizeof credentials;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
        return errno;
    }
    if (is_root_or_daemon(credentials.uid)) {
        return 0;
    }
    User& user = control_.user(credentials.uid);
    const User::Serving serving(user, credentials.pid);
    user.refuse("to open {}{}: that is for root and the daemon's own user",
                listener.kind == Kind::kIssm ? "issm" : "umad", listener.port);
    return EACCES;
}

void UmadServer::on_connection(const Listener& listener) {
    UniqueFd socket(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            pause_accept();
        }
        return;
    }
    abi::UmadHello hello{abi::kUmadMagic, peer_error(listener, socket.get()), 0};
    if (hello.error == 0 && files_.size() >= kFilesOfPrograms + kFilesOfPort * num_sms_.size()) {
        hello.error = EMFILE;
    }
    auto file = std::make_unique<File>(listener.kind, listener.port, std::move(socket));
    const int fd = file->socket.get();
    if (hello.error == 0) {
        hello.token = std::uint64_t{secure_random()} << 32U | secure_random();
        (void)::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes);
        if (file->kind == Kind::kUmad) {
            file->mads = std::make_unique<MadFile>(
                MadFile::Effects{[this, port = file->port](const subnet::MadPacket& packet) {
                                     effects_.send(port, packet);
                                 },
                                 [this, fd](std::span<const std::byte> datagram) { give(fd, datagram); }},
                next_tid_);
            next_tid_ += MadFile::kMaxAgents;
        }
        hello.error = control_.event_loop.add(
            fd, [this, token = hello.token] { on_input(token); }, file->events);
    }
    (void)::send(fd, &hello, sizeof hello, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (hello.error != 0) {
        control_.disposer.take(std::move(file));
        return;
    }
    if (file->kind == Kind::kIssm && num_sms_.at(file->port)++ == 0) {
        effects_.set_is_sm(file->port, true);
    }
    files_.emplace(hello.token, std::move(file));
    effects_.after_input();
}

/// Nobody can be accepted now, and the listeners would report again and again that somebody waits.
void UmadServer::pause_accept() {
    constexpr TimeNs kAcceptRetryNs = 100'000'000;
    for (const auto& listener : listeners_) {
        control_.event_loop.disable(listener->events);
    }
    accept_again_ = clock_now() + kAcceptRetryNs;
    effects_.after_input();
}

void UmadServer::on_input(std::uint64_t token) {
    const auto found = files_.find(token);
    if (found != files_.end() && !read_some(*found->second)) {
        close(token);
    }
    effects_.after_input();
}

void UmadServer::close(std::uint64_t token) {
    const auto found = files_.find(token);
    control_.event_loop.remove(found->second->events);
    const Kind kind = found->second->kind;
    const std::uint32_t port = found->second->port;
    // Its end wakes whoever waits for the socket: not on this thread.
    control_.disposer.take(std::move(found->second));
    files_.erase(found);
    if (kind == Kind::kIssm && --num_sms_.at(port) == 0) {
        effects_.set_is_sm(port, false);
    }
}

/// Returns whether the file stays open.
bool UmadServer::read_some(File& file) {
    // One for all: the control thread alone is here.
    static std::vector<std::byte> buffer(abi::kUmadHeaderBytes + abi::kMaxUmadBytes);
    for (int turn = 0; turn < kDatagramsPerTurn; ++turn) {
        const ssize_t length =
            ::recv(file.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
        if (length == 0) {
            return false;
        }
        if (length < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        const bool is_whole = static_cast<std::size_t>(length) <= buffer.size();
        const std::span<const std::byte> datagram(buffer.data(),
                                                  is_whole ? static_cast<std::size_t>(length) : 0);
        if (file.kind == Kind::kControl) {
            answer_call(file, datagram);
        } else if (file.mads != nullptr) {
            (void)file.mads->write(datagram, clock_now());  // what is no MAD is dropped, as by a port
        }
    }
    return true;
}

void UmadServer::answer_call(File& file, std::span<const std::byte> datagram) {
    abi::UmadCall request{};
    abi::UmadReply reply{abi::kUmadMagic, EINVAL, {}};
    if (datagram.size() == sizeof request) {
        std::memcpy(&request, datagram.data(), sizeof request);
        reply.error = request.magic == abi::kUmadMagic ? call(request) : EINVAL;
        std::memcpy(reply.argument, request.argument, sizeof reply.argument);
    }
    (void)::send(file.socket.get(), &reply, sizeof reply, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int UmadServer::call(abi::UmadCall& call) {
    const auto found = files_.find(call.token);
    if (found == files_.end() || found->second->mads == nullptr) {
        return EBADF;
    }
    MadFile& mads = *found->second->mads;
    MadAgent agent;
    std::uint32_t id = 0;
    switch (call.command) {
        case abi::UmadCommand::kEnablePkey:
            return 0;
        case abi::UmadCommand::kUnregister:
            std::memcpy(&id, call.argument, sizeof id);
            return mads.remove_agent(id);
        case abi::UmadCommand::kRegister: {
            ib_user_mad_reg_req request{};
            std::memcpy(&request, call.argument, sizeof request);
            agent = {request.qpn,          request.mgmt_class,          request.mgmt_class_version,
                     request.rmpp_version, oui_of_request(request.oui), {}};
            static_assert(sizeof request.method_mask == sizeof agent.methods);
            std::memcpy(agent.methods.data(), request.method_mask, sizeof agent.methods);
            break;
        }
        case abi::UmadCommand::kRegister2: {
            ib_user_mad_reg_req2 request{};
            std::memcpy(&request, call.argument, sizeof request);
            if ((request.flags & ~static_cast<std::uint32_t>(IB_USER_MAD_REG_FLAGS_CAP)) != 0 ||
                request.qpn > 1) {
                return EINVAL;
            }
            const bool has_user_rmpp = (request.flags & IB_USER_MAD_USER_RMPP) != 0;
            agent = {request.qpn,
                     request.mgmt_class,
                     request.mgmt_class_version,
                     has_user_rmpp ? std::uint8_t{0} : request.rmpp_version,
                     request.oui,
                     {}};
            std::memcpy(agent.methods.data(), request.method_mask, sizeof agent.methods);
            break;
        }
        default:
            return ENOTTY;
    }
    for (const auto& [token, file] : files_) {
        if (file->mads != nullptr && file->port == found->second->port && file->mads->has_agent_for(agent)) {
            return EINVAL;
        }
    }
    const int error = mads.add_agent(agent, id);
    // Both requests begin with the agent's number.
    std::memcpy(call.argument, &id, sizeof id);
    return error;
}

void UmadServer::give(int socket, std::span<const std::byte> datagram) {
    if (::send(socket, datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        // As the kernel's, a program that does not read loses what comes.
        if (!std::exchange(is_loss_logged_, true)) {
            log_warning("a program does not read its umad device: management datagrams for it are lost");
        }
    }
}

bool UmadServer::deliver(std::uint32_t port, const subnet::MadPacket& packet, TimeNs now) {
    for (const auto& [token, file] : files_) {
        if (file->mads != nullptr && file->port == port && file->mads->take(packet, now)) {
            return true;
        }
    }
    return false;
}

void UmadServer::advance(TimeNs now) {
    if (accept_again_ <= now) {
        accept_again_ = kNever;
        for (const auto& listener : listeners_) {
            (void)control_.event_loop.enable(listener->events);
        }
    }
    for (const auto& [token, file] : files_) {
        if (file->mads != nullptr) {
            file->mads->advance(now);
        }
    }
}

TimeNs UmadServer::next_event() const {
    TimeNs next = accept_again_;
    for (const auto& [token, file] : files_) {
        next = file->mads == nullptr ? next : std::min(next, file->mads->next_event());
    }
    return next;
}

}  // namespace urnic::daemon
