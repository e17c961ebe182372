// One port of InfiniBand, of a switch or of a host: its state, the queues and credits of its virtual lanes in
// both directions, and the choice of what it sends next.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/fraction.h"
#include "netsim/infiniband/credits.h"
#include "netsim/infiniband/ib_packet.h"
#include "netsim/infiniband/vl_arbiter.h"

namespace urnic::netsim {

/// PortInfo.PortState (IBA 14.2.5.6).
enum class IbPortState : std::uint8_t { kDown = 1, kInit = 2, kArmed = 3, kActive = 4 };

/// PortInfo as far as a link feels it; for a subnet management agent to read and to write.
struct IbPortInfo {
    std::uint16_t neighbour_mtu_bytes = 4096;  // NeighborMTU: longer packets are not sent
    std::uint16_t mtu_cap_bytes = 4096;        // MTUCap: longer packets are not received
    std::uint8_t vl_cap = 8;                   // data VLs that there are: 1, 2, 4, 8 or 15
    std::uint8_t operational_vls = 8;          // OperVLs: those in use, from VL 0 on
    /// HOQLife: a packet that waits longer than 4.096 us * 2^n at the head of its queue is discarded; above
    /// 19: never.
    std::uint8_t hoq_life = 18;
    /// VLStallCount: after so many of these in a row the VL takes no packets for 8 times that long; 0: never.
    std::uint8_t vl_stall_count = 7;
    bool enforces_pkey_in = false;   // PartitionEnforcementInbound
    bool enforces_pkey_out = false;  // PartitionEnforcementOutbound
};

/// As the performance agent counts (IBA 16.1.3.5), but in 64 bits and without an end. Data are words of four
/// octets from the LRH to the ICRC.
struct IbPortCounters {
    std::uint64_t xmit_data = 0;
    std::uint64_t rcv_data = 0;
    std::uint64_t xmit_packets = 0;
    std::uint64_t rcv_packets = 0;
    std::uint64_t xmit_multicast_packets = 0;  // of these
    std::uint64_t rcv_multicast_packets = 0;
    std::uint64_t rcv_errors = 0;  // longer than the MTU, or sent without credit
    std::uint64_t rcv_switch_relay_errors =
        0;  // no port for the DLID, no VL for the SL, or back where it came from
    std::uint64_t rcv_constraint_errors = 0;   // P_Key
    std::uint64_t xmit_constraint_errors = 0;  // P_Key
    std::uint64_t xmit_discards =
        0;  // port not active, longer than NeighborMTU, lifetimes of all kinds, VL stalled
    std::uint64_t vl15_dropped = 0;
    TimeNs xmit_wait_ns = 0;  // with packets to send, and no credit for any of them
    std::uint64_t link_downed = 0;
};

/// Time of a lifetime of PortInfo or SwitchInfo; kNever: there is no limit.
[[nodiscard]] constexpr TimeNs ib_lifetime_ns(std::uint8_t value) {
    return value > 19 ? kNever : TimeNs{4'096} << value;
}

/// Returns whether P_Keys match (IBA 10.9.3): equal in 15 bits, and one of them a full member's.
[[nodiscard]] constexpr bool pkeys_match(std::uint16_t a, std::uint16_t b) {
    return ((a ^ b) & 0x7fffU) == 0 && ((a | b) & 0x8000U) != 0;
}

class IbPort {
  public:
    struct Options {
        BitsPerSecond rate = 0;                          // not 0
        std::uint32_t vl_buffer_blocks = 1024;           // of each data VL, for what comes
        std::uint32_t management_buffer_bytes = 65'536;  // of VL 15, for what waits to be sent
        IbPortInfo info;
    };
    explicit IbPort(const Options& options);

    // --- What a subnet manager sees and sets. Who sets something asks for deadline() again.
    [[nodiscard]] const IbPortInfo& info() const { return info_; }
    /// There is one VL at least, and operational_vls are not more than vl_cap: other values are cut.
    void set_info(const IbPortInfo& info);
    [[nodiscard]] VlArbiter& arbiter() { return arbiter_; }
    [[nodiscard]] const VlArbiter& arbiter() const { return arbiter_; }
    [[nodiscard]] std::vector<std::uint16_t>& pkeys() { return pkeys_; }  // of the enforcement
    [[nodiscard]] const std::vector<std::uint16_t>& pkeys() const { return pkeys_; }
    [[nodiscard]] IbPortState state() const { return state_; }
    [[nodiscard]] IbPortCounters& counters() { return counters_; }
    [[nodiscard]] const IbPortCounters& counters() const { return counters_; }
    /// IbPortCounters::xmit_wait_ns with the wait that has not ended yet.
    [[nodiscard]] TimeNs xmit_wait_ns(TimeNs now) const {
        return counters_.xmit_wait_ns + (waits_since_ < now ? now - waits_since_ : 0);
    }
    /// When the wait that counts there began, or will as things are; kNever: there is none.
    [[nodiscard]] TimeNs waits_since() const { return waits_since_; }
    /// PortInfo.PortState as a manager sets it: Init to Armed, Armed to Active (IBA 14.2.5.6). Returns false
    /// for any other step. (Down is train().)
    [[nodiscard]] bool set_state(IbPortState state);
    /// The link came up (Init, without credit in either direction), or went down. What waits is to be taken
    /// out by take_any() before.
    void train(bool up);
    [[nodiscard]] bool can_pass(std::uint8_t vl) const {
        return vl == kManagementVl ? state_ != IbPortState::kDown : state_ == IbPortState::kActive;
    }
    [[nodiscard]] bool has_pkey(std::uint16_t pkey) const;

    // --- What comes.
    /// Counts a packet that came whole and puts it into the buffer of its VL. Returns false if it is to be
    /// dropped; then it is in no buffer.
    [[nodiscard]] bool receive(const IbPacket& packet);
    /// The packet that came on this VL has left the buffer.
    void release(std::uint8_t vl, std::uint32_t bytes);
    /// The grant that is due on a data VL; none: none is.
    [[nodiscard]] std::optional<FlowControlPacket> grant(std::uint8_t vl);
    [[nodiscard]] bool grant_due(std::uint8_t vl) const;
    /// The first of a link that came up: all that the buffer holds.
    [[nodiscard]] FlowControlPacket initial_grant(std::uint8_t vl);
    void take(TimeNs now, const FlowControlPacket& packet);

    // --- What goes.
    /// Queues the packet on its VL. Returns false if it is to be dropped, which is counted.
    [[nodiscard]] bool push(TimeNs now, IbPacket& packet);
    /// Takes the packet that goes now and counts it; nullptr: the link is busy, or nothing may go. Its last
    /// bit is on the wire at busy_until().
    [[nodiscard]] IbPacket* pop(TimeNs now);
    /// Takes a packet that has waited for too long, or that the state does not let pass; nullptr: none has.
    /// Such packets are counted.
    [[nodiscard]] IbPacket* pop_expired(TimeNs now, TimeNs switch_life_ns);
    /// Takes any packet that waits, without counting it; nullptr: none does.
    [[nodiscard]] IbPacket* take_any();
    [[nodiscard]] TimeNs busy_until() const { return busy_until_; }
    /// The link is busy with something else for that many bytes.
    void occupy(TimeNs now, std::uint32_t bytes);
    /// When pop() or pop_expired() has something, as things are; kNever: never.
    [[nodiscard]] TimeNs deadline(TimeNs switch_life_ns) const;
    [[nodiscard]] std::uint64_t waiting_bytes(std::uint8_t vl) const { return lanes_[vl].waiting_bytes; }
    [[nodiscard]] std::uint64_t waiting_bytes() const { return waiting_bytes_; }
    /// The most that waited at once, on all VLs.
    [[nodiscard]] std::uint64_t most_waiting_bytes() const { return most_waiting_bytes_; }
    [[nodiscard]] std::uint32_t credits(std::uint8_t vl) const { return lanes_[vl].sender.available(); }
    /// Blocks in the receive buffer.
    [[nodiscard]] std::uint32_t buffered_blocks(std::uint8_t vl) const { return lanes_[vl].receiver.used(); }
    [[nodiscard]] BitsPerSecond rate() const { return rate_; }

  private:
    struct Lane {
        IbPacket* head = nullptr;
        IbPacket* tail = nullptr;
        std::uint64_t waiting_bytes = 0;
        CreditSender sender;
        CreditReceiver receiver;
        std::uint8_t expired_in_a_row = 0;
        TimeNs stalled_until = 0;
    };
    [[nodiscard]] bool can_go(std::uint8_t vl) const;
    [[nodiscard]] IbPacket& unlink(TimeNs now, std::uint8_t vl);
    [[nodiscard]] TimeNs expires_at(std::uint8_t vl, TimeNs switch_life_ns) const;
    void note_wait(TimeNs now);
    [[nodiscard]] std::uint32_t longest_blocks() const {
        return credit_blocks(info_.mtu_cap_bytes + kMostIbHeaderBytes);
    }

    IbPortInfo info_;
    IbPortState state_ = IbPortState::kDown;
    BitsPerSecond rate_;
    std::uint32_t management_buffer_bytes_;
    VlArbiter arbiter_;
    std::vector<std::uint16_t> pkeys_{0xffff};
    std::array<Lane, kVls> lanes_{};
    std::uint64_t waiting_bytes_ = 0;
    std::uint64_t most_waiting_bytes_ = 0;
    std::uint32_t waiting_vls_ = 0;  // bit n: VL n has packets to send
    TimeNs busy_until_ = 0;
    std::uint32_t part_ps_ = 0;    // of a nanosecond, that busy_until_ leaves out
    TimeNs waits_since_ = kNever;  // see IbPortCounters::xmit_wait_ns
    IbPortCounters counters_;
};

}  // namespace urnic::netsim
