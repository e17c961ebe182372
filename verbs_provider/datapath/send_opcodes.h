// What each send opcode is, and which of them a QP type offers (IBA 9.7, 9.8.2, 9.8.3).
#pragma once

#include <initializer_list>

#include "abi/verbs_values.h"

namespace urnic::provider {

struct SendOpcode {
    bool offered = false;
    bool immediate_or_key = false;  // carries immediate data, or a key to invalidate
    bool remote = false;            // names remote memory
    bool atomic = false;
    bool may_inline = false;
    bool datagram = false;  // names its destination
    bool local = false;     // moves no data: a bind, or an invalidation
    bool xrc = false;       // names the SRQ whose receive it takes
};

inline constexpr std::uint32_t kSendOpcodes = 16;
struct SendOpcodeTable {
    SendOpcode of[kSendOpcodes];
};

inline constexpr SendOpcodeTable kRcSendOpcodes = [] {
    SendOpcodeTable table;
    const auto set = [&table](WrOpcode opcode, SendOpcode what) {
        table.of[static_cast<std::uint32_t>(opcode)] = what;
    };
    set(WrOpcode::kWrite, {true, false, true, false, true});
    set(WrOpcode::kWriteWithImm, {true, true, true, false, true});
    set(WrOpcode::kSend, {true, false, false, false, true});
    set(WrOpcode::kSendWithImm, {true, true, false, false, true});
    set(WrOpcode::kRead, {true, false, true, false, false});
    set(WrOpcode::kCompareSwap, {true, false, true, true, false});
    set(WrOpcode::kFetchAdd, {true, false, true, true, false});
    set(WrOpcode::kSendWithInvalidate, {true, true, false, false, true});
    set(WrOpcode::kLocalInvalidate, {.offered = true, .immediate_or_key = true, .local = true});
    set(WrOpcode::kBindMw, {.offered = true, .local = true});
    set(WrOpcode::kAtomicWrite, {true, false, true, false, true});
    return table;
}();

inline constexpr SendOpcodeTable kUcSendOpcodes = [] {
    SendOpcodeTable table;
    for (const WrOpcode opcode : {WrOpcode::kWrite, WrOpcode::kWriteWithImm, WrOpcode::kSend,
                                  WrOpcode::kSendWithImm, WrOpcode::kLocalInvalidate, WrOpcode::kBindMw}) {
        table.of[static_cast<std::uint32_t>(opcode)] = kRcSendOpcodes.of[static_cast<std::uint32_t>(opcode)];
    }
    return table;
}();

inline constexpr SendOpcodeTable kUdSendOpcodes = [] {
    SendOpcodeTable table;
    for (const WrOpcode opcode : {WrOpcode::kSend, WrOpcode::kSendWithImm}) {
        SendOpcode& what = table.of[static_cast<std::uint32_t>(opcode)];
        what = kRcSendOpcodes.of[static_cast<std::uint32_t>(opcode)];
        what.datagram = true;
    }
    return table;
}();

inline constexpr SendOpcodeTable kXrcSendOpcodes = [] {
    SendOpcodeTable table = kRcSendOpcodes;
    for (SendOpcode& what : table.of) {
        what.xrc = !what.local;
    }
    return table;
}();

/// The table of a QP type; nullptr: it sends nothing.
constexpr const SendOpcode* send_opcodes_of(QpType type) {
    switch (type) {
        case QpType::kRc:
            return kRcSendOpcodes.of;
        case QpType::kUc:
            return kUcSendOpcodes.of;
        case QpType::kUd:
            return kUdSendOpcodes.of;
        case QpType::kXrcSend:
            return kXrcSendOpcodes.of;
        default:
            return nullptr;
    }
}

}  // namespace urnic::provider
