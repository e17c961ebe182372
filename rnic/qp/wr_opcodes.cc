#include "rnic/qp/wr_opcodes.h"

#include <initializer_list>

#include "rnic/wire/headers.h"

namespace urnic {

namespace {

constexpr std::array<WrRow, kWrRows> make_rc_rows() {
    using enum wire::Operation;
    std::array<WrRow, kWrRows> rows{};
    const auto row = [&rows](WrOpcode opcode) -> WrRow& { return rows[static_cast<std::size_t>(opcode)]; };
    constexpr auto kWrite = static_cast<std::uint16_t>(WrRow::kValid | WrRow::kHasRemoteAddress);
    constexpr auto kSend = static_cast<std::uint16_t>(WrRow::kValid | WrRow::kNeedsReceive);
    constexpr auto kWriteImm =
        static_cast<std::uint16_t>(kWrite | WrRow::kNeedsReceive | WrRow::kReceiveAtEnd);
    constexpr auto kRead = static_cast<std::uint16_t>(WrRow::kValid | WrRow::kIsRead);
    constexpr auto kAtomicWrites = static_cast<std::uint16_t>(WrRow::kValid | WrRow::kIsAtomicWrite);
    constexpr auto kAtomic = static_cast<std::uint16_t>(WrRow::kValid | WrRow::kIsAtomic);
    row(WrOpcode::kWrite) = {kWriteFirst, kWriteMiddle, kWriteLast, kWriteOnly, WcOpcode::kRdmaWrite, kWrite};
    row(WrOpcode::kWriteWithImm) = {kWriteFirst,   kWriteMiddle,         kWriteLastImm,
                                    kWriteOnlyImm, WcOpcode::kRdmaWrite, kWriteImm};
    row(WrOpcode::kSend) = {kSendFirst, kSendMiddle, kSendLast, kSendOnly, WcOpcode::kSend, kSend};
    row(WrOpcode::kSendWithImm) = {kSendFirst,   kSendMiddle,     kSendLastImm,
                                   kSendOnlyImm, WcOpcode::kSend, kSend};
    row(WrOpcode::kSendWithInvalidate) = {kSendFirst,          kSendMiddle,     kSendLastInvalidate,
                                          kSendOnlyInvalidate, WcOpcode::kSend, kSend};
    row(WrOpcode::kRead) = {kReadRequest, kReadRequest,        kReadRequest,
                            kReadRequest, WcOpcode::kRdmaRead, kRead};
    row(WrOpcode::kCompareSwap) = {kCompareSwap, kCompareSwap,        kCompareSwap,
                                   kCompareSwap, WcOpcode::kCompSwap, kAtomic};
    row(WrOpcode::kFetchAdd) = {kFetchAdd, kFetchAdd, kFetchAdd, kFetchAdd, WcOpcode::kFetchAdd, kAtomic};
    constexpr auto kLocal = static_cast<std::uint16_t>(WrRow::kValid | WrRow::kIsLocal);
    row(WrOpcode::kBindMw) = {0, 0, 0, 0, WcOpcode::kBindMw, kLocal};
    row(WrOpcode::kLocalInvalidate) = {0, 0, 0, 0, WcOpcode::kLocalInv, kLocal};
    row(WrOpcode::kFlush) = {kFlush,           kFlush,
                             kFlush,           kFlush,
                             WcOpcode::kFlush, static_cast<std::uint16_t>(WrRow::kValid | WrRow::kIsFlush)};
    row(WrOpcode::kAtomicWrite) = {kAtomicWrite, kAtomicWrite,           kAtomicWrite,
                                   kAtomicWrite, WcOpcode::kAtomicWrite, kAtomicWrites};
    return rows;
}

}  // namespace

constexpr std::array<WrRow, kWrRows> kRcWrRows = make_rc_rows();

namespace {

// IBA 9.8.2, 9.8.3: what each of the unreliable services offers of it.
constexpr std::array<WrRow, kWrRows> rows_of(std::initializer_list<WrOpcode> offered) {
    std::array<WrRow, kWrRows> rows{};
    for (const WrOpcode opcode : offered) {
        rows[static_cast<std::size_t>(opcode)] = kRcWrRows[static_cast<std::size_t>(opcode)];
    }
    return rows;
}
constexpr std::array<WrRow, kWrRows> kUcRows =
    rows_of({WrOpcode::kSend, WrOpcode::kSendWithImm, WrOpcode::kWrite, WrOpcode::kWriteWithImm,
             WrOpcode::kBindMw, WrOpcode::kLocalInvalidate});
constexpr std::array<WrRow, kWrRows> kUdRows = rows_of({WrOpcode::kSend, WrOpcode::kSendWithImm});

}  // namespace

const WrRow& uc_wr_row(std::uint8_t wr_opcode) {
    return wr_opcode < kWrRows ? kUcRows[wr_opcode] : kInvalidWrRow;
}
const WrRow& ud_wr_row(std::uint8_t wr_opcode) {
    return wr_opcode < kWrRows ? kUdRows[wr_opcode] : kInvalidWrRow;
}

}  // namespace urnic
