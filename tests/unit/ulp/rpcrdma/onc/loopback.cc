#include "tests/unit/ulp/rpcrdma/onc/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <thread>

#include "ulp/rpcrdma/include/urnic/rpcrdma.h"

namespace {

using urnic::rpcrdma::loopback::Seen;
using urnic::rpcrdma::loopback::Settings;
using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kWriteResource = 7;
constexpr std::uint32_t kReplyResource = 8;
constexpr std::uint32_t kErrChunk = 2;

struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<unsigned short, rpcrdma_server*> servers;
    unsigned short next_port = 40000;
    Settings settings;
    Seen seen;
    std::atomic<std::size_t> blocks{0};
};

State& state() {
    static State all;
    return all;
}

std::size_t padded(std::size_t octets) { return (octets + 3) / 4 * 4; }

/// The stream with the items of `is_in` in their places.
template <class IsIn>
Bytes assemble(const rpcrdma_message& message, IsIn&& is_in) {
    Bytes all;
    const auto* const stream = static_cast<const std::byte*>(message.stream);
    std::size_t from = 0;
    for (std::uint32_t i = 0; i < message.item_count; ++i) {
        const rpcrdma_item& item = message.items[i];
        if (item.at < from || item.at > message.stream_octets || item.at % 4 != 0) {
            std::abort();  // against the interface's rules
        }
        all.insert(all.end(), stream + from, stream + item.at);
        from = item.at;
        if (is_in(i)) {
            const auto* const data = static_cast<const std::byte*>(item.data);
            all.insert(all.end(), data, data + item.octets);
            all.resize(all.size() + padded(item.octets) - item.octets);
        }
    }
    all.insert(all.end(), stream + from, stream + message.stream_octets);
    return all;
}

}  // namespace

namespace urnic::rpcrdma::loopback {

/// A call from its beginning until both sides have left it.
struct Exchange {
    std::vector<std::byte> call;
    std::vector<iovec> results;
    std::uint64_t reply_room = 0;
    std::uint32_t version = 2;
    bool is_done = false;
    bool is_abandoned = false;
    int error = 0;
    std::uint32_t error_code = 0;
    std::uint32_t error_first = 0;
    std::uint32_t error_second = 0;
    std::vector<std::byte> reply;
    std::array<std::uint32_t, RPCRDMA_MAX_RESULTS> result_octets{};
};

}  // namespace urnic::rpcrdma::loopback

using urnic::rpcrdma::loopback::Exchange;

struct rpcrdma_connection {
    std::atomic<int> holds{1};
};

struct rpcrdma_request {
    std::shared_ptr<Exchange> exchange;
    rpcrdma_connection* connection = nullptr;
    rpcrdma_server* server = nullptr;
};

struct rpcrdma_server {
    rpcrdma_handler handler = nullptr;
    void* context = nullptr;
    unsigned short port = 0;
    int calls_in_handler = 0;
    std::set<std::shared_ptr<Exchange>> outstanding;
};

struct rpcrdma_client {
    rpcrdma_server* server = nullptr;
    rpcrdma_connection* connection = nullptr;
    std::map<std::uint32_t, std::shared_ptr<Exchange>> outstanding;
    std::vector<std::thread> submitted;
    bool is_closing = false;
};

namespace {

void finish(Exchange& exchange, int error, std::uint32_t code = 0, std::uint32_t first = 0,
            std::uint32_t second = 0) {
    exchange.error = error;
    exchange.error_code = code;
    exchange.error_first = first;
    exchange.error_second = second;
    exchange.is_done = true;
    state().changed.notify_all();
}

std::uint32_t xid_of(const rpcrdma_message& message) {
    std::uint32_t word = 0;
    std::memcpy(&word, message.stream, sizeof word);
    return ntohl(word);
}

/// Returns 0 with `exchange`, or an error.
int begin_call(rpcrdma_client* client, const struct rpcrdma_call& call, rpcrdma_reply& reply,
               std::shared_ptr<Exchange>& exchange) {
    Settings& settings = state().settings;
    if (settings.next_errors > 0) {
        --settings.next_errors;
        reply.error_code = settings.next_error_code;
        return settings.next_error;
    }
    const std::uint32_t xid = xid_of(call.message);
    if (client->outstanding.contains(xid)) {
        return EEXIST;
    }
    if (state().servers.count(client->server == nullptr ? 0 : client->server->port) == 0) {
        return ECONNRESET;
    }
    exchange = std::make_shared<Exchange>();
    exchange->call = assemble(call.message, [](std::uint32_t) { return true; });
    exchange->results.assign(call.results, call.results + call.result_count);
    exchange->version = settings.version;
    exchange->reply_room = std::max<std::uint64_t>(settings.inline_octets, call.max_reply_octets);
    client->outstanding[xid] = exchange;
    client->server->outstanding.insert(exchange);
    Seen& seen = state().seen;
    ++seen.calls;
    seen.xid = xid;
    seen.max_reply_octets = call.max_reply_octets;
    seen.call_items.clear();
    seen.result_rooms.clear();
    for (std::uint32_t i = 0; i < call.message.item_count; ++i) {
        seen.call_items.push_back(call.message.items[i].octets);
    }
    for (const iovec& result : exchange->results) {
        seen.result_rooms.push_back(result.iov_len);
    }
    return 0;
}

void take_reply(const Exchange& exchange, rpcrdma_reply& reply) {
    auto* const stream = new Bytes(exchange.reply);
    reply.held = stream;
    reply.stream = stream->data();
    reply.stream_octets = stream->size();
    std::copy(exchange.result_octets.begin(), exchange.result_octets.end(), reply.result_octets);
}

std::vector<std::unique_ptr<rpcrdma_server>>& stopped_servers() {
    static std::vector<std::unique_ptr<rpcrdma_server>> all;
    return all;
}

}  // namespace

