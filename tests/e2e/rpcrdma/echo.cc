#include "tests/e2e/rpcrdma/echo.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>

namespace urnic::e2e {
namespace {

constexpr std::size_t kCallHeaderWords = 10;
constexpr std::size_t kReplyHeaderWords = 6;
constexpr std::uint32_t kProgram = 0x20000001;

void put(Octets& to, std::uint32_t word) {
    for (unsigned shift = 32; shift != 0;) {
        shift -= 8;
        to.push_back(static_cast<std::uint8_t>(word >> shift));
    }
}

std::uint32_t word_at(const std::uint8_t* from, std::size_t word) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        value = value << 8U | from[word * 4 + i];
    }
    return value;
}

std::size_t padded(std::size_t octets) { return (octets + 3) / 4 * 4; }

/// The octets of the reply to `xid`, up to the data; `length`: that of the data.
Octets reply_stream(std::uint32_t xid, std::size_t length) {
    Octets stream;
    for (const std::uint32_t word : {xid, 1U, 0U, 0U, 0U, 0U}) {
        put(stream, word);
    }
    put(stream, static_cast<std::uint32_t>(length));
    return stream;
}

void reply_to(rpcrdma_request* request, std::uint32_t xid, const std::uint8_t* data, std::size_t length) {
    struct Answer {
        Octets stream;
        Octets data;
    };
    auto answer = std::make_unique<Answer>();
    answer->stream = reply_stream(xid, length);
    rpcrdma_item item{answer->stream.size(), data, length};
    rpcrdma_message message{answer->stream.data(), answer->stream.size(), &item, length == 0 ? 0U : 1U};
    const int error = rpcrdma_reply_to(
        request, &message, [](void* context) { delete static_cast<Answer*>(context); }, answer.release());
    // The client may have left, or given too little room.
    EXPECT_TRUE(error == 0 || error == ECONNRESET || error == EMSGSIZE) << rpcrdma_last_error();
}

}  // namespace

Octets octets_of(std::size_t count, std::uint32_t seed) {
    Octets octets(count);
    std::uint32_t state = seed * 2654435761U + 1;
    for (std::uint8_t& octet : octets) {
        state = state * 1664525U + 1013904223U;
        octet = static_cast<std::uint8_t>(state >> 24U);
    }
    return octets;
}

sockaddr_in server_address(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    EXPECT_EQ(inet_pton(AF_INET, server_host(), &address.sin_addr), 1);
    return address;
}

rpcrdma_options default_options() {
    rpcrdma_options options;
    rpcrdma_options_init(&options);
    options.connect_timeout_ms = 30'000;
    return options;
}

std::uint32_t next_xid() {
    static std::atomic<std::uint32_t> xid{0x1000};
    return xid.fetch_add(1);
}

// --- a call

EchoCall::EchoCall(std::uint32_t xid, const Octets& argument, const EchoOptions& options)
    : options_(options) {
    for (const std::uint32_t word :
         {xid, 0U, 2U, kProgram, 1U, static_cast<std::uint32_t>(options.procedure), 0U, 0U, 0U, 0U}) {
        put(stream_, word);
    }
    put(stream_, static_cast<std::uint32_t>(argument.size()));
    if (options.has_item && !argument.empty()) {
        std::uint8_t* const data = memory(argument.size());
        std::copy(argument.begin(), argument.end(), data);
        item_ = {stream_.size(), data, argument.size()};
        call_.message.items = &item_;
        call_.message.item_count = 1;
    } else {
        stream_.insert(stream_.end(), argument.begin(), argument.end());
        stream_.resize(padded(stream_.size()));
    }
    call_.message.stream = stream_.data();
    call_.message.stream_octets = stream_.size();
    const std::size_t reply_header = (kReplyHeaderWords + 1) * 4;
    call_.max_reply_octets = reply_header + padded(argument.size());
    if (options.has_result && !argument.empty()) {
        result_ = {memory(argument.size()), argument.size()};
        std::memset(result_.iov_base, 0x5a, argument.size());
        call_.results = &result_;
        call_.result_count = 1;
        call_.max_reply_octets = reply_header;
    }
    if (options.max_reply_octets != 0) call_.max_reply_octets = options.max_reply_octets;
    call_.timeout_ms = options.timeout_ms;
}

EchoCall::~EchoCall() {
    for (void* const memory : pooled_) {
        rpcrdma_free(memory);
    }
}

std::uint8_t* EchoCall::memory(std::size_t octets) {
    if (options_.is_pooled) {
        pooled_.push_back(rpcrdma_alloc(octets));
        return static_cast<std::uint8_t*>(pooled_.back());
    }
    plain_.push_back(std::make_unique<Octets>(octets));
    return plain_.back()->data();
}

Echoed EchoCall::take(int error, rpcrdma_reply& reply) const {
    Echoed echoed;
    echoed.error = error;
    echoed.error_code = reply.error_code;
    if (error != 0) {
        echoed.text = rpcrdma_last_error();
        return echoed;
    }
    const auto* const stream = static_cast<const std::uint8_t*>(reply.stream);
    const std::size_t header = (kReplyHeaderWords + 1) * 4;
    if (reply.stream_octets < header) {
        ADD_FAILURE() << "a reply of " << reply.stream_octets << " octets";
        rpcrdma_reply_release(&reply);
        return echoed;
    }
    const std::size_t length = word_at(stream, kReplyHeaderWords);
    if (reply.result_octets[0] != 0) {
        EXPECT_EQ(reply.result_octets[0], length);
        const auto* const result = static_cast<const std::uint8_t*>(result_.iov_base);
        echoed.octets.assign(result, result + reply.result_octets[0]);
    } else {
        echoed.was_in_stream = true;
        EXPECT_EQ(reply.stream_octets, header + padded(length));
        if (reply.stream_octets >= header + length)
            echoed.octets.assign(stream + header, stream + header + length);
    }
    rpcrdma_reply_release(&reply);
    return echoed;
}

