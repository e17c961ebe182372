#include "rnic/subnet/directed_route.h"

namespace urnic::subnet {

namespace {

constexpr std::uint8_t kMaxHops = 63;
constexpr RouteStep kDiscard{};
constexpr RouteStep kDeliver{RouteStep::Kind::kDeliver, 0};

RouteStep forward(std::uint8_t port, std::uint8_t num_ports) {
    return port == 0 || port > num_ports ? kDiscard : RouteStep{RouteStep::Kind::kForward, port};
}

// IBA 14.2.2.1 and 14.2.2.2 (C14-9): on the way to the node that it is for.
RouteStep step_out(MadRef smp, bool is_switch, std::uint8_t num_ports, std::uint8_t ingress) {
    const std::uint8_t count = smp.hop_count();
    const std::uint8_t pointer = smp.hop_pointer();
    const bool is_own = ingress == kOwnPort;
    if (pointer > count || is_own != (pointer == 0)) {
        return kDiscard;
    }
    if (pointer == count) {
        if (smp.dr_dlid() != kPermissiveLid) {
            return kDiscard;
        }
        if (count != 0) {
            smp.set_return_path(pointer, ingress);
        }
        smp.set_hop_pointer(static_cast<std::uint8_t>(pointer + 1));
        return kDeliver;
    }
    if (!is_own) {
        if (!is_switch) {
            return kDiscard;
        }
        smp.set_return_path(pointer, ingress);
    }
    smp.set_hop_pointer(static_cast<std::uint8_t>(pointer + 1));
    return forward(smp.initial_path(pointer + 1U), num_ports);
}

// IBA 14.2.2.3 and 14.2.2.4 (C14-13): on the way back.
RouteStep step_back(MadRef smp, bool is_switch, std::uint8_t num_ports, std::uint8_t ingress) {
    const std::uint8_t count = smp.hop_count();
    const std::uint8_t pointer = smp.hop_pointer();
    const bool is_own = ingress == kOwnPort;
    if (pointer == 0 || pointer > count + 1 || is_own != (pointer == count + 1)) {
        return kDiscard;
    }
    smp.set_hop_pointer(static_cast<std::uint8_t>(pointer - 1));
    if (pointer == 1) {
        return smp.dr_slid() == kPermissiveLid ? kDeliver : kDiscard;
    }
    return is_own || is_switch ? forward(smp.return_path(pointer - 1U), num_ports) : kDiscard;
}

}  // namespace

RouteStep step_directed(MadRef smp, bool is_switch, std::uint8_t num_ports, std::uint8_t ingress) {
    if (smp.hop_count() > kMaxHops) {
        return kDiscard;
    }
    return smp.is_returning() ? step_back(smp, is_switch, num_ports, ingress)
                              : step_out(smp, is_switch, num_ports, ingress);
}

}  // namespace urnic::subnet
