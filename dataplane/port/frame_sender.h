// Which QP of this daemon made a frame that never left it.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

namespace urnic::dataplane {

// The header of a connected QP's packet does not name the QP that sends it (IBA 9.2): whoever knows the
// number of a QP and its PSN can speak for that QP's peer. Where we are both ends, nobody can. The mark is
// where a NIC puts that of a flow rule (rte_flow's MARK action); a driver that receives a frame clears it,
// one that sends ignores it.

inline void set_sender(rte_mbuf& frame, std::uint32_t qp_num) {
    frame.ol_flags |= RTE_MBUF_F_RX_FDIR_ID;
    frame.hash.fdir.hi = qp_num;
}

/// Returns whether that QP may have sent it: frames from a wire do not say.
[[nodiscard]] inline bool may_be_from(const rte_mbuf& frame, std::uint32_t qp_num) {
    return (frame.ol_flags & RTE_MBUF_F_RX_FDIR_ID) == 0 || frame.hash.fdir.hi == qp_num;
}

/// A copy has the sender of the original.
inline void copy_sender(const rte_mbuf& from, rte_mbuf& to) {
    if ((from.ol_flags & RTE_MBUF_F_RX_FDIR_ID) != 0) {
        set_sender(to, from.hash.fdir.hi);
    }
}

}  // namespace urnic::dataplane
