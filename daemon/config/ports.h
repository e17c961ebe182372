// The keys of an [[rnic]] that say where its packets go.
#pragma once

#include <optional>
#include <string>

#include "daemon/config/config.h"

namespace urnic::daemon {

/// As they stand in the file; empty: not given.
struct PortKeys {
    std::string port;
    std::string fabric;
    std::string device;
    std::string interface;
    std::string netns;
    std::string socket;
    std::string role;
    std::optional<std::uint32_t> id;
    std::string segmentation_offload;
};

/// Sets what `rnic` has of its port. Returns what is wrong with the keys, or "".
[[nodiscard]] std::string apply_port_keys(const PortKeys& keys, RnicConfig& rnic);

/// Returns whether both RNICs would have the same port to themselves.
[[nodiscard]] bool same_port(const RnicConfig& a, const RnicConfig& b);

}  // namespace urnic::daemon