namespace urnic::rpcrdma::loopback {

Seen seen() {
    const std::scoped_lock lock(state().mutex);
    return state().seen;
}

void set(const Settings& settings) {
    const std::scoped_lock lock(state().mutex);
    state().settings = settings;
}

std::size_t allocated_blocks() { return state().blocks; }

}  // namespace urnic::rpcrdma::loopback

void rpcrdma_options_init(rpcrdma_options* options) {
    *options = {};
    options->size = sizeof *options;
    options->max_message_octets = std::uint64_t{65} << 20U;
}

void* rpcrdma_alloc(size_t octets) {
    ++state().blocks;
    return std::malloc(octets);
}

void rpcrdma_free(void* memory) {
    if (memory != nullptr) {
        --state().blocks;
        std::free(memory);
    }
}

int rpcrdma_connect(const sockaddr* address, const rpcrdma_options* /*options*/, rpcrdma_client** client) {
    const std::scoped_lock lock(state().mutex);
    const auto found = state().servers.find(ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port));
    if (found == state().servers.end()) {
        return ECONNREFUSED;
    }
    *client = new rpcrdma_client{.server = found->second, .connection = new rpcrdma_connection};
    return 0;
}

void rpcrdma_disconnect(rpcrdma_client* client) {
    std::vector<std::thread> submitted;
    {
        const std::scoped_lock lock(state().mutex);
        for (const auto& [xid, exchange] : client->outstanding) {
            finish(*exchange, ECANCELED);
        }
        submitted.swap(client->submitted);
    }
    for (std::thread& thread : submitted) {
        thread.join();
    }
    rpcrdma_connection_release(client->connection);
    delete client;
}

int rpcrdma_call(rpcrdma_client* client, const struct rpcrdma_call* call, rpcrdma_reply* reply) {
    std::shared_ptr<Exchange> exchange;
    std::unique_lock lock(state().mutex);
    const int error = begin_call(client, *call, *reply, exchange);
    if (error != 0) {
        return error;
    }
    rpcrdma_server* const server = client->server;
    ++client->connection->holds;
    auto* const request =
        new rpcrdma_request{.exchange = exchange, .connection = client->connection, .server = server};
    ++server->calls_in_handler;
    lock.unlock();
    server->handler(server->context, request);
    lock.lock();
    --server->calls_in_handler;
    state().changed.notify_all();
    const auto is_done = [&] { return exchange->is_done; };
    bool has_ended = true;
    if (call->timeout_ms == 0) {
        state().changed.wait(lock, is_done);
    } else {
        has_ended = state().changed.wait_for(lock, std::chrono::milliseconds(call->timeout_ms), is_done);
    }
    exchange->is_abandoned = true;
    client->outstanding.erase(xid_of(call->message));
    if (!has_ended) {
        return ETIMEDOUT;
    }
    reply->error_code = exchange->error_code;
    reply->error_first = exchange->error_first;
    reply->error_second = exchange->error_second;
    if (exchange->error == 0) {
        take_reply(*exchange, *reply);
    }
    return exchange->error;
}

int rpcrdma_submit(rpcrdma_client* client, const struct rpcrdma_call* call, rpcrdma_done done,
                   void* context) {
    const std::scoped_lock lock(state().mutex);
    if (client->server == nullptr) {
        return ECONNRESET;
    }
    client->submitted.emplace_back([client, request = *call, done, context] {
        rpcrdma_reply reply{};
        const int error = rpcrdma_call(client, &request, &reply);
        done(context, error, error == 0 ? &reply : nullptr);
    });
    return 0;
}

void rpcrdma_reply_release(rpcrdma_reply* reply) {
    delete static_cast<Bytes*>(reply->held);
    reply->held = nullptr;
}

int rpcrdma_listen(const sockaddr* address, const rpcrdma_options* /*options*/, uint32_t /*threads*/,
                   rpcrdma_handler handler, void* context, rpcrdma_server** server) {
    const std::scoped_lock lock(state().mutex);
    unsigned short port = ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port);
    port = port == 0 ? state().next_port++ : port;
    if (state().servers.contains(port)) {
        return EADDRINUSE;
    }
    *server = new rpcrdma_server{.handler = handler, .context = context, .port = port};
    state().servers[port] = *server;
    return 0;
}

