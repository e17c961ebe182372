#include "rnic/subnet/key_violation.h"

#include "rnic/wire/opcodes.h"

namespace urnic::subnet {

KeyViolation key_violation_of(std::uint16_t trap_number, const wire::PacketView& packet) {
    const wire::PacketHeader& header = packet.header;
    const bool has_deth = (wire::opcode_info(header.opcode).headers & wire::kHasDeth) != 0;
    KeyViolation violation;
    violation.trap_number = trap_number;
    violation.details.lid_addr1 = packet.slid;
    violation.details.lid_addr2 = packet.dlid;
    violation.details.key = trap_number == wire::mad::kBadQkeyTrap ? header.deth.qkey : header.pkey;
    violation.details.sl = packet.sl;
    violation.details.qp1 = has_deth ? header.deth.src_qp : 0;
    violation.details.qp2 = header.dest_qp;
    if (packet.has_grh) {
        violation.details.gid_addr1 = packet.src_gid;
        violation.details.gid_addr2 = packet.dst_gid;
    }
    return violation;
}

}  // namespace urnic::subnet
