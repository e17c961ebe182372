// The routes of an emulated subnet that nobody manages: they follow the groups of its RNICs, and its links.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>

#include "dataplane/wire/emulated_subnet.h"

namespace urnic::daemon {

struct ControlState;

/// For the control thread, which finds the routes; worker 0 sets them.
class SubnetRoutes {
  public:
    explicit SubnetRoutes(dataplane::EmulatedSubnet& subnet) : subnet_(subnet) {}

    /// The RNIC is a member of these groups and of no others.
    void set_groups(const ControlState& control, std::uint32_t rnic, std::span<const std::uint16_t> lids);
    /// Takes a trunk down or up: EmulatedSubnet::set_link(). Packets then go by links that are up.
    void set_link(const ControlState& control, std::uint32_t port, bool up);

  private:
    void route(const ControlState& control, netsim::Lid mlid) const;

    dataplane::EmulatedSubnet& subnet_;
    std::map<netsim::Lid, std::set<std::uint32_t>> members_;  // RNICs by group
};

}  // namespace urnic::daemon
