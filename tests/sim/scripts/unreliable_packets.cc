// How work requests of UC and UD QPs become packets, to a peer that never answers (IBA 9.8.2, 9.8.3).
#include "rnic/wire/opcodes.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

constexpr std::uint32_t kWriteImm = 0x01020304;
constexpr std::uint32_t kSendImm = 0x05060708;

class UnreliablePackets : public RcScript {
  protected:
    [[nodiscard]] static ScriptPacket uc(ScriptPacket packet) {
        return packet.service(wire::kServiceUc).ackreq(false);
    }
    [[nodiscard]] static ScriptPacket ud(ScriptPacket packet) {
        return packet.service(wire::kServiceUd).ackreq(false).deth(kQkey, kQp);
    }
    // To the peer's QP. Addresses in front of the BTH are not looked at, so any handle is good.
    [[nodiscard]] SendRequest datagram(SendRequest request) {
        request.address_handle = host().address(host());
        request.remote_qp_num = kPeerQp;
        request.remote_qkey = kQkey;
        return request;
    }
};

RC_SCRIPT_IN(UnreliablePackets, UcOperations, "9.8.2",
             "UC: each operation in packets of the path MTU, which ask for no ACK; complete once sent") {
    connect({.mtu = 256, .psn_a = 0xfffffe}, {.type = QpType::kUc});
    post({write(1, 700), solicited(write_imm(2, 300, kWriteImm)), send_imm(3, 513, kSendImm), write(4, 0)});
    sends({uc(write_first(0xfffffe, 700, 256)), uc(write_middle(0xffffff, 256, 256)),
           uc(write_last(0, 188, 512)), uc(write_first(1, 300, 256)),
           uc(packet(wire::kWriteLastImm, 2, 44, 256).imm(kWriteImm).solicited()), uc(send_first(3, 256)),
           uc(send_middle(4, 256, 256)), uc(packet(wire::kSendLastImm, 5, 1, 512).imm(kSendImm)),
           uc(write_only(6, 0))});
    completes({ok(1), ok(2), ok(3), ok(4)});
}

RC_SCRIPT_IN(
    UnreliablePackets, UdOperations, "9.8.3",
    "UD: one packet a message, with Q_Key and source QP, which asks for no ACK; complete once sent") {
    connect({.psn_a = 0xffffff}, {.type = QpType::kUd});
    post({datagram(solicited(send_imm(7, 100, kSendImm))), datagram(send(8, 0))});
    sends({ud(packet(wire::kSendOnlyImm, 0xffffff, 100).imm(kSendImm).solicited()), ud(send_only(0, 0))});
    completes({ok(7), ok(8)});
}

}  // namespace
}  // namespace urnic::sim
