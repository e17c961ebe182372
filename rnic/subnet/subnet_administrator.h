// A subnet administrator (IBA 15) for a subnet that no program manages: ClassPortInfo, NodeRecord,
// PortInfoRecord, SMInfoRecord, PathRecord, MCMemberRecord, InformInfo and the reports that it asks for; and
// of the manager its SMInfo, and what becomes of traps. Pure; MADs go in and out.
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
#include "rnic/subnet/sa_subscriptions.h"
#include "rnic/subnet/sm_handover.h"

namespace urnic::subnet {

struct SubnetAdministratorCounters {
    std::uint64_t requests = 0;       // that were answered
    std::uint64_t errors = 0;         // of them with a status
    std::uint64_t drop_key = 0;       // an SM_Key that is neither 0 nor ours (IBA 15.2.4)
    std::uint64_t drop_pkey = 0;      // of a partition that the port is no member of
    std::uint64_t drop_repeated = 0;  // a request whose table is on its way
    std::uint64_t traps = 0;          // of nodes, that were repressed and reported
    std::uint64_t drop_trap = 0;      // of nobody, or of what its sender is not
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
    /// `send`: a MAD leaves by QP0 or QP1 of that port. `succession`: what becomes of the subnet when a
    /// program manages one, too.
    enum class Succession : std::uint8_t { kStaysMaster, kHandsOver };
    SubnetAdministrator(const Node& home, std::vector<const Node*> nodes,
                        std::function<void(const MadPacket&)> send,
                        Succession succession = Succession::kStaysMaster);

    /// A MAD that came to QP1 of `home`, or one for its subnet manager to QP0. Returns whether it was for us,
    /// and has been done with.
    bool handle(const MadPacket& packet, TimeNs now);
    /// The port of a node has gone down: it is a member of nothing and subscribed to nothing.
    void on_port_down(const Node& node, TimeNs now);
    /// It is active again.
    void on_port_up(const Node& node, TimeNs now);
    /// A program at the port of `home` is a subnet manager, or is no longer: it has the subnet there.
    void set_program(bool has_program) { has_program_ = has_program; }
    /// Sends again what is not acknowledged; tables whose reader is dead end, and so do subscriptions. Looks
    /// for other managers.
    void advance(TimeNs now);
    [[nodiscard]] TimeNs next_event() const;

    [[nodiscard]] const SubnetAdministratorCounters& counters() const { return counters_; }
    [[nodiscard]] const SaGroups& groups() const { return groups_; }
    [[nodiscard]] const SaSubscriptions& subscriptions() const { return subscriptions_; }

  private:
    struct Request {
        std::uint8_t method = 0;
        std::uint16_t attribute_id = 0;
        std::uint32_t modifier = 0;
        std::uint64_t mask = 0;
        bool is_trusted = false;
        SaAddress from;
        std::uint32_t src_qp = 0;
    };
    /// Records as they lie on the wire, one behind the other.
    using Records = std::vector<std::vector<std::byte>>;

    bool handle_smp(const MadPacket& packet, TimeNs now);
    bool answer_manager(MadPacket packet);
    bool take_trap(const MadPacket& packet, TimeNs now);
    [[nodiscard]] bool is_in_charge() const;
    [[nodiscard]] wire::mad::SmInfo sm_info() const;
    [[nodiscard]] std::vector<std::uint16_t> other_managers() const;
    bool take_control(const MadPacket& packet, TimeNs now);
    void answer(MadPacket packet, TimeNs now);
    [[nodiscard]] std::uint16_t perform(const Request& request, const std::byte* data, Records& records);
    void add_class_port_info(Records& records) const;
    [[nodiscard]] std::uint16_t find_nodes(const Request& request, const std::byte* data,
                                           Records& records) const;
    [[nodiscard]] std::uint16_t find_ports(const Request& request, const std::byte* data,
                                           Records& records) const;
    [[nodiscard]] std::uint16_t find_managers(const Request& request, const std::byte* data,
                                              Records& records) const;
    [[nodiscard]] std::uint16_t find_paths(const Request& request, const std::byte* data,
                                           Records& records) const;
    [[nodiscard]] std::uint16_t find_members(const Request& request, const std::byte* data,
                                             Records& records) const;
    [[nodiscard]] std::uint16_t change_member(const Request& request, const std::byte* data,
                                              Records& records);
    [[nodiscard]] std::uint16_t subscribe(const Request& request, const std::byte* data, Records& records);
    [[nodiscard]] std::uint16_t find_subscriptions(const Request& request, const std::byte* data,
                                                   Records& records) const;
    void report_groups(TimeNs now);
    using MayHear = std::function<bool(const Endpoint& subscriber)>;
    /// To subscribers whose port `may_hear` of it: a trap of the manager's own.
    void report(std::uint16_t trap_number, const wire::Gid& gid, const MayHear& may_hear, TimeNs now);
    void report(const wire::mad::Notice& notice, const wire::Gid& issuer, const MayHear& may_hear,
                TimeNs now);
    void reply(MadPacket packet, std::uint16_t status, const Records& records);
    [[nodiscard]] std::uint16_t reply_with_table(const MadPacket& packet, const Records& records, TimeNs now);

    const Node& home_;
    std::vector<const Node*> nodes_;
    std::function<void(const MadPacket&)> send_;
    Succession succession_;
    bool has_program_ = false;
    SmHandover handover_;
    SaGroups groups_;
    SaSubscriptions subscriptions_;
    std::list<RmppTransfer> tables_;
    SubnetAdministratorCounters counters_;
    std::uint32_t act_count_ = 0;  // SMInfo:ActCount
};

}  // namespace urnic::subnet
