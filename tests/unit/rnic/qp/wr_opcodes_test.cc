#include "rnic/qp/wr_opcodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "rnic/wire/opcodes.h"

namespace urnic {
namespace {

TEST(WrTable, RowsNameOpcodesOfTheRightPosition) {
    int valid = 0;
    for (int opcode = 0; opcode < 256; ++opcode) {
        const WrOpcodeInfo& row = rc_wr_opcode_info(static_cast<std::uint8_t>(opcode));
        if (!row.is(WrOpcodeInfo::kValid)) {
            continue;
        }
        ++valid;
        if (row.is(WrOpcodeInfo::kIsLocal)) {
            continue;
        }
        EXPECT_EQ(wire::opcode_info(row.only).flags & (wire::kStarts | wire::kEnds),
                  wire::kStarts | wire::kEnds);
        EXPECT_NE(wire::opcode_info(row.only).flags & wire::kIsRequest, 0);
        if (row.has_response()) {
            continue;
        }
        EXPECT_EQ(wire::opcode_info(row.first).flags & (wire::kStarts | wire::kEnds), wire::kStarts)
            << opcode;
        EXPECT_EQ(wire::opcode_info(row.middle).flags & (wire::kStarts | wire::kEnds), 0) << opcode;
        EXPECT_EQ(wire::opcode_info(row.last).flags & (wire::kStarts | wire::kEnds), wire::kEnds) << opcode;
        EXPECT_EQ(wire::opcode_info(row.last).headers & (wire::kHasImm | wire::kHasIeth),
                  wire::opcode_info(row.only).headers & (wire::kHasImm | wire::kHasIeth))
            << opcode;
    }
    EXPECT_EQ(valid, 12);
}

TEST(WrTable, TheUnreliableServicesOfferLess) {
    const auto is = [](int opcode, std::initializer_list<WrOpcode> list) {
        return std::any_of(list.begin(), list.end(),
                           [opcode](WrOpcode one) { return static_cast<int>(one) == opcode; });
    };
    for (int opcode = 0; opcode < 256; ++opcode) {
        const auto value = static_cast<std::uint8_t>(opcode);
        const bool send = is(opcode, {WrOpcode::kSend, WrOpcode::kSendWithImm});
        const bool write = is(opcode, {WrOpcode::kWrite, WrOpcode::kWriteWithImm});
        const bool local = is(opcode, {WrOpcode::kBindMw, WrOpcode::kLocalInvalidate});
        EXPECT_EQ(uc_wr_opcode_info(value).is(WrOpcodeInfo::kValid), send || write || local) << opcode;
        EXPECT_EQ(ud_wr_opcode_info(value).is(WrOpcodeInfo::kValid), send) << opcode;
        if (send || write) {
            EXPECT_EQ(uc_wr_opcode_info(value).only, rc_wr_opcode_info(value).only);
        }
    }
}

}  // namespace
}  // namespace urnic
