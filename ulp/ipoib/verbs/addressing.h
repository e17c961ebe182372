/// From a GID to what an address handle or a QP needs, and to the LID of a group: on RoCE the device finds
/// its ways itself, on InfiniBand the subnet administrator has them.
#pragma once

#include <infiniband/verbs.h>

#include "ulp/ipoib/engine/outbox.h"
#include "ulp/ipoib/engine/subnet_client.h"
#include "ulp/ipoib/verbs/rdma_port.h"

namespace urnic::ipoib {

class Addressing {
  public:
    virtual ~Addressing() = default;
    Addressing() = default;
    Addressing(const Addressing&) = delete;
    Addressing& operator=(const Addressing&) = delete;

    /// Of a port or a group. `vector` is what it was unless the answer is kDone.
    [[nodiscard]] virtual Progress find(const Gid& destination, ibv_ah_attr& vector) = 0;
    /// As FullMember. `mlid`: 0 on RoCE.
    [[nodiscard]] virtual Progress join(const Gid& group, std::uint16_t& mlid) = 0;
    virtual void leave(const Gid& group) = 0;
};

/// What all datagrams of a link on RoCE have.
struct RoceTraffic {
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 64;
    std::uint8_t service_level = 0;
};

class RoceAddressing : public Addressing {
  public:
    RoceAddressing(const RdmaPort& port, const RoceTraffic& traffic) : port_(port), traffic_(traffic) {}
    [[nodiscard]] Progress find(const Gid& destination, ibv_ah_attr& vector) override;
    [[nodiscard]] Progress join(const Gid& group, std::uint16_t& mlid) override;
    void leave(const Gid& group) override;

  private:
    const RdmaPort& port_;
    RoceTraffic traffic_;
};

class SubnetAddressing : public Addressing {
  public:
    SubnetAddressing(const RdmaPort& port, SubnetClient& client) : port_(port), client_(client) {}
    [[nodiscard]] Progress find(const Gid& destination, ibv_ah_attr& vector) override;
    [[nodiscard]] Progress join(const Gid& group, std::uint16_t& mlid) override;
    void leave(const Gid& group) override;

  private:
    const RdmaPort& port_;
    SubnetClient& client_;
};

}  // namespace urnic::ipoib
