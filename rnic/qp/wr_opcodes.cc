#include "rnic/qp/wr_opcodes.h"

#include <initializer_list>

#include "rnic/wire/headers.h"

namespace urnic {

namespace {

constexpr std::array<WrOpcodeInfo, kNumWrOpcodes> make_rc_table() {
    using enum wire::Operation;
    std::array<WrOpcodeInfo, kNumWrOpcodes> table{};
    const auto entry = [&table](WrOpcode opcode) -> WrOpcodeInfo& {
        return table[static_cast<std::size_t>(opcode)];
    };
    constexpr auto kWrite =
        static_cast<std::uint16_t>(WrOpcodeInfo::kValid | WrOpcodeInfo::kHasRemoteAddress);
    constexpr auto kSend = static_cast<std::uint16_t>(WrOpcodeInfo::kValid | WrOpcodeInfo::kNeedsReceive);
    constexpr auto kWriteImm =
        static_cast<std::uint16_t>(kWrite | WrOpcodeInfo::kNeedsReceive | WrOpcodeInfo::kReceiveAtEnd);
    constexpr auto kRead = static_cast<std::uint16_t>(WrOpcodeInfo::kValid | WrOpcodeInfo::kIsRead);
    constexpr auto kAtomicWrites =
        static_cast<std::uint16_t>(WrOpcodeInfo::kValid | WrOpcodeInfo::kIsAtomicWrite);
    constexpr auto kAtomic = static_cast<std::uint16_t>(WrOpcodeInfo::kValid | WrOpcodeInfo::kIsAtomic);
    entry(WrOpcode::kWrite) = {kWriteFirst, kWriteMiddle,         kWriteLast,
                               kWriteOnly,  WcOpcode::kRdmaWrite, kWrite};
    entry(WrOpcode::kWriteWithImm) = {kWriteFirst,   kWriteMiddle,         kWriteLastImm,
                                      kWriteOnlyImm, WcOpcode::kRdmaWrite, kWriteImm};
    entry(WrOpcode::kSend) = {kSendFirst, kSendMiddle, kSendLast, kSendOnly, WcOpcode::kSend, kSend};
    entry(WrOpcode::kSendWithImm) = {kSendFirst,   kSendMiddle,     kSendLastImm,
                                     kSendOnlyImm, WcOpcode::kSend, kSend};
    entry(WrOpcode::kSendWithInvalidate) = {kSendFirst,          kSendMiddle,     kSendLastInvalidate,
                                            kSendOnlyInvalidate, WcOpcode::kSend, kSend};
    entry(WrOpcode::kRead) = {kReadRequest, kReadRequest,        kReadRequest,
                              kReadRequest, WcOpcode::kRdmaRead, kRead};
    entry(WrOpcode::kCompareSwap) = {kCompareSwap, kCompareSwap,        kCompareSwap,
                                     kCompareSwap, WcOpcode::kCompSwap, kAtomic};
    entry(WrOpcode::kFetchAdd) = {kFetchAdd, kFetchAdd, kFetchAdd, kFetchAdd, WcOpcode::kFetchAdd, kAtomic};
    constexpr auto kLocal = static_cast<std::uint16_t>(WrOpcodeInfo::kValid | WrOpcodeInfo::kIsLocal);
    entry(WrOpcode::kBindMw) = {0, 0, 0, 0, WcOpcode::kBindMw, kLocal};
    entry(WrOpcode::kLocalInvalidate) = {0, 0, 0, 0, WcOpcode::kLocalInv, kLocal};
    entry(WrOpcode::kFlush) = {
        kFlush, kFlush,           kFlush,
        kFlush, WcOpcode::kFlush, static_cast<std::uint16_t>(WrOpcodeInfo::kValid | WrOpcodeInfo::kIsFlush)};
    entry(WrOpcode::kAtomicWrite) = {kAtomicWrite, kAtomicWrite,           kAtomicWrite,
                                     kAtomicWrite, WcOpcode::kAtomicWrite, kAtomicWrites};
    return table;
}

}  // namespace

constexpr std::array<WrOpcodeInfo, kNumWrOpcodes> kRcWrOpcodes = make_rc_table();

namespace {

// IBA 9.8.2, 9.8.3: what each of the unreliable services offers of it.
constexpr std::array<WrOpcodeInfo, kNumWrOpcodes> table_of(std::initializer_list<WrOpcode> offered) {
    std::array<WrOpcodeInfo, kNumWrOpcodes> table{};
    for (const WrOpcode opcode : offered) {
        table[static_cast<std::size_t>(opcode)] = kRcWrOpcodes[static_cast<std::size_t>(opcode)];
    }
    return table;
}
constexpr std::array<WrOpcodeInfo, kNumWrOpcodes> kUcWrOpcodes =
    table_of({WrOpcode::kSend, WrOpcode::kSendWithImm, WrOpcode::kWrite, WrOpcode::kWriteWithImm,
              WrOpcode::kBindMw, WrOpcode::kLocalInvalidate});
constexpr std::array<WrOpcodeInfo, kNumWrOpcodes> kUdWrOpcodes =
    table_of({WrOpcode::kSend, WrOpcode::kSendWithImm});

}  // namespace

const WrOpcodeInfo& uc_wr_opcode_info(std::uint8_t wr_opcode) {
    return wr_opcode < kNumWrOpcodes ? kUcWrOpcodes[wr_opcode] : kInvalidWrOpcode;
}
const WrOpcodeInfo& ud_wr_opcode_info(std::uint8_t wr_opcode) {
    return wr_opcode < kNumWrOpcodes ? kUdWrOpcodes[wr_opcode] : kInvalidWrOpcode;
}

}  // namespace urnic
