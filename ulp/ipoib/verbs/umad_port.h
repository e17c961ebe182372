/// Requests to the subnet administrator of a port, by stock libibumad.
#pragma once

#include <cstdint>
#include <vector>

#include "ulp/ipoib/engine/subnet_client.h"
#include "ulp/ipoib/verbs/rdma_port.h"

namespace urnic::ipoib {

class UmadPort : public SaPort {
  public:
    /// Of a port that outlives it. Throws SetupError.
    explicit UmadPort(const RdmaPort& port);
    ~UmadPort() override;

    /// Readable when there are answers.
    [[nodiscard]] int fd() const;
    [[nodiscard]] bool request(const SaMad& mad) override;
    /// Takes what is there. Throws SetupError when the device was removed.
    void take(SubnetClient& client);

  private:
    const RdmaPort& port_;
    int umad_ = -1;
    int agent_ = -1;
    std::vector<std::byte> buffer_;
};

}  // namespace urnic::ipoib
