#include "ulp/rpcrdma/verbs/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "ulp/rpcrdma/verbs/connect.h"
#include "ulp/rpcrdma/verbs/error.h"
#include "ulp/rpcrdma/verbs/request.h"
#include "ulp/rpcrdma/verbs/worker.h"

namespace urnic::rpcrdma {
namespace {

constexpr int kBacklog = 256;
constexpr std::uint32_t kMostWorkers = 256;

/// An id's context is the key of its connection; the listener has 0.
// NOLINTNEXTLINE(performance-no-int-to-ptr): a key survives the connection, an address does not
void* as_context(std::uint64_t key) { return reinterpret_cast<void*>(key); }

}  // namespace

ServerConnection::ServerConnection(std::shared_ptr<Worker> worker, Server& server, std::uint64_t key,
                                   std::unique_ptr<Endpoint> endpoint, const std::optional<PrivateData>& peer)
    : Transport(std::move(worker), server.options().spin_us, true),
      server_(server),
      key_(key),
      options_(server.options()),
      handler_(server.handler()),
      context_(server.context()),
      peer_(peer) {
    const sockaddr* const from = rdma_get_peer_addr(endpoint->id());
    const std::size_t size = from->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    std::memcpy(&address_, from, size);
    attach(std::move(endpoint));
}

Config ServerConnection::config() const {
    return config_of(options_, Role::kServer, endpoint()->device(), peer_);
}

void ServerConnection::execute(const IncomingCall& call) {
    deliver_request(shared_from_this(), call, address_, handler_, context_);
}

bool ServerConnection::recover() {
    std::unique_ptr<Endpoint> former;
    {
        const std::lock_guard lock(mutex_);
        former = detach();
    }
    former.reset();
    server_.remove(key_);
    return false;
}

// --- the server

int Server::listen(const sockaddr_storage& address, const rpcrdma_options& options, std::uint32_t threads,
                   rpcrdma_handler handler, void* context, std::unique_ptr<Server>& out) {
    out.reset(new Server(options, handler, context));
    int error = out->bind(address);
    if (error == 0) error = out->start(threads);
    if (error != 0) out.reset();
    return error;
}

int Server::bind(const sockaddr_storage& address) {
    sockaddr_storage where = address;
    const AddressText text(reinterpret_cast<const sockaddr*>(&address));
    listener_.channel = rdma_create_event_channel();
    if (listener_.channel == nullptr) {
        return fail(errno,
                    "no event channel of librdmacm: %s (is the module rdma_ucm loaded, or `urnic run` used?)",
                    std::strerror(errno));
    }
    const int fd = listener_.channel->fd;
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_ < 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) {
        return fail(errno, "no descriptor: %s (ulimit -n)", std::strerror(errno));
    }
    if (rdma_create_id(listener_.channel, &listener_.id, as_context(0), RDMA_PS_TCP) != 0) {
        return fail(errno, "no id of librdmacm: %s", std::strerror(errno));
    }
    if (rdma_bind_addr(listener_.id, reinterpret_cast<sockaddr*>(&where)) != 0) {
        return fail(errno, "%s: cannot be bound: %s (is it an address of an RDMA device, and the port free?)",
                    text.text, std::strerror(errno));
    }
    if (rdma_listen(listener_.id, kBacklog) != 0) {
        return fail(errno, "%s: cannot listen: %s", text.text, std::strerror(errno));
    }
    return 0;
}

int Server::start(std::uint32_t threads) {
    const std::uint32_t count = std::clamp(threads, 1U, kMostWorkers);
    for (std::uint32_t i = 0; i < count; ++i) {
        std::shared_ptr<Worker> worker = Worker::start();
        if (worker == nullptr) return errno;
        workers_.push_back(std::move(worker));
    }
    try {
        acceptor_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
        return fail(error.code().value(), "no thread: %s (ulimit -u)", error.what());
    }
    return 0;
}

Server::~Server() {
    {
        std::unique_lock lock(mutex_);
        is_stopping_ = true;
    }
    const std::uint64_t one = 1;
    if (wake_ >= 0) (void)!write(wake_, &one, sizeof(one));
    if (acceptor_.joinable()) acceptor_.join();
    std::vector<std::shared_ptr<ServerConnection>> connections;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [key, connection] : connections_) {
            connections.push_back(connection);
        }
    }
    for (const std::shared_ptr<ServerConnection>& connection : connections) {
        connection->disconnect();
    }
    connections.clear();
    {
        std::unique_lock lock(mutex_);
        removed_.wait(lock, [this] { return connections_.empty(); });
    }
    for (const std::shared_ptr<Worker>& worker : workers_) {
        worker->stop();
    }
    if (wake_ >= 0) (void)::close(wake_);
}

