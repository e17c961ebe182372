#include "tests/interop/nfs/transport.h"

#include <array>
#include <stdexcept>

#include "ulp/rpcrdma/codec/xdr.h"

namespace urnic::nfs {

namespace {

// A hang ends a test, not the patience of who runs it.
constexpr std::uint32_t kTimeoutMs = 120'000;

}  // namespace

Received TcpTransport::call(const CallParts& parts) {
    constexpr std::array<std::byte, 3> kPadding{};
    const std::size_t padding = rpcrdma::xdr_padded(parts.data.size()) - parts.data.size();
    const auto record = std::make_shared<std::vector<std::byte>>();
    const std::scoped_lock lock(mutex_);
    socket_.send_record(std::array<std::span<const std::byte>, 3>{parts.stream, parts.data,
                                                                  std::span(kPadding).first(padding)});
    if (!socket_.receive_record(*record, parts.max_reply_octets + parts.result.size() + 4)) {
        throw std::runtime_error("no reply");
    }
    return {.stream = *record, .result_octets = 0, .held = record};
}

RdmaTransport::RdmaTransport(const std::string& address, std::uint16_t port, std::uint32_t versions) {
    const sockaddr_storage name = ipv4_address(address, port);
    rpcrdma_options options{};
    rpcrdma_options_init(&options);
    options.versions = versions;
    const int error = rpcrdma_connect(reinterpret_cast<const sockaddr*>(&name), &options, &client_);
    if (error != 0) {
        throw_rdma_error("rpcrdma_connect", error);
    }
}

Received RdmaTransport::call(const CallParts& parts) {
    const rpcrdma_item item{
        .at = parts.stream.size(), .data = parts.data.data(), .octets = parts.data.size()};
    const iovec result{.iov_base = parts.result.data(), .iov_len = parts.result.size()};
    const struct rpcrdma_call made {
        .message = {.stream = parts.stream.data(),
                    .stream_octets = parts.stream.size(),
                    .items = &item,
                    .item_count = parts.data.empty() ? 0U : 1U},
        .results = &result, .result_count = parts.result.empty() ? 0U : 1U,
        .max_reply_octets = parts.max_reply_octets, .timeout_ms = kTimeoutMs
    };
    const auto release = [](rpcrdma_reply* reply) {
        rpcrdma_reply_release(reply);
        delete reply;
    };
    const std::shared_ptr<rpcrdma_reply> reply(new rpcrdma_reply{}, release);
    const int error = rpcrdma_call(client_, &made, reply.get());
    if (error != 0) {
        throw_rdma_error("rpcrdma_call (transport error " + std::to_string(reply->error_code) + ")", error);
    }
    return {.stream = {static_cast<const std::byte*>(reply->stream), reply->stream_octets},
            .result_octets = reply->result_octets[0],
            .held = reply};
}

rpcrdma_statistics RdmaTransport::counted() const {
    rpcrdma_statistics counted{};
    counted.size = sizeof counted;
    const int error = rpcrdma_client_statistics(client_, &counted);
    if (error != 0) {
        throw_rdma_error("rpcrdma_client_statistics", error);
    }
    return counted;
}

std::string RdmaTransport::statistics() const { return to_text(counted()); }

}  // namespace urnic::nfs
