// What a measurement shows of a device's behaviour, where the specification leaves a choice; profiles of
// RNICs (rnic/device/rnic_profile.h) say how others behave.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace urnic::conform {

enum class DeviceBehaviour : std::uint8_t {
    kMigReq,
    kEarlyPackets,         // behind a gap: 1 kept, 0 discarded
    kRepetition,           // of what a NAK names: 1 with all that follows, 0 alone
    kSourcePort,           // a wire::SourcePortRule, or kOtherSourcePorts
    kCnp,                  // in answer to a mark
    kCnpGap,               // ns
    kCnpScope,             // 1 each QP has a gap of its own, 0 QPs of the same peer have one
    kCnpScopeOfAddresses,  // 1 each address of peers has a gap of its own, 0 two have one
    kCnpOfANak,
    kAckOfEachRequest,  // of a burst of requests that ask for it: 1 each has its own, 0 one stands for
                        // several
};
/// By DeviceBehaviour, as reports name them.
inline constexpr std::array<std::string_view, 10> kBehaviourNames = {"mig_req",
                                                                     "early_packets",
                                                                     "repetition",
                                                                     "udp_source_port",
                                                                     "cnp",
                                                                     "min_time_between_cnps",
                                                                     "cnp_scope",
                                                                     "cnp_scope_of_addresses",
                                                                     "nak_triggers_cnp",
                                                                     "ack_coalescing"};
inline constexpr std::size_t kBehaviours = kBehaviourNames.size();
[[nodiscard]] constexpr std::string_view behaviour_name(DeviceBehaviour behaviour) {
    return kBehaviourNames[static_cast<std::size_t>(behaviour)];
}
inline constexpr std::uint64_t kOtherSourcePorts = 255;

/// What a measurement shows of it.
struct ShownBehaviour {
    DeviceBehaviour behaviour = DeviceBehaviour::kMigReq;
    std::uint64_t value = 0;
};

}  // namespace urnic::conform
