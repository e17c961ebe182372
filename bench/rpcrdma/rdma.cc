// Over liburnic-rpcrdma.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>
#include <urnic/rpcrdma.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "bench/rpcrdma/load.h"

namespace urnic::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kAddress = "198.18.0.1";
constexpr std::size_t kCallWords = 11;  // header and the length of the argument
constexpr std::size_t kReplyWords = 7;  // header and the length of the result

sockaddr_in address_of(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (inet_pton(AF_INET, kAddress, &address.sin_addr) != 1) give_up_on("address");
    return address;
}

/// What every reply to a Get has.
struct Service {
    void* bulk = rpcrdma_alloc(kBulkOctets);
};

void answer(void* context, rpcrdma_request* request) {
    const auto& service = *static_cast<const Service*>(context);
    std::size_t octets = 0;
    std::array<std::uint32_t, kCallWords> call;
    std::memcpy(call.data(), rpcrdma_request_stream(request, &octets), sizeof(call));
    const auto procedure = static_cast<Procedure>(ntohl(call[5]));
    std::array<std::uint32_t, kReplyWords + kSmallOctets / 4> reply{call[0], htonl(1)};
    rpcrdma_item item{kReplyWords * 4, service.bulk, kBulkOctets};
    rpcrdma_message message{reply.data(), sizeof(reply), nullptr, 0};
    if (procedure == Procedure::kGet) {
        reply[kReplyWords - 1] = htonl(kBulkOctets);
        message = {reply.data(), kReplyWords * 4, &item, 1};
        // What is written stays for ever, and what is sent is copied.
        (void)rpcrdma_reply_to(
            request, &message, [](void*) {}, nullptr);
        return;
    }
    (void)rpcrdma_reply_to(request, &message, nullptr, nullptr);
}

/// One call after the other, each begun by the end of the one before.
class Chain {
  public:
    Chain(rpcrdma_client* client, Procedure procedure, std::uint32_t first_xid,
          std::atomic<std::uint64_t>& calls, const std::atomic<bool>& is_over)
        : client_(client), xid_(first_xid), calls_(calls), is_over_(is_over) {
        stream_ = {0, 0, htonl(2), htonl(0x20000002), htonl(1), htonl(static_cast<std::uint32_t>(procedure))};
        call_.message = {stream_.data(), procedure == Procedure::kSmall ? sizeof(stream_) : kCallWords * 4,
                         nullptr, 0};
        call_.max_reply_octets = kReplyWords * 4 + kSmallOctets;
        if (procedure == Procedure::kSmall) return;
        bulk_ = rpcrdma_alloc(kBulkOctets);
        std::memset(bulk_, 1, kBulkOctets);
        if (procedure == Procedure::kPut) {
            stream_[kCallWords - 1] = htonl(kBulkOctets);
            item_ = {kCallWords * 4, bulk_, kBulkOctets};
            call_.message.items = &item_;
            call_.message.item_count = 1;
        } else {
            result_ = {bulk_, kBulkOctets};
            call_.results = &result_;
            call_.result_count = 1;
        }
    }
    ~Chain() { rpcrdma_free(bulk_); }
    Chain(const Chain&) = delete;
    Chain& operator=(const Chain&) = delete;

    void submit() {
        stream_[0] = htonl(xid_++);
        if (rpcrdma_submit(client_, &call_, on_done, this) != 0) give_up_on(rpcrdma_last_error());
    }
    void call() {
        stream_[0] = htonl(xid_++);
        rpcrdma_reply reply;
        if (rpcrdma_call(client_, &call_, &reply) != 0) give_up_on(rpcrdma_last_error());
        rpcrdma_reply_release(&reply);
        ++calls_;
    }
    [[nodiscard]] bool has_ended() const { return has_ended_.load(); }

  private:
    static void on_done(void* context, int error, rpcrdma_reply* reply) {
        auto& chain = *static_cast<Chain*>(context);
        if (error != 0) give_up_on(rpcrdma_last_error());
        rpcrdma_reply_release(reply);
        ++chain.calls_;
        if (chain.is_over_.load(std::memory_order_relaxed)) {
            chain.has_ended_ = true;
        } else {
            chain.submit();
        }
    }

    rpcrdma_client* client_;
    std::uint32_t xid_;
    std::atomic<std::uint64_t>& calls_;
    const std::atomic<bool>& is_over_;
    std::atomic<bool> has_ended_{false};
    std::array<std::uint32_t, kCallWords + kSmallOctets / 4> stream_{};
    void* bulk_ = nullptr;
    rpcrdma_item item_{};
    iovec result_{};
    struct rpcrdma_call call_ {};
};

}  // namespace

void serve_rdma(const Tell& tell) {
    static Service s_service;
    std::memset(s_service.bulk, 1, kBulkOctets);
    const sockaddr_in any = address_of(0);
    rpcrdma_server* server = nullptr;
    if (rpcrdma_listen(reinterpret_cast<const sockaddr*>(&any), nullptr, 1, answer, &s_service, &server) !=
        0) {
        give_up_on(rpcrdma_last_error());
    }
    sockaddr_storage bound;
    (void)rpcrdma_server_address(server, &bound);
    tell(ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port));
    for (;;) {
        (void)pause();
    }
}

Done call_rdma(std::uint16_t port, const Load& load) {
    const sockaddr_in server = address_of(port);
    rpcrdma_client* client = nullptr;
    if (rpcrdma_connect(reinterpret_cast<const sockaddr*>(&server), nullptr, &client) != 0) {
        give_up_on(rpcrdma_last_error());
    }
    std::atomic<std::uint64_t> calls{0};
    std::atomic<bool> is_over{false};
    std::vector<std::unique_ptr<Chain>> chains;
    for (std::uint32_t i = 0; i < load.outstanding; ++i) {
        chains.push_back(std::make_unique<Chain>(client, load.procedure, i << 25U, calls, is_over));
    }
    // Settles the version, and touches the memory.
    for (const auto& chain : chains) {
        chain->call();
    }
    calls = 0;
    const Clock::time_point begin = Clock::now();
    const Clock::time_point end =
        begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(load.seconds));
    if (load.outstanding == 1) {
        while (Clock::now() < end) {
            chains[0]->call();
        }
    } else {
        for (const auto& chain : chains) {
            chain->submit();
        }
        std::this_thread::sleep_until(end);
    }
    const Done done{calls.load(), std::chrono::duration<double>(Clock::now() - begin).count()};
    is_over = true;
    for (const auto& chain : chains) {
        while (load.outstanding != 1 && !chain->has_ended()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    rpcrdma_disconnect(client);
    return done;
}

}  // namespace urnic::bench
