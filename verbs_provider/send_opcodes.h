// What each send opcode is, for RC.
#pragma once

#include "rnic/abi/verbs_values.h"

namespace urnic::provider {

struct SendOpcode {
    bool offered = false;
    bool immediate_or_key = false;  // carries immediate data, or a key to invalidate
    bool remote = false;            // names remote memory
    bool atomic = false;
    bool may_inline = false;
};

inline constexpr std::uint32_t kSendOpcodes = 16;
struct SendOpcodeTable {
    SendOpcode of[kSendOpcodes];
};
inline constexpr SendOpcodeTable kSendOpcodeTable = [] {
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
    return table;
}();

}  // namespace urnic::provider
