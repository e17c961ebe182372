#include "rnic/neighbour/membership_reporter.h"

#include <algorithm>

namespace urnic::net {

namespace {

constexpr TimeNs kReportSecond = 1'000'000'000;
/// Reports of a change (the robustness variable of RFC 3376 8.1, RFC 3810 9.1), and the longest time between
/// them (8.11, 9.11).
constexpr unsigned kRobustness = 2;
constexpr TimeNs kChangeNs = kReportSecond;
/// Robustness times the query interval of 125 s, and a response interval of 10 s (RFC 3376 8.12, RFC 3810
/// 9.12): so long after its last query an old querier counts as there.
constexpr TimeNs kOldQuerierNs = (kRobustness * 125 + 10) * kReportSecond;

/// Groups that everybody is a member of, or that no router forwards (RFC 3376 5, RFC 3810 6).
bool is_reported(const wire::Gid& group) {
    wire::Gid all_nodes{};
    all_nodes[0] = 0xff;
    all_nodes[1] = 0x02;
    all_nodes[15] = 1;
    wire::Gid all_hosts{};
    all_hosts[10] = all_hosts[11] = 0xff;
    all_hosts[12] = 224;
    all_hosts[15] = 1;
    return group != all_nodes && group != all_hosts && (group[0] != 0xff || (group[1] & 0xfU) > 1);
}

}  // namespace

TimeNs MembershipReporter::within(TimeNs most) {
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return most == 0 ? 0 : (random_ >> 11U) % most;
}

void MembershipReporter::set_groups(std::span<const wire::Gid> groups, TimeNs now, ReportOutbox& outbox) {
    std::vector<wire::Gid> wanted(groups.begin(), groups.end());
    std::erase_if(wanted, [](const wire::Gid& group) { return !is_reported(group); });
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    const auto change = [&](Group& group, bool is_member) {
        group = {.is_member = is_member, .changes = kRobustness, .change_at = now};
    };
    for (auto& [gid, group] : groups_) {
        if (group.is_member && !std::binary_search(wanted.begin(), wanted.end(), gid)) {
            change(group, false);
        }
    }
    for (const wire::Gid& gid : wanted) {
        const auto [place, is_new] = groups_.try_emplace(gid);
        if (is_new || !place->second.is_member) {
            change(place->second, true);
        }
    }
    advance(now, outbox);
}

void MembershipReporter::receive(const MembershipQuery& query, TimeNs now) {
    const Family family = query.is_ipv6 ? kIpv6 : kIpv4;
    if (query.is_old) {
        old_until_[family] = now + kOldQuerierNs;
    }
    const TimeNs at = now + within(query.max_response_ns);
    if (query.group == wire::Gid{}) {
        answer_all_at_[family] = std::min(answer_all_at_[family], at);
        return;
    }
    if (const auto found = groups_.find(query.group); found != groups_.end() && found->second.is_member) {
        found->second.answer_at = std::min(found->second.answer_at, at);
    }
}

void MembershipReporter::send(std::span<const MembershipRecord> records, TimeNs now,
                              ReportOutbox& outbox) const {
    std::array<std::byte, kReportFrameBytes> frame{};
    for (const MembershipSource& source : sources_) {
        for (std::size_t at = 0; at < records.size();) {
            const Family family = family_of(records[at].group);
            if (now < old_until_[family]) {
                outbox.send_report(std::span(frame).first(build_old_report(source, records[at], frame)));
                ++at;
                continue;
            }
            const std::size_t most = family == kIpv6 ? kMostIpv6Records : kMostIpv4Records;
            std::size_t count = 1;
            while (count < most && at + count < records.size() &&
                   family_of(records[at + count].group) == family) {
                ++count;
            }
            outbox.send_report(
                std::span(frame).first(build_membership_report(source, records.subspan(at, count), frame)));
            at += count;
        }
    }
}

void MembershipReporter::report_changes(TimeNs now, ReportOutbox& outbox) {
    std::vector<MembershipRecord> records;
    const TimeNs again = now + 1 + within(kChangeNs);
    for (auto entry = groups_.begin(); entry != groups_.end();) {
        auto& [gid, group] = *entry;
        if (group.change_at <= now) {
            records.push_back({gid, group.is_member ? RecordType::kToExclude : RecordType::kToInclude});
            --group.changes;
            group.change_at = group.changes == 0 ? kNever : again;
        }
        entry = group.changes == 0 && !group.is_member ? groups_.erase(entry) : std::next(entry);
    }
    send(records, now, outbox);
}

void MembershipReporter::answer(TimeNs now, ReportOutbox& outbox) {
    std::vector<MembershipRecord> records;
    for (auto& [gid, group] : groups_) {
        const bool is_asked = group.answer_at <= now || answer_all_at_[family_of(gid)] <= now;
        if (is_asked && group.is_member) {
            records.push_back({gid, RecordType::kIsExclude});
        }
        if (is_asked) {
            group.answer_at = kNever;
        }
    }
    for (TimeNs& at : answer_all_at_) {
        at = at <= now ? kNever : at;
    }
    send(records, now, outbox);
}

void MembershipReporter::advance(TimeNs now, ReportOutbox& outbox) {
    report_changes(now, outbox);
    answer(now, outbox);
}

TimeNs MembershipReporter::next_event() const {
    TimeNs next = std::min(answer_all_at_[kIpv4], answer_all_at_[kIpv6]);
    for (const auto& [gid, group] : groups_) {
        next = std::min({next, group.change_at, group.answer_at});
    }
    return next;
}

}  // namespace urnic::net