void Server::address(sockaddr_storage& to) const {
    const sockaddr* const local = rdma_get_local_addr(listener_.id);
    to = {};
    std::memcpy(&to, local, local->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
}

void Server::statistics(rpcrdma_statistics& to) const {
    const std::lock_guard lock(mutex_);
    const std::size_t size = to.size;
    to = ended_;
    to.size = size;
    to.connects = accepted_;
    for (const auto& [key, connection] : connections_) {
        rpcrdma_statistics one{};
        connection->statistics(one);
        add_counters(one, to);
        add_ends(one, to);
        to.version = one.version;
        to.send_limit_octets = one.send_limit_octets;
        to.receive_limit_octets = one.receive_limit_octets;
        to.credits = one.credits;
    }
}

void Server::remove(std::uint64_t key) {
    std::shared_ptr<ServerConnection> last;
    const std::lock_guard lock(mutex_);
    const auto found = connections_.find(key);
    if (found == connections_.end()) return;
    rpcrdma_statistics one{};
    found->second->statistics(one);
    add_counters(one, ended_);
    add_ends(one, ended_);
    last = std::move(found->second);
    connections_.erase(found);
    removed_.notify_all();
}

std::shared_ptr<Worker> Server::least_loaded() const {
    return *std::min_element(workers_.begin(), workers_.end(),
                             [](const auto& a, const auto& b) { return a->load() < b->load(); });
}

// --- the acceptor

void Server::run() {
    std::array<pollfd, 2> entries{pollfd{listener_.channel->fd, POLLIN, 0}, pollfd{wake_, POLLIN, 0}};
    for (;;) {
        (void)::poll(entries.data(), entries.size(), -1);
        std::unique_lock lock(mutex_);
        if (is_stopping_) return;
        lock.unlock();
        rdma_cm_event* event = nullptr;
        while (rdma_get_cm_event(listener_.channel, &event) == 0) {
            // An id is destroyed by others, who wait until its events are acknowledged.
            const rdma_cm_event seen = *event;
            const auto key = reinterpret_cast<std::uint64_t>(event->id->context);
            std::optional<PrivateData> peer;
            if (seen.event == RDMA_CM_EVENT_CONNECT_REQUEST && seen.param.conn.private_data != nullptr) {
                peer = decode_private_data({static_cast<const std::byte*>(seen.param.conn.private_data),
                                            seen.param.conn.private_data_len});
            }
            (void)rdma_ack_cm_event(event);
            on_event(key, seen, peer);
        }
    }
}

void Server::on_event(std::uint64_t key, const rdma_cm_event& event, const std::optional<PrivateData>& peer) {
    switch (event.event) {
        case RDMA_CM_EVENT_CONNECT_REQUEST:
            on_request(event.id, event.param.conn, peer);
            break;
        case RDMA_CM_EVENT_DISCONNECTED:
        case RDMA_CM_EVENT_CONNECT_ERROR:
        case RDMA_CM_EVENT_UNREACHABLE:
        case RDMA_CM_EVENT_REJECTED:
        case RDMA_CM_EVENT_DEVICE_REMOVAL: {
            std::shared_ptr<ServerConnection> connection;
            {
                const std::lock_guard lock(mutex_);
                const auto found = connections_.find(key);
                if (found != connections_.end()) connection = found->second;
            }
            if (connection != nullptr) connection->disconnect();
            break;
        }
        default:
            break;
    }
}

void Server::on_request(rdma_cm_id* id, const rdma_conn_param& asked,
                        const std::optional<PrivateData>& peer) {
    CmId cm(id, nullptr);
    std::uint64_t key = 0;
    {
        const std::lock_guard lock(mutex_);
        if (connections_.size() >= options_.max_connections) {
            ++ended_.refused_connections;
            (void)rdma_reject(id, nullptr, 0);
            return;
        }
        key = next_key_++;
    }
    id->context = as_context(key);
    // Without memory or descriptors left the id is destroyed, which rejects.
    std::unique_ptr<Endpoint> endpoint = Endpoint::create(std::move(cm), sizes_of(options_));
    if (endpoint == nullptr) {
        const std::lock_guard lock(mutex_);
        ++ended_.refused_connections;
        return;
    }
    const std::array<std::byte, kPrivateDataOctets> data =
        encode_private_data(private_data_of(options_, endpoint->device()));
    rdma_conn_param param{};
    param.private_data = data.data();
    param.private_data_len = static_cast<std::uint8_t>(data.size());
    param.responder_resources = std::min(endpoint->read_depth(), asked.responder_resources);
    param.initiator_depth = std::min(endpoint->read_depth(), asked.initiator_depth);
    param.rnr_retry_count = 7;
    const auto connection =
        std::make_shared<ServerConnection>(least_loaded(), *this, key, std::move(endpoint), peer);
    {
        const std::lock_guard lock(mutex_);
        connections_.emplace(key, connection);
        ++accepted_;
    }
    if (rdma_accept(id, &param) != 0) connection->disconnect();
    connection->worker().add(connection);
}

}  // namespace urnic::rpcrdma
