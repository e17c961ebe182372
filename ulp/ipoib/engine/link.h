/// One IPoIB link (RFC 4391): Ethernet frames of a TAP device to datagrams of a UD QP and back. Pure: effects
/// go to the outbox.
///
///     TAP frame  --on_frame()-->     ARP, ND translated; destination MAC or IP group to GID and QPN; cut to
///     the MTU
///     --send()-->     UD QP TAP device <--deliver()--      source address to MAC; ARP, ND translated
///     <--on_datagram()--  completion
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ulp/ipoib/codec/frame.h"
#include "ulp/ipoib/codec/multicast.h"
#include "ulp/ipoib/codec/translation.h"
#include "ulp/ipoib/engine/connections.h"
#include "ulp/ipoib/engine/neighbour_table.h"
#include "ulp/ipoib/engine/outbox.h"
#include "ulp/ipoib/engine/segmenter.h"

namespace urnic::ipoib {

struct LinkConfig {
    /// Of the UD QP and the port's GID.
    LinkAddress own;
    /// Of the TAP device.
    Mac own_mac{};
    LinkScope scope;
    /// Octets of an IP packet: path MTU - 4 (section 7).
    std::uint32_t mtu = kDefaultMtu;
    std::size_t max_neighbours = 4096;
    /// Groups that are joined at once, the broadcast group not counted.
    std::size_t max_groups = 1024;
    /// Of connected mode (RFC 4755); own, least_mtu and pkey are the link's.
    ConnectionConfig connections;
};

struct LinkCounters {
    std::uint64_t tx_packets = 0;
    std::uint64_t tx_octets = 0;
    std::uint64_t tx_multicast = 0;
    std::uint64_t rx_packets = 0;
    std::uint64_t rx_octets = 0;
    std::uint64_t rx_multicast = 0;
    std::uint64_t tx_segmented = 0;  ///< frames that were cut into several packets
    std::uint64_t tx_unknown_neighbour = 0;
    std::uint64_t tx_too_long = 0;
    std::uint64_t tx_no_slot = 0;
    std::uint64_t tx_no_handle = 0;   ///< or there was no way there, or too much waited for one
    std::uint64_t tx_other_type = 0;  ///< neither IP nor ARP, or an address that is no group of IP
    std::uint64_t tx_malformed = 0;
    std::uint64_t rx_too_short = 0;
    std::uint64_t rx_too_long = 0;
    std::uint64_t rx_own = 0;        ///< sent by this QP
    std::uint64_t rx_no_source = 0;  ///< neither GRH nor IPv4 header
    std::uint64_t rx_other_type = 0;
    std::uint64_t rx_malformed = 0;  ///< ARP or neighbour discovery
    std::uint64_t joins_failed = 0;
    // Connected mode.
    std::uint64_t tx_connected = 0;  ///< packets by connections
    std::uint64_t rx_connected = 0;
    std::uint64_t tx_too_big = 0;     ///< answered by an ICMP error with the MTU
    std::uint64_t tx_fragmented = 0;  ///< packets that were cut by IP for a peer that takes datagrams alone
    std::uint64_t tx_no_connection = 0;  ///< longer than a datagram, while there could be no connection
    std::uint64_t tx_held = 0;           ///< waited for a connection
};

class Link : private AddressMap, private CmSender {
  public:
    /// `rc`: for connected mode; none: datagrams alone.
    Link(const LinkConfig& config, Outbox& outbox, RcPort* rc = nullptr);
    ~Link() override;

    /// Joins the broadcast group; the link is up when that is true (section 5: every interface is FullMember
    /// of it).
    [[nodiscard]] bool join_broadcast();
    [[nodiscard]] bool is_up() const { return has_joined_broadcast_; }
    /// A group or a destination is pending no longer: packets that wait for it go, or are lost.
    void on_settled(const Gid& gid);
    /// The membership of a group that was only sent to is over: the next packet asks for the route.
    void forget_handle(const Gid& group);
    /// The subnet has changed: groups are to be joined again, by join_broadcast() and set_memberships(), and
    /// ways to neighbours to be found.
    void forget_subnet();
    /// A frame that the TAP device sends.
    void on_frame(ConstOctets frame);
    /// The same with its checksum still to be made, or in one piece that is still to be cut. Segments without
    /// a send slot wait for resume(), and until then the frame stays where it is; not to be called meanwhile.
    void on_frame(Octets frame, const Offload& offload);
    [[nodiscard]] bool has_waiting_segments() const { return !segmenter_.is_done(); }
    /// Sends segments that wait, as many as there are slots for.
    void resume();
    /// A datagram: 40 octets of GRH room and the payload, the QP that sent it.
    void on_datagram(ConstOctets grh, std::uint32_t source_qpn, ConstOctets payload);
    /// A message that an RC QP has received.
    void on_connected(std::uint32_t qpn, ConstOctets payload);
    /// A SEND of an RC QP is complete, or it is in error.
    void on_acknowledged(std::uint32_t qpn);
    void on_broken(std::uint32_t qpn);
    /// Time passes, in milliseconds.
    void advance(std::uint64_t now_ms);
    /// Of connected mode; nullptr: datagrams alone.
    [[nodiscard]] const Connections* connections() const { return connections_.get(); }
    /// The IP groups that the TAP device's kernel is a member of: joins and leaves what differs.
    void set_memberships(std::span<const std::uint32_t> ipv4, std::span<const Ipv6Address> ipv6);

