// Neighbours of RNICs on real ports that the configuration names.
#pragma once

#include <map>
#include <vector>

#include "daemon/config/config.h"
#include "dataplane/device/device.h"

namespace urnic::daemon {

class StaticNeighbours final : public NeighbourResolver {
  public:
    explicit StaticNeighbours(const std::vector<NeighbourConfig>& neighbours);
    [[nodiscard]] std::optional<wire::Mac> resolve(const wire::Gid& gid) const override;

  private:
    std::map<wire::Gid, wire::Mac> table_;
};

}  // namespace urnic::daemon
