// Requests of subnet administration: which components of a record they name (IBA 15.4.4), what is wrong with
// them.
#pragma once

#include <cstdint>

#include "rnic/subnet/smp.h"

namespace urnic::subnet {

inline constexpr std::uint8_t kSaClassVersion = 2;

/// In the upper octet of a MAD's status (IBA table 188).
enum SaStatus : std::uint16_t {
    kSaNoResources = 0x0100,
    kSaRequestInvalid = 0x0200,
    kSaNoRecords = 0x0300,
    kSaTooManyRecords = 0x0400,
    kSaInvalidGid = 0x0500,
    kSaInsufficientComponents = 0x0600,
};

/// Bit n of a component mask.
constexpr std::uint64_t component(unsigned n) { return std::uint64_t{1} << n; }
/// Returns whether a mask has all of these.
constexpr bool has_components(std::uint64_t mask, std::uint64_t components) {
    return (mask & components) == components;
}

/// Of a PathRecord (IBA table 212).
namespace path_component {
inline constexpr std::uint64_t kDgid = component(2), kSgid = component(3), kDlid = component(4),
                               kSlid = component(5), kRawTraffic = component(6), kFlowLabel = component(8),
                               kHopLimit = component(9), kTclass = component(10), kReversible = component(11),
                               kNumbPath = component(12), kPkey = component(13), kQosClass = component(14),
                               kSl = component(15), kMtuSelector = component(16), kMtu = component(17),
                               kRateSelector = component(18), kRate = component(19),
                               kLifeSelector = component(20), kLife = component(21);
}  // namespace path_component

/// Of an MCMemberRecord (IBA table 214).
namespace member_component {
inline constexpr std::uint64_t kMgid = component(0), kPortGid = component(1), kQkey = component(2),
                               kMlid = component(3), kMtuSelector = component(4), kMtu = component(5),
                               kTclass = component(6), kPkey = component(7), kRateSelector = component(8),
                               kRate = component(9), kLifeSelector = component(10), kLife = component(11),
                               kSl = component(12), kFlowLabel = component(13), kHopLimit = component(14),
                               kScope = component(15), kJoinState = component(16), kProxyJoin = component(17);
}  // namespace member_component

/// Of a PortInfoRecord.
inline constexpr std::uint64_t kCapabilityMaskComponent = component(7);

/// The components of a record that are known here. A mask that names others cannot be answered: what was
/// asked for would be left out of the comparison.
[[nodiscard]] std::uint64_t known_components(std::uint16_t attribute_id);

/// Returns whether the components that `mask` names are the same in both records, which lie as on the wire.
/// The attribute is one whose components are its fields: not a PathRecord.
[[nodiscard]] bool components_match(std::uint16_t attribute_id, std::uint64_t mask, const std::byte* wanted,
                                    const std::byte* record);

}  // namespace urnic::subnet
