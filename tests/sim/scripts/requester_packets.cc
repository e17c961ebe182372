// How work requests become packets: opcodes, lengths, padding, PSNs, AckReq, what each header says.
#include <optional>

#include "rnic/qp/limits.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

class RequesterPackets : public RcScript {
  protected:
    // Lets a long message through; every stretch of it that the requester sends has to ask for an ACK, or the
    // window would stay closed. Returns the packets seen.
    std::uint32_t acknowledge_until(std::uint32_t last_psn) {
        std::uint32_t packets = 0;
        while (!seen().empty()) {
            std::optional<std::uint32_t> asked;
            std::uint32_t psn = 0;
            for (const SentPacket& packet : seen()) {
                const wire::PacketHeader header = frame_header(packet.frame);
                psn = header.psn.value();
                asked = header.ack_req ? psn : asked;
                ++packets;
            }
            seen().clear();
            if (!asked) {
                ADD_FAILURE() << "no AckReq in the stretch that ends with PSN " << psn;
                return packets;
            }
            if (psn == last_psn) {
                EXPECT_EQ(*asked, last_psn);
                return packets;
            }
            peer(ack(*asked, 0));
        }
        ADD_FAILURE() << "the requester went silent before PSN " << last_psn;
        return packets;
    }
};

RC_SCRIPT_IN(RequesterPackets, PadCount, "9.2",
             "PadCnt is what is missing to whole words, and so many bytes follow the payload") {
    connect();
    for (std::uint32_t length = 0; length <= 9; ++length) {
        const std::uint32_t psn = 1000 + length;
        post(send(length, length));
        ASSERT_EQ(seen().size(), 1U);
        const FrameBytes& frame = seen().front().frame;
        const std::uint32_t words = (length + 3) / 4;
        EXPECT_EQ(frame_header(frame).pad_count, 4 * words - length);
        EXPECT_EQ(frame.size(), 14U + 20 + 8 + 12 + 4 * words + 4);
        sends(send_only(psn, length));
        peer(ack(psn, length + 1));
        completes(ok(length));
    }
}

RC_SCRIPT_IN(
    RequesterPackets, AckReqOpensTheWindow, "9.7.3",
    "a message longer than the requester's window: each stretch asks for an ACK, so that it continues") {
    connect({.mtu = 256});
    post(write(1, kMemoryBytes));
    EXPECT_EQ(seen().size(), kMaxInFlightPackets);
    EXPECT_EQ(acknowledge_until(1000 + kMemoryBytes / 256 - 1), kMemoryBytes / 256);
    completes_nothing();
    peer(ack(1000 + kMemoryBytes / 256 - 1, 1));
    completes(ok(1));
}

RC_SCRIPT_IN(RequesterPackets, PkeyOfTheIndex, "11.2.5.2",
             "the P_Key at the QP's index; another one from the next packet on, when SQD changes the index") {
    connect({}, {.pkeys = {0xffff, 0x8123, 0x8124}, .pkey_index = 1});
    post(write(1, 8));
    sends(write_only(1000, 8).pkey(0x8123));
    peer(ack(1000, 1).pkey(0x8123));
    completes(ok(1));
    modify(QpState::kSqd);
    abi::QpAttr attr{};
    attr.mask = kQpAttrPkeyIndex;
    attr.pkey_index = 2;
    EXPECT_EQ(modify(attr), 0);
    modify(QpState::kRts);
    post(write(2, 8));
    sends(write_only(1001, 8).pkey(0x8124));
    peer(ack(1001, 2).pkey(0x8123));
    silence(1);
    peer(ack(1001, 2).pkey(0x8124));
    completes(ok(2));
}

RC_SCRIPT_IN(RequesterPackets, FreePkeyEntry, "11.2.5.2",
             "an index behind the last P_Key, or of a free entry, is refused; the QP keeps what it has") {
    connect({}, {.pkeys = {0x8123}});
    modify(QpState::kSqd);
    for (const std::uint16_t index : {1, 127, 128, 0xffff}) {
        abi::QpAttr attr{};
        attr.mask = kQpAttrPkeyIndex;
        attr.pkey_index = index;
        EXPECT_EQ(modify(attr), EINVAL) << index;
    }
    modify(QpState::kRts);
    post(write(1, 8));
    sends(write_only(1000, 8).pkey(0x8123));
}

}  // namespace
}  // namespace urnic::sim
