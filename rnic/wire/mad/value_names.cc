#include "rnic/wire/mad/value_names.h"

namespace urnic::wire::mad {

const char* mtu_name(std::uint64_t mtu) { return pick({nullptr, "256", "512", "1024", "2048", "4096"}, mtu); }

const char* notice_type_name(std::uint64_t type) {
    constexpr std::uint64_t kEmpty = 0x7f;
    return type == kEmpty ? "empty"
                          : pick({"fatal", "urgent", "security", "subnet management", "informational"}, type);
}

const char* producer_type_name(std::uint64_t type) {
    return pick({nullptr, "channel adapter", "switch", "router", "class manager"}, type);
}

const char* trap_name(std::uint64_t number) {
    switch (number) {
        case 64:
            return "GID in service";
        case 65:
            return "GID out of service";
        case 66:
            return "multicast group created";
        case 67:
            return "multicast group deleted";
        case 128:
            return "link state changed";
        case 129:
            return "local link integrity";
        case 130:
            return "excessive buffer overrun";
        case 131:
            return "flow control update watchdog";
        case 144:
            return "capability mask or node description changed";
        case 145:
            return "system image GUID changed";
        case 256:
            return "M_Key violation";
        case 257:
            return "P_Key violation";
        case 258:
            return "Q_Key violation";
        case 259:
            return "P_Key violation at a switch";
        default:
            return nullptr;
    }
}

}  // namespace urnic::wire::mad