    [[nodiscard]] const LinkCounters& counters() const { return counters_; }
    [[nodiscard]] std::size_t neighbours() const { return neighbours_.size(); }
    [[nodiscard]] std::uint64_t neighbour_evictions() const { return neighbours_.evictions(); }
    [[nodiscard]] std::size_t groups() const { return groups_.size(); }

  private:
    [[nodiscard]] bool to_link(const Mac& mac, LinkAddress& out) override;
    [[nodiscard]] bool to_mac(const LinkAddress& address, Mac& out) override;
    /// Where a frame goes; none: counted.
    [[nodiscard]] Neighbour* destination_of(const Mac& mac, std::uint16_t type, ConstOctets payload);
    /// The payload as it travels, translated into `scratch_` if it has to be; empty: counted.
    [[nodiscard]] ConstOctets outgoing(std::uint16_t type, ConstOctets payload);
    [[nodiscard]] ConstOctets incoming(std::uint16_t type, ConstOctets payload);
    /// The handle to an address, or kPendingHandle; 0: there is none, which is counted.
    [[nodiscard]] AddressHandle handle_of(const LinkAddress& address);
    /// Returns whether it was sent: it may wait for a handle, or be lost, which is counted.
    [[nodiscard]] bool send_or_wait(const LinkAddress& to, std::uint16_t type, ConstOctets packet);
    /// A packet whose destination is pending.
    void wait_for_handle(const LinkAddress& to, std::uint16_t type, ConstOctets packet);
    void count_sent(const LinkAddress& address, std::size_t octets);
    void leave(const Gid& group);
    /// To the TAP device: a packet of that neighbour.
    void deliver(const LinkAddress& source, std::uint16_t type, ConstOctets packet);
    /// An IP packet, whole and with its checksum, as one datagram.
    void send_datagram(const LinkAddress& to, std::uint16_t type, ConstOctets packet);
    void start_segments(const LinkAddress& to, std::uint32_t qpn, std::uint16_t type, ConstOctets packet,
                        const Offload& offload, std::size_t mtu);

    // Connected mode.
    void send_cm(const LinkAddress& to, const Mad& mad) override;
    /// An IP packet that a connection may take, or that is longer than a datagram. Returns whether it is
    /// either; else it goes as on any link.
    [[nodiscard]] bool take_connected(Octets frame, const Offload& offload);
    void send_connected(const LinkAddress& to, const Connections::PeerRoute& route, Octets frame,
                        const Offload& offload);
    /// A packet that is longer than `mtu`: TCP is cut, IP without DF fragmented, for others there is an
    /// error.
    void send_too_long(const LinkAddress& to, Octets frame, const Offload& offload, std::uint32_t mtu);
    void resume_connected();
    void hold(const LinkAddress& to, Octets frame, const Offload& offload);
    /// Sends what was held for peers that are pending no longer.
    void settle();
    void count_failure(Translation result, bool is_outgoing);

    LinkConfig config_;
    Outbox& outbox_;
    NeighbourTable neighbours_;
    std::vector<Gid> groups_;  // joined, without the broadcast group; sorted
    std::vector<Gid> joining_;
    bool has_joined_broadcast_ = false;
    LinkCounters counters_;
    Segmenter segmenter_;
    /// Where the segments go that wait, and by which RC QP; 0: by datagrams.
    LinkAddress segments_to_;
    std::uint32_t segments_qpn_ = 0;
    struct Held {
        LinkAddress to;
        std::vector<std::byte> frame;
    };
    std::vector<Held> held_;
    struct Waiting {
        LinkAddress to;
        std::uint16_t type;
        std::vector<std::byte> packet;
    };
    std::vector<Waiting> waiting_;  ///< for a handle
    RcPort* rc_;
    std::unique_ptr<Connections> connections_;
    /// A translated message: no longer than the largest MTU.
    std::array<std::byte, 65536> scratch_{};
};

}  // namespace urnic::ipoib
