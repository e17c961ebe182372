// A server without the library: it posts what a test says.
#pragma once

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace urnic::e2e {

class RawPeer {
  public:
    explicit RawPeer(std::uint16_t port);
    ~RawPeer();
    RawPeer(const RawPeer&) = delete;
    RawPeer& operator=(const RawPeer&) = delete;

    /// Takes the next connection, in place of the one that it had, with a receive posted.
    void accept();
    /// The words of the next message that is none of properties; none: the connection ended.
    [[nodiscard]] std::vector<std::uint32_t> receive();
    void send(std::span<const std::uint32_t> words);
    /// RDMA WRITE of 8 octets, or READ; the status of its completion.
    [[nodiscard]] ibv_wc_status write(std::uint32_t handle, std::uint64_t address);
    [[nodiscard]] ibv_wc_status read(std::uint32_t handle, std::uint64_t address);
    void disconnect();

  private:
    void accept_next();
    void post_receive();
    [[nodiscard]] ibv_wc_status sent();

    static constexpr std::size_t kOctets = 8192;
    rdma_cm_id* listener_ = nullptr;
    rdma_cm_id* id_ = nullptr;
    ibv_mr* region_ = nullptr;
    std::array<std::uint8_t, 2 * kOctets> memory_{};
};

}  // namespace urnic::e2e
