#include "rnic/device/gsi.h"

#include <algorithm>

namespace urnic {

bool take_mad(const wire::PacketView& packet, const PkeyTable& pkeys, Counters& counters, ReceivedMad& mad) {
    const wire::PacketHeader& header = packet.header;
    if (header.opcode != (std::uint8_t{wire::kServiceUd} | std::uint8_t{wire::kSendOnly})) {
        ++counters.drop_opcode;
        return false;
    }
    const std::optional<std::uint16_t> pkey = pkeys.match(header.pkey);
    if (!pkey) {
        ++counters.drop_pkey;
        return false;
    }
    if (header.deth.qkey != kGsiQkey) {
        ++counters.drop_qkey;
        return false;
    }
    if (packet.payload.size() != kMadBytes) {
        ++counters.drop_malformed;
        return false;
    }
    mad.src_gid = packet.src_gid;
    mad.dst_gid = packet.dst_gid;
    mad.src_mac = packet.src_mac;
    mad.pkey = *pkey;
    mad.src_qp = header.deth.src_qp;
    std::copy(packet.payload.begin(), packet.payload.end(), mad.bytes.begin());
    return true;
}

}  // namespace urnic