int rpcrdma_server_address(rpcrdma_server* server, sockaddr_storage* address) {
    auto* const ipv4 = reinterpret_cast<sockaddr_in*>(address);
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(server->port);
    return 0;
}

void rpcrdma_server_stop(rpcrdma_server* server) {
    std::unique_lock lock(state().mutex);
    state().servers.erase(server->port);
    // The handler's context goes next.
    state().changed.wait(lock, [server] { return server->calls_in_handler == 0; });
    for (const auto& exchange : server->outstanding) {
        if (!exchange->is_done) {
            finish(*exchange, ECONNRESET);
        }
    }
    server->outstanding.clear();
    // Clients that are connected still point to it.
    stopped_servers().emplace_back(server);
}

const void* rpcrdma_request_stream(const rpcrdma_request* request, size_t* octets) {
    *octets = request->exchange->call.size();
    return request->exchange->call.data();
}
uint32_t rpcrdma_request_result_count(const rpcrdma_request* request) {
    return static_cast<uint32_t>(request->exchange->results.size());
}
uint32_t rpcrdma_request_version(const rpcrdma_request* request) { return request->exchange->version; }
rpcrdma_connection* rpcrdma_request_connection(const rpcrdma_request* request) { return request->connection; }
void rpcrdma_request_peer(const rpcrdma_request* /*request*/, sockaddr_storage* address) {
    auto* const ipv4 = reinterpret_cast<sockaddr_in*>(address);
    ipv4->sin_family = AF_INET;
    ipv4->sin_addr.s_addr = htonl(0xC6120001);  // 198.18.0.1
    ipv4->sin_port = htons(1023);
}

int rpcrdma_reply_to(rpcrdma_request* request, const rpcrdma_message* message, rpcrdma_sent sent,
                     void* context) {
    const std::shared_ptr<Exchange> exchange = request->exchange;
    int error = 0;
    {
        const std::scoped_lock lock(state().mutex);
        request->server->outstanding.erase(exchange);
        const std::size_t chunks = exchange->results.size();
        Bytes reply = assemble(*message, [&](std::uint32_t i) { return i >= chunks; });
        Seen& seen = state().seen;
        seen.reply_items.clear();
        seen.reply_data.clear();
        const bool is_version_1 = exchange->version == 1;
        for (std::uint32_t i = 0; i < message->item_count; ++i) {
            seen.reply_items.push_back(message->items[i].octets);
            seen.reply_data.push_back(message->items[i].data);
            if (error == 0 && i < chunks && message->items[i].octets > exchange->results[i].iov_len) {
                error = EMSGSIZE;
                finish(*exchange, is_version_1 ? EPROTO : EMSGSIZE, is_version_1 ? kErrChunk : kWriteResource,
                       i + 1, static_cast<std::uint32_t>(message->items[i].octets));
            }
        }
        if (error == 0 && reply.size() > exchange->reply_room) {
            error = EMSGSIZE;
            finish(*exchange, is_version_1 ? EPROTO : EMSGSIZE, is_version_1 ? kErrChunk : kReplyResource,
                   is_version_1 ? 0 : static_cast<std::uint32_t>(reply.size()));
        }
        if (error == 0 && exchange->is_abandoned) {
            error = 0;  // its memory is out of reach
        } else if (error == 0 && exchange->is_done) {
            error = ECONNRESET;
        } else if (error == 0) {
            for (std::uint32_t i = 0; i < std::min<std::size_t>(message->item_count, chunks); ++i) {
                const rpcrdma_item& item = message->items[i];
                if (item.octets != 0) {
                    std::memcpy(exchange->results[i].iov_base, item.data, item.octets);
                }
                exchange->result_octets[i] = static_cast<std::uint32_t>(item.octets);
            }
            exchange->reply = std::move(reply);
            finish(*exchange, 0);
        }
    }
    if (sent != nullptr) {
        sent(context);
    }
    rpcrdma_connection_release(request->connection);
    delete request;
    return error;
}

void rpcrdma_request_drop(rpcrdma_request* request) {
    rpcrdma_connection_release(request->connection);
    delete request;
}

void rpcrdma_connection_hold(rpcrdma_connection* connection) { ++connection->holds; }
void rpcrdma_connection_release(rpcrdma_connection* connection) {
    if (--connection->holds == 0) {
        delete connection;
    }
}

int rpcrdma_client_statistics(rpcrdma_client* /*client*/, rpcrdma_statistics* statistics) {
    const std::scoped_lock lock(state().mutex);
    statistics->version = state().settings.version;
    return 0;
}
int rpcrdma_server_statistics(rpcrdma_server* /*server*/, rpcrdma_statistics* /*statistics*/) { return 0; }
