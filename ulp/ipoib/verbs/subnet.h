/// The InfiniBand side of a link: its subnet administrator, what was asked of it, the broadcast group.
#pragma once

#include <cstdint>
#include <vector>

#include "ulp/ipoib/codec/multicast.h"
#include "ulp/ipoib/engine/subnet_client.h"
#include "ulp/ipoib/verbs/addressing.h"
#include "ulp/ipoib/verbs/umad_port.h"

namespace urnic::ipoib {

class Subnet {
  public:
    /// Joins the broadcast group, which says what the link is like (RFC 4391, section 5); tries for ten
    /// seconds. The port outlives it. Throws SetupError.
    Subnet(const RdmaPort& port, const LinkScope& scope);
    /// Leaves all groups, and waits until the administrator knows it, not long.
    ~Subnet();
    Subnet(const Subnet&) = delete;
    Subnet& operator=(const Subnet&) = delete;

    [[nodiscard]] const GroupRecord& broadcast() const { return broadcast_; }
    /// Octets of an IP packet by datagrams.
    [[nodiscard]] std::uint32_t mtu() const;
    [[nodiscard]] Addressing& addressing() { return addressing_; }
    [[nodiscard]] const SubnetCounters& counters() const { return client_.counters(); }
    /// Readable when there are answers.
    [[nodiscard]] int fd() const { return umad_.fd(); }
    /// Takes answers if there are some. Returns the groups and destinations that are pending no longer.
    [[nodiscard]] std::vector<Gid> take(bool has_answers);
    /// After an event of the port that has the subnet changed.
    void forget() { client_.forget(); }
    /// Throws SetupError if the broadcast group, which was joined again, is another one.
    void check_broadcast() const;
    /// Groups that were only sent to, and are to be asked for again.
    [[nodiscard]] std::vector<Gid> expire_senders() { return client_.expire_senders(); }

  private:
    void join_broadcast();

    const RdmaPort& port_;
    Gid broadcast_gid_;
    UmadPort umad_;
    SubnetClient client_;
    SubnetAddressing addressing_;
    GroupRecord broadcast_;
};

/// Returns whether after that event nothing is so that the subnet administrator has answered.
[[nodiscard]] bool is_subnet_change(const ibv_async_event& event, const RdmaPort& port);

}  // namespace urnic::ipoib