Echoed echo(rpcrdma_client* client, const Octets& argument, const EchoOptions& options) {
    const EchoCall call(next_xid(), argument, options);
    rpcrdma_reply reply;
    const int error = rpcrdma_call(client, &call.call(), &reply);
    return call.take(error, reply);
}

Echoed echo_back(rpcrdma_connection* connection, const Octets& argument, const EchoOptions& options) {
    const EchoCall call(next_xid(), argument, options);
    rpcrdma_reply reply;
    const int error = rpcrdma_call_back(connection, &call.call(), &reply);
    return call.take(error, reply);
}

// --- the server

void answer(rpcrdma_request* request) {
    std::size_t octets = 0;
    const auto* const stream = static_cast<const std::uint8_t*>(rpcrdma_request_stream(request, &octets));
    const std::size_t header = (kCallHeaderWords + 1) * 4;
    if (octets < header) {
        ADD_FAILURE() << "a call of " << octets << " octets";
        rpcrdma_request_drop(request);
        return;
    }
    const std::uint32_t xid = word_at(stream, 0);
    const std::size_t length = word_at(stream, kCallHeaderWords);
    EXPECT_EQ(octets, header + padded(length));
    if (word_at(stream, 5) != static_cast<std::uint32_t>(Procedure::kCallBack)) {
        reply_to(request, xid, stream + header, length);
        return;
    }
    const Octets argument(stream + header, stream + header + length);
    const Echoed back = echo_back(rpcrdma_request_connection(request), argument, {.is_pooled = true});
    EXPECT_EQ(back.error, 0) << back.text;
    const Octets stays = back.octets;
    rpcrdma_message message{};
    const Octets reply = reply_stream(xid, stays.size());
    const rpcrdma_item item{reply.size(), stays.data(), stays.size()};
    message = {reply.data(), reply.size(), &item, stays.empty() ? 0U : 1U};
    EXPECT_EQ(rpcrdma_reply_to(request, &message, nullptr, nullptr), 0) << rpcrdma_last_error();
}

struct EchoServer::Held {
    std::mutex mutex;
    std::vector<rpcrdma_request*> requests;
};

EchoServer::EchoServer(const rpcrdma_options& options, std::uint32_t threads, std::uint16_t port)
    : held_(std::make_unique<Held>()) {
    const sockaddr_in where = server_address(port);
    EXPECT_EQ(rpcrdma_listen(reinterpret_cast<const sockaddr*>(&where), &options, threads, handle,
                             held_.get(), &server_),
              0)
        << rpcrdma_last_error();
    if (server_ == nullptr) return;
    sockaddr_storage bound;
    EXPECT_EQ(rpcrdma_server_address(server_, &bound), 0);
    std::memcpy(&address_, &bound, sizeof(address_));
}

EchoServer::~EchoServer() { stop(); }

void EchoServer::stop() {
    rpcrdma_server_stop(server_);
    server_ = nullptr;
    const std::lock_guard lock(held_->mutex);
    for (rpcrdma_request* const request : held_->requests) {
        rpcrdma_request_drop(request);
    }
    held_->requests.clear();
}

void EchoServer::handle(void* context, rpcrdma_request* request) {
    std::size_t octets = 0;
    const auto* const stream = static_cast<const std::uint8_t*>(rpcrdma_request_stream(request, &octets));
    if (octets >= kCallHeaderWords * 4 &&
        word_at(stream, 5) == static_cast<std::uint32_t>(Procedure::kHold)) {
        auto& held = *static_cast<Held*>(context);
        const std::lock_guard lock(held.mutex);
        held.requests.push_back(request);
        return;
    }
    answer(request);
}

void EchoServer::answer_held() {
    std::vector<rpcrdma_request*> requests;
    {
        const std::lock_guard lock(held_->mutex);
        std::swap(requests, held_->requests);
    }
    for (rpcrdma_request* const request : requests) {
        answer(request);
    }
}

std::size_t EchoServer::held() const {
    const std::lock_guard lock(held_->mutex);
    return held_->requests.size();
}

rpcrdma_statistics EchoServer::statistics() const {
    rpcrdma_statistics statistics{};
    statistics.size = sizeof(statistics);
    EXPECT_EQ(rpcrdma_server_statistics(server_, &statistics), 0) << rpcrdma_last_error();
    return statistics;
}

// --- the client

EchoClient::EchoClient(const sockaddr_in& address, const rpcrdma_options& options) {
    error_ = rpcrdma_connect(reinterpret_cast<const sockaddr*>(&address), &options, &client_);
}

EchoClient::~EchoClient() { disconnect(); }

void EchoClient::disconnect() {
    rpcrdma_disconnect(client_);
    client_ = nullptr;
}

rpcrdma_statistics EchoClient::statistics() const {
    rpcrdma_statistics statistics{};
    statistics.size = sizeof(statistics);
    EXPECT_EQ(rpcrdma_client_statistics(client_, &statistics), 0) << rpcrdma_last_error();
    return statistics;
}

}  // namespace urnic::e2e
