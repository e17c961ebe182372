// What each send opcode is, and which of them a QP type offers (IBA 9.7, 9.8.2, 9.8.3).
#pragma once

#include <initializer_list>

#include "abi/verbs_values.h"

namespace urnic::provider {

struct SendOpcode {
    bool is_offered = false;
    bool has_immediate_or_key = false;  // carries immediate data, or a key to invalidate
    bool is_remote = false;             // names remote memory
    bool is_atomic = false;
    bool can_inline = false;
    bool is_datagram = false;  // names its destination
    bool is_local = false;     // moves no data: a bind, or an invalidation
    bool is_xrc = false;       // names the SRQ whose receive it consumes
};

inline constexpr std::uint32_t kSendOpcodes = 16;
struct SendOpcodeTable {
    SendOpcode of[kSendOpcodes];
};

inline constexpr SendOpcodeTable kRcSendOpcodes = [] {
    SendOpcodeTable table;
    const auto set = [&table](WrOpcode opcode, SendOpcode what) {
        what.is_offered = true;
        table.of[static_cast<std::uint32_t>(opcode)] = what;
    };
    set(WrOpcode::kWrite, {.is_remote = true, .can_inline = true});
    set(WrOpcode::kWriteWithImm, {.has_immediate_or_key = true, .is_remote = true, .can_inline = true});
    set(WrOpcode::kSend, {.can_inline = true});
    set(WrOpcode::kSendWithImm, {.has_immediate_or_key = true, .can_inline = true});
    set(WrOpcode::kRead, {.is_remote = true});
    set(WrOpcode::kCompareSwap, {.is_remote = true, .is_atomic = true});
    set(WrOpcode::kFetchAdd, {.is_remote = true, .is_atomic = true});
    set(WrOpcode::kSendWithInvalidate, {.has_immediate_or_key = true, .can_inline = true});
    set(WrOpcode::kLocalInvalidate, {.has_immediate_or_key = true, .is_local = true});
    set(WrOpcode::kBindMw, {.is_local = true});
    set(WrOpcode::kAtomicWrite, {.is_remote = true, .can_inline = true});
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
        what.is_datagram = true;
    }
    return table;
}();

inline constexpr SendOpcodeTable kXrcSendOpcodes = [] {
    SendOpcodeTable table = kRcSendOpcodes;
    for (SendOpcode& what : table.of) {
        what.is_xrc = !what.is_local;
    }
    return table;
}();

/// The table of a QP type; nullptr if it sends nothing.
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
