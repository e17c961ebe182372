// What a host does for its groups (RFC 3376 5, RFC 3810 6): reports them when it becomes a member, when it is
// asked, and when it leaves. Pure: time is an argument, frames go to the outbox. Where a querier of IGMPv2 or
// MLDv1 was heard, it speaks these (RFC 3376 7.2, RFC 3810 8.2).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "rnic/neighbour/membership_message.h"

namespace urnic::net {

class ReportOutbox {
  public:
    virtual ~ReportOutbox() = default;
    ReportOutbox() = default;
    ReportOutbox(const ReportOutbox&) = delete;
    ReportOutbox& operator=(const ReportOutbox&) = delete;
    virtual void send_report(std::span<const std::byte> frame) = 0;
};

class MembershipReporter {
  public:
    /// `seed`: of the delays before answers, which are random so that hosts do not answer at once.
    explicit MembershipReporter(std::uint64_t seed) : random_(seed) {}

    /// One for each VLAN.
    void set_sources(std::vector<MembershipSource> sources) { sources_ = std::move(sources); }
    /// The groups that have members now.
    void set_groups(std::span<const wire::Gid> groups, TimeNs now, ReportOutbox& outbox);
    void receive(const MembershipQuery& query, TimeNs now);
    void advance(TimeNs now, ReportOutbox& outbox);
    /// When advance() has something to do; kNever: not before a call above.
    [[nodiscard]] TimeNs next_event() const;

  private:
    struct Group {
        bool is_member = true;
        unsigned changes = 0;       // reports of the change that are still to be sent
        TimeNs change_at = kNever;  // the next of them
        TimeNs answer_at = kNever;  // of a query
    };
    enum Family : std::uint8_t { kIpv4, kIpv6, kFamilies };
    [[nodiscard]] static Family family_of(const wire::Gid& group) { return group[0] == 0xff ? kIpv6 : kIpv4; }
    /// From now on, at most so long.
    [[nodiscard]] TimeNs within(TimeNs most);
    void send(std::span<const MembershipRecord> records, TimeNs now, ReportOutbox& outbox) const;
    void report_changes(TimeNs now, ReportOutbox& outbox);
    void answer(TimeNs now, ReportOutbox& outbox);

    std::uint64_t random_;
    std::vector<MembershipSource> sources_;
    std::map<wire::Gid, Group> groups_;
    std::array<TimeNs, kFamilies> answer_all_at_{kNever, kNever};
    std::array<TimeNs, kFamilies> old_until_{};
};

}  // namespace urnic::net
