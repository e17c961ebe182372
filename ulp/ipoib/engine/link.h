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
#include <span>
#include <vector>

#include "ulp/ipoib/codec/frame.h"
#include "ulp/ipoib/codec/multicast.h"
#include "ulp/ipoib/codec/translation.h"
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
    std::uint64_t tx_no_handle = 0;
    std::uint64_t tx_other_type = 0;  ///< neither IP nor ARP, or an address that is no group of IP
    std::uint64_t tx_malformed = 0;
    std::uint64_t rx_too_short = 0;
    std::uint64_t rx_too_long = 0;
    std::uint64_t rx_own = 0;        ///< sent by this QP
    std::uint64_t rx_no_source = 0;  ///< neither GRH nor IPv4 header
    std::uint64_t rx_other_type = 0;
    std::uint64_t rx_malformed = 0;  ///< ARP or neighbour discovery
    std::uint64_t joins_failed = 0;
};

class Link : private AddressMap {
  public:
    Link(const LinkConfig& config, Outbox& outbox);
    ~Link() override;

    /// Joins the broadcast group; the link is up when that is true (section 5: every interface is FullMember
    /// of it).
    [[nodiscard]] bool join_broadcast();
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
    /// The IP groups that the TAP device's kernel is a member of: joins and leaves what differs.
    void set_memberships(std::span<const std::uint32_t> ipv4, std::span<const Ipv6Address> ipv6);

    [[nodiscard]] const LinkCounters& counters() const { return counters_; }
    [[nodiscard]] std::size_t neighbours() const { return neighbours_.size(); }
    [[nodiscard]] std::size_t groups() const { return groups_.size(); }

  private:
    [[nodiscard]] bool to_link(const Mac& mac, LinkAddress& out) override;
    [[nodiscard]] bool to_mac(const LinkAddress& address, Mac& out) override;
    /// Where a frame goes; none: counted.
    [[nodiscard]] Neighbour* destination_of(const Mac& mac, std::uint16_t type, ConstOctets payload);
    /// The payload as it travels, translated into `scratch_` if it has to be; empty: counted.
    [[nodiscard]] ConstOctets outgoing(std::uint16_t type, ConstOctets payload);
    [[nodiscard]] ConstOctets incoming(std::uint16_t type, ConstOctets payload);
    /// The entry with its handle; nullptr: there is no handle, which is counted.
    [[nodiscard]] Neighbour* with_handle(const LinkAddress& address);
    void count_sent(const LinkAddress& address, std::size_t octets);
    void count_failure(Translation result, bool is_outgoing);

    LinkConfig config_;
    Outbox& outbox_;
    NeighbourTable neighbours_;
    std::vector<Gid> groups_;  // joined, without the broadcast group; sorted
    bool has_joined_broadcast_ = false;
    LinkCounters counters_;
    Segmenter segmenter_;
    /// Where the segments go that wait.
    LinkAddress segments_to_;
    /// A translated message: no longer than the largest MTU.
    std::array<std::byte, 65536> scratch_{};
};

}  // namespace urnic::ipoib
