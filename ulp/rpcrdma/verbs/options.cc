#include "ulp/rpcrdma/verbs/options.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ulp/rpcrdma/verbs/error.h"

namespace urnic::rpcrdma {
namespace {

constexpr std::uint32_t kMostInline = 65536;
constexpr std::uint32_t kMostCredits = 4096;
constexpr std::uint64_t kMostMessage = 1ULL << 30U;
constexpr std::uint32_t kLeastSends = 64;
constexpr std::uint32_t kMostSends = 1024;
constexpr std::uint32_t kBothVersions = 1U << kVersion1 | 1U << kVersion2;

int check(const rpcrdma_options& options) {
    if ((options.versions & kBothVersions) == 0 || (options.versions & ~kBothVersions) != 0) {
        return fail(EINVAL, "options.versions: bits 1 and 2, for versions 1 and 2");
    }
    if (options.receive_octets < kInlineThreshold2 || options.receive_octets > kMostInline) {
        return fail(EINVAL, "options.receive_octets: %u to %u", kInlineThreshold2, kMostInline);
    }
    if (options.credits == 0 || options.credits > kMostCredits) {
        return fail(EINVAL, "options.credits: 1 to %u", kMostCredits);
    }
    if (options.max_read_chunks > kMaxReadSegments || options.max_write_chunks > kMaxWriteChunks ||
        options.max_segments == 0 || options.max_segments > kMaxReadSegments) {
        return fail(EINVAL,
                    "options.max_read_chunks: at most %zu; max_write_chunks: %zu; max_segments: 1 to %zu",
                    kMaxReadSegments, kMaxWriteChunks, kMaxReadSegments);
    }
    if (options.max_message_octets == 0 || options.max_message_octets > kMostMessage) {
        return fail(EINVAL, "options.max_message_octets: 1 to %llu",
                    static_cast<unsigned long long>(kMostMessage));
    }
    if (options.lost_calls != RPCRDMA_LOST_FAIL && options.lost_calls != RPCRDMA_LOST_RETRANSMIT) {
        return fail(EINVAL, "options.lost_calls: RPCRDMA_LOST_FAIL or RPCRDMA_LOST_RETRANSMIT");
    }
    if (options.connect_timeout_ms == 0 || options.max_connections == 0) {
        return fail(EINVAL, "options.connect_timeout_ms and options.max_connections: not 0");
    }
    return 0;
}

}  // namespace

int check_options(const rpcrdma_options* given, rpcrdma_options& options) {
    rpcrdma_options_init(&options);
    if (given == nullptr) return 0;
    const std::size_t size = given->size;
    if (size < offsetof(rpcrdma_options, max_connections) || size > sizeof(options)) {
        return fail(EINVAL, "options.size is not that of this library: call rpcrdma_options_init() first");
    }
    std::memcpy(&options, given, size);
    options.size = sizeof(options);
    return check(options);
}

EndpointSizes sizes_of(const rpcrdma_options& options) {
    return {.receives = 2 * options.credits + kReserveReceives,
            .receive_octets = options.receive_octets,
            .sends = std::clamp(4 * options.credits, kLeastSends, kMostSends)};
}

PrivateData private_data_of(const rpcrdma_options& options, const Device& device) {
    PrivateData data;
    data.send_octets = kMostInline;
    data.receive_octets = options.receive_octets / kInlineThreshold1 * kInlineThreshold1;
    data.can_remote_invalidate =
        options.has_remote_invalidation != 0 && device.has_invalidation() && device.has_windows();
    return data;
}

Config config_of(const rpcrdma_options& options, Role role, const Device& device,
                 const std::optional<PrivateData>& peer) {
    Config config;
    config.role = role;
    config.versions = options.versions;
    config.receive_octets = options.receive_octets;
    config.max_receive_octets = kMostInline;
    config.send_octets = kMostInline;
    config.granted_credits = options.credits;
    config.wanted_credits = options.credits;
    config.own_private_data = private_data_of(options, device);
    config.peer_private_data = peer;
    config.can_offer_invalidation = config.own_private_data.can_remote_invalidate;
    config.can_send_invalidation = options.has_remote_invalidation != 0 && device.has_invalidation();
    config.limits.max_read_chunks = options.max_read_chunks;
    config.limits.max_write_chunks = options.max_write_chunks;
    config.limits.max_segments = options.max_segments;
    config.limits.max_call_octets = options.max_message_octets;
    config.limits.max_reply_octets = options.max_message_octets;
    return config;
}

}  // namespace urnic::rpcrdma

void rpcrdma_options_init(rpcrdma_options* options) {
    constexpr std::uint32_t kDefaultCredits = 64;
    *options = {};
    options->size = sizeof(*options);
    options->versions = urnic::rpcrdma::kBothVersions;
    options->receive_octets = urnic::rpcrdma::kInlineThreshold2;
    options->credits = kDefaultCredits;
    const urnic::rpcrdma::Limits limits;
    options->max_read_chunks = limits.max_read_chunks;
    options->max_write_chunks = limits.max_write_chunks;
    options->max_segments = limits.max_segments;
    options->max_message_octets = limits.max_call_octets;
    options->connect_timeout_ms = 5000;
    options->reconnect_attempts = 8;
    options->lost_calls = RPCRDMA_LOST_FAIL;
    options->has_remote_invalidation = 1;
    options->spin_us = -1;
    options->max_connections = 1024;
}
