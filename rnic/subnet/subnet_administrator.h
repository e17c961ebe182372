// A subnet administrator (IBA 15) for a subnet that no program manages: ClassPortInfo, NodeRecord,
// PortInfoRecord, PathRecord, MCMemberRecord. Pure; MADs go in and out.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <vector>

#include "base/time.h"
#include "rnic/subnet/endpoint.h"
#include "rnic/subnet/mad_packet.h"
#include "rnic/subnet/rmpp_transfer.h"
#include "rnic/subnet/sa_groups.h"

namespace urnic::subnet {

struct SubnetAdministratorCounters {
    std::uint64_t requests = 0;       // that were answered
    std::uint64_t errors = 0;         // of them with a status
    std::uint64_t drop_key = 0;       // an SM_Key that is neither 0 nor ours (IBA 15.2.4)
    std::uint64_t drop_pkey = 0;      // of a partition that the port is no member of
    std::uint64_t drop_repeated = 0;  // a request whose table is on its way
};

class SubnetAdministrator {
  public:
    /// Who names it sees members of groups and M_Keys: a trusted request (IBA 15.4.1.2).
    static constexpr std::uint64_t kSmKey = 1;
    /// Tables under way at once.
    static constexpr std::size_t kMaxTables = 64;
    /// Of one table: what a program that reads by umad can take at once.
    static constexpr std::size_t kMaxTableBytes = 192 * 1024 - 256;

    /// `home`: the node whose port has the LID of the subnet manager; one of `nodes`, which live longer.
    /// `send`: a MAD leaves by QP1 of that port.
    SubnetAdministrator(const Node& home, std::vector<const Node*> nodes,
                        std::function<void(const MadPacket&)> send);

    /// A MAD that came to QP1 of `home`. Returns whether it was for subnet administration, and has been done
    /// with.
    bool handle(const MadPacket& packet, TimeNs now);
    /// The port of a node has gone down: it is a member of nothing.
    void on_port_down(const Node& node) { groups_.forget(node.node_info.port_guid); }
    /// Sends again what is not acknowledged; tables whose reader is gone end.
    void advance(TimeNs now);
    [[nodiscard]] TimeNs next_event() const;

    [[nodiscard]] const SubnetAdministratorCounters& counters() const { return counters_; }
    [[nodiscard]] const SaGroups& groups() const { return groups_; }

  private:
    struct Request {
        std::uint8_t method = 0;
        std::uint16_t attribute_id = 0;
        std::uint32_t modifier = 0;
        std::uint64_t mask = 0;
        bool is_trusted = false;
        std::uint16_t slid = 0;
    };
    /// Records as they lie on the wire, one behind the other.
    using Records = std::vector<std::vector<std::byte>>;

    bool take_control(const MadPacket& packet, TimeNs now);
    void answer(MadPacket packet, TimeNs now);
    [[nodiscard]] std::uint16_t perform(const Request& request, const std::byte* data, Records& records);
    void add_class_port_info(Records& records) const;
    [[nodiscard]] std::uint16_t find_nodes(const Request& request, const std::byte* data,
                                           Records& records) const;
    [[nodiscard]] std::uint16_t find_ports(const Request& request, const std::byte* data,
                                           Records& records) const;
    [[nodiscard]] std::uint16_t find_paths(const Request& request, const std::byte* data,
                                           Records& records) const;
    [[nodiscard]] std::uint16_t find_members(const Request& request, const std::byte* data,
                                             Records& records) const;
    [[nodiscard]] std::uint16_t change_member(const Request& request, const std::byte* data,
                                              Records& records);
    void reply(MadPacket packet, std::uint16_t status, const Records& records);
    [[nodiscard]] std::uint16_t reply_with_table(const MadPacket& packet, const Records& records, TimeNs now);

    const Node& home_;
    std::vector<const Node*> nodes_;
    std::function<void(const MadPacket&)> send_;
    SaGroups groups_;
    std::list<RmppTransfer> tables_;
    SubnetAdministratorCounters counters_;
};

}  // namespace urnic::subnet
