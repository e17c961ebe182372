// A client without the library: it sends what a test says, right or wrong.
#pragma once

#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace urnic::e2e {

using Words = std::vector<std::uint32_t>;

class RawClient {
  public:
    /// Octets of memory().
    static constexpr std::uint32_t kMemoryOctets = 65536;

    explicit RawClient(const sockaddr_in& server);
    ~RawClient();
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;

    /// A message of up to 8192 octets. Does not wait for its completion.
    void send(std::span<const std::uint32_t> words);
    /// The words of the next message that is none of properties; none: the connection has ended.
    [[nodiscard]] Words receive();
    /// Waits for the end of the connection. Returns whether it came.
    [[nodiscard]] bool ends();

    /// Memory that the server may read and write, all of it and nothing else.
    [[nodiscard]] std::uint32_t handle() const { return region_->rkey; }
    [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(region_->addr); }
    /// The same memory, where it may be read alone.
    [[nodiscard]] std::uint32_t read_only_handle() const { return read_only_->rkey; }

  private:
    static constexpr std::size_t kReceives = 8;
    static constexpr std::size_t kReceiveOctets = 4096;
    static constexpr std::size_t kSendOctets = 8192;

    void connect(const sockaddr_in& server);
    void post_receive(std::size_t index);
    /// Returns whether the connection has ended by now.
    [[nodiscard]] bool has_ended();

    rdma_cm_id* id_ = nullptr;
    ibv_mr* messages_ = nullptr;
    ibv_mr* region_ = nullptr;
    ibv_mr* read_only_ = nullptr;
    bool is_over_ = false;
    std::vector<std::uint8_t> memory_;
    std::array<std::uint8_t, kReceives * kReceiveOctets + kSendOctets> message_memory_{};
};

}  // namespace urnic::e2e
