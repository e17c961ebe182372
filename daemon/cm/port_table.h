// Port numbers of the RDMA port spaces (TCP, UDP, IB, IPOIB), one table for the daemon, with Linux's rules of
// who may share one. Independent of the kernel's own TCP and UDP ports.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "daemon/cm/endpoint.h"

namespace urnic::daemon {

/// Somebody who has a port. Stays at its address while bound.
struct PortUser {
    std::uint16_t space = 0;  // rdma_ucm_port_space; of AF_IB that of the service ID
    Endpoint at;
    bool shares = false;      // RDMA_OPTION_ID_REUSEADDR
    bool one_family = false;  // RDMA_OPTION_ID_AFONLY
    bool is_bound = false;
    std::uint32_t* of_user = nullptr;  // how many its user has, to be kept; or none
};

class PortTable {
  public:
    /// Ports that are given out when none is asked for.
    static constexpr std::uint16_t kFirstFree = 32768;
    static constexpr std::uint16_t kLastFree = 60999;
    /// Below, only for the privileged.
    static constexpr std::uint16_t kPrivileged = 1024;

    /// `first`: where the search for free ports begins.
    explicit PortTable(std::uint32_t first) : next_(first % kNumFree) {}

    /// Takes user.at.port, or a free one if that is 0. 0, EACCES (below 1024, for root alone), EADDRINUSE
    /// (the address has it), or EADDRNOTAVAIL (a wildcard is among the two, or no port is free).
    [[nodiscard]] int bind(PortUser& user, bool is_root);
    /// Nobody else may listen where this one does, whatever they share. 0 or as bind().
    [[nodiscard]] int listen(const PortUser& user) const;
    void release(PortUser& user);
    [[nodiscard]] std::size_t size() const { return users_.size(); }

  private:
    static constexpr std::uint32_t kNumFree = kLastFree - kFirstFree + 1;
    using Key = std::uint32_t;
    [[nodiscard]] int check(const PortUser& user, bool shares) const;
    [[nodiscard]] bool take_free(PortUser& user);
    std::map<Key, std::vector<PortUser*>> users_;
    std::uint32_t next_;  // below kNumFree: where the next search begins
};

}  // namespace urnic::daemon
