// A network in which the RNICs of a test find each other.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/device/device.h"

namespace urnic::daemon {

/// Every device's addresses are reachable, nothing else.
class OwnNeighbours final : public NeighbourResolver {
  public:
    explicit OwnNeighbours(const std::vector<std::unique_ptr<dataplane::Device>>& devices)
        : devices_(devices) {}
    [[nodiscard]] std::optional<wire::Mac> resolve(const wire::Gid& gid) const override {
        for (const auto& device : devices_) {
            if (std::find(device->gids.begin(), device->gids.end(), gid) != device->gids.end()) {
                return device->mac;
            }
        }
        return std::nullopt;
    }

  private:
    const std::vector<std::unique_ptr<dataplane::Device>>& devices_;
};

}  // namespace urnic::daemon
