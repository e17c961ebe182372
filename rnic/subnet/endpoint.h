// Ports that paths lead to, as subnet administration sees them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rnic/subnet/node.h"
#include "rnic/wire/packet_view.h"

namespace urnic::subnet {

/// An RNIC's port, or a switch's port 0, that is active and has a LID.
class Endpoint {
  public:
    explicit Endpoint(const Node& node);

    [[nodiscard]] const wire::mad::PortInfo& info() const { return port().info; }
    [[nodiscard]] std::uint64_t guid() const { return node_->node_info.port_guid; }
    [[nodiscard]] const wire::Gid& gid() const { return gid_; }
    [[nodiscard]] const PkeyTable& pkeys() const { return port().pkeys; }
    [[nodiscard]] std::uint8_t mtu() const;
    [[nodiscard]] std::uint8_t rate() const;
    [[nodiscard]] bool has_lid(std::uint16_t lid) const { return node_->has_lid(lid); }

  private:
    [[nodiscard]] const PortRecord& port() const { return node_->ports[node_->is_switch() ? 0 : 1]; }

    const Node* node_;
    wire::Gid gid_{};
};

[[nodiscard]] std::vector<Endpoint> endpoints_of(std::span<const Node* const> nodes);
[[nodiscard]] const Endpoint* find_gid(std::span<const Endpoint> endpoints, const wire::Gid& gid);
[[nodiscard]] const Endpoint* find_lid(std::span<const Endpoint> endpoints, std::uint16_t lid);

/// The P_Key, as the first has it, by which two ports may talk: of `wanted`'s partition, or of the first that
/// they share (IBA 10.9.3); nullopt: they may not.
[[nodiscard]] std::optional<std::uint16_t> shared_pkey(const PkeyTable& a, const PkeyTable& b,
                                                       std::optional<std::uint16_t> wanted);

}  // namespace urnic::subnet
