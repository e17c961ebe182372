// PathRecords (IBA 15.2.5.16) of a subnet whose routes treat all traffic alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rnic/subnet/endpoint.h"
#include "rnic/subnet/sa_groups.h"
#include "rnic/wire/mad/administration_attributes.h"

namespace urnic::subnet {

/// The paths that a request wants, at most `most`: of ports, or to a multicast group. `mask`: its components,
/// known ones. Returns the status: kSaInvalidGid of a GID that is nobody's, kSaNoResources of more paths than
/// `most`.
[[nodiscard]] std::uint16_t find_paths(std::span<const Endpoint> endpoints, const SaGroups& groups,
                                       const wire::mad::PathRecord& wanted, std::uint64_t mask,
                                       std::size_t most, std::vector<wire::mad::PathRecord>& paths);

}  // namespace urnic::subnet
