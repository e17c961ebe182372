#include "rnic/subnet/sa_subscriptions.h"

#include <algorithm>
#include <array>
#include <utility>

#include "rnic/subnet/sa_choice.h"
#include "rnic/subnet/sa_components.h"

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;

/// InformInfo's values that stand for all (IBA 13.4.8.3).
constexpr std::uint16_t kAllLids = 0xffff;
constexpr std::uint16_t kAllTypes = 0xffff;
constexpr std::uint16_t kAllTraps = 0xffff;
constexpr std::uint32_t kAllProducers = 0xff'ffff;

bool has_source_gid(const mad::InformInfo& info) { return info.gid != wire::Gid{}; }

/// LIDs of the sources, where no GID names one. An end of 0: there is one LID.
struct LidRange {
    std::uint16_t begin;
    std::uint16_t end;

    [[nodiscard]] bool is_all() const { return begin == kAllLids; }
    [[nodiscard]] bool has(std::uint16_t lid) const { return is_all() || (begin <= lid && lid <= end); }
    friend bool operator==(const LidRange&, const LidRange&) = default;
};
LidRange lids_of(const mad::InformInfo& info) {
    const std::uint16_t begin = info.lid_range_begin;
    return {begin, begin == kAllLids || info.lid_range_end == 0 ? begin : info.lid_range_end};
}

/// Returns whether both mean the same events. How fast the subscriber answers is not part of that.
bool is_about_the_same(const mad::InformInfo& a, const mad::InformInfo& b) {
    return a.gid == b.gid && (has_source_gid(a) || lids_of(a) == lids_of(b)) &&
           a.is_generic == b.is_generic && a.type == b.type && a.trap_number == b.trap_number &&
           a.producer_type == b.producer_type;
}

bool is_subscribed(const mad::InformInfo& info, const mad::Notice& notice, const wire::Gid& issuer) {
    const bool is_source = has_source_gid(info) ? info.gid == issuer : lids_of(info).has(notice.issuer_lid);
    return is_source && (info.is_generic != 0) == notice.is_generic &&
           (info.type == kAllTypes || info.type == notice.type) &&
           (info.trap_number == kAllTraps || info.trap_number == notice.trap_number) &&
           (info.producer_type == kAllProducers || info.producer_type == notice.producer_type);
}

/// Whether the sources are ports that the subscriber may talk to (IBA 13.4.11, o13-14).
std::uint16_t check_sources(const mad::InformInfo& info, const Endpoint& subscriber,
                            std::span<const Endpoint> ports) {
    const auto is_open = [&](const Endpoint& port) {
        return shared_pkey(subscriber.pkeys(), port.pkeys(), std::nullopt).has_value();
    };
    if (has_source_gid(info)) {
        const Endpoint* const source = find_gid(ports, info.gid);
        if (source == nullptr) {
            return kSaInvalidGid;
        }
        return is_open(*source) ? std::uint16_t{kStatusGood} : std::uint16_t{kSaRequestInvalid};
    }
    const LidRange lids = lids_of(info);
    if (lids.is_all()) {
        return kStatusGood;
    }
    const bool is_range = lids.begin != 0 && lids.begin <= lids.end && lids.end <= kLastUnicastLid;
    const bool is_allowed = std::all_of(ports.begin(), ports.end(), [&](const Endpoint& port) {
        return !lids.has(port.info().lid) || is_open(port);
    });
    return is_range && is_allowed ? std::uint16_t{kStatusGood} : std::uint16_t{kSaRequestInvalid};
}

/// For all tries of a report: each has the subscriber's own time and the way there and back (IBA 13.4.6.3).
TimeNs report_time_ns(const mad::InformInfo& info) {
    constexpr TimeNs kUnitNs = 4096;
    const std::uint8_t own = std::min(info.resp_time_value, SaSubscriptions::kMaxRespTimeValue);
    return SaRequests::kTries * ((kUnitNs << own) + 2 * (kUnitNs << kPathLifeTime));
}

}  // namespace

SaSubscriptions::Subscriptions::iterator SaSubscriptions::find(const mad::InformInfo& info,
                                                               std::uint64_t port_guid) {
    return std::find_if(subscriptions_.begin(), subscriptions_.end(), [&](const auto& entry) {
        return entry.second.record.port_guid == port_guid &&
               is_about_the_same(entry.second.record.info, info);
    });
}

std::uint16_t SaSubscriptions::set(const mad::InformInfo& info, const Endpoint& subscriber,
                                   std::span<const Endpoint> ports, const SaAddress& from,
                                   std::uint32_t src_qp) {
    if (info.subscribe > 1 || info.is_generic > 1) {
        return kSaRequestInvalid;
    }
    const auto known = find(info, subscriber.guid());
    if (info.subscribe == 0) {
        // The QPN is that of who has subscribed; when he did, it did not count (IBA 13.4.8.3).
        if (known == subscriptions_.end() || known->second.record.info.qpn != info.qpn) {
            return kSaRequestInvalid;
        }
        remove(known);
        return kStatusGood;
    }
    if (const std::uint16_t status = check_sources(info, subscriber, ports); status != kStatusGood) {
        return status;
    }
    mad::InformInfo kept = info;
    kept.qpn = src_qp;
    if (known != subscriptions_.end()) {
        known->second.record.info = kept;
        known->second.address = from;
        return kStatusGood;
    }
    return add(kept, subscriber, from);
}

std::uint16_t SaSubscriptions::add(const mad::InformInfo& info, const Endpoint& subscriber,
                                   const SaAddress& from) {
    std::array<bool, kMaxOfPort> is_taken{};
    for (const auto& [owner, subscription] : subscriptions_) {
        if (subscription.record.port_guid == subscriber.guid()) {
            is_taken.at(subscription.record.subscriber.subscriber_enum) = true;
        }
    }
    const auto* const free = std::find(is_taken.begin(), is_taken.end(), false);
    if (free == is_taken.end() || subscriptions_.size() >= kMaxSubscriptions) {
        return kSaNoResources;
    }
    const auto number = static_cast<std::uint16_t>(free - is_taken.begin());
    subscriptions_.emplace(++last_,
                           Subscription{{{subscriber.gid(), number}, info, subscriber.guid()}, from, {}});
    return kStatusGood;
}

SaSubscriptions::Subscriptions::iterator SaSubscriptions::remove(Subscriptions::iterator subscription) {
    for (const SaRequests::Id report : subscription->second.reports) {
        requests_.forget(report);
    }
    return subscriptions_.erase(subscription);
}

void SaSubscriptions::forget(std::uint64_t port_guid) {
    for (auto each = subscriptions_.begin(); each != subscriptions_.end();) {
        each = each->second.record.port_guid == port_guid ? remove(each) : std::next(each);
    }
}

void SaSubscriptions::report(const mad::Notice& notice, const wire::Gid& issuer,
                             const std::function<bool(std::uint64_t port_guid)>& may_hear, TimeNs now,
                             const Send& send) {
    SaRequest request = sa_request(wire::kMadReport, mad::kNotice, 0, mad::kNoticeTable, notice);
    const mad::NoticeIssuer from{issuer};
    wire::write_fields(mad::kNoticeIssuerTable, &from,
                       request.record.data() + mad::kNoticeTable.length_bytes);
    for (auto& [owner, subscription] : subscriptions_) {
        if (!is_subscribed(subscription.record.info, notice, issuer) ||
            !may_hear(subscription.record.port_guid)) {
            continue;
        }
        if (subscription.reports.size() >= kMaxReportsOfOne || requests_.size() >= kMaxReports) {
            ++counters_.drop_full;
            continue;
        }
        ++counters_.reports;
        subscription.reports.push_back(requests_.ask(
            request, subscription.address, report_time_ns(subscription.record.info), owner, now, send));
    }
}

bool SaSubscriptions::take(const MadPacket& packet) {
    MadBytes bytes = packet.mad;
    if (MadRef(bytes).method() != wire::kMadReportResponse) {
        return false;
    }
    const auto answer = requests_.take(packet);
    if (!answer) {
        return false;
    }
    std::erase(subscriptions_.at(answer->owner).reports, answer->id);
    return true;
}

void SaSubscriptions::give_up_reports() {
    for (auto& [owner, subscription] : subscriptions_) {
        for (const SaRequests::Id report : std::exchange(subscription.reports, {})) {
            requests_.forget(report);
        }
    }
}

void SaSubscriptions::advance(TimeNs now, const Send& send) {
    while (const auto mute = requests_.advance(now, send)) {
        ++counters_.ended_mute;
        remove(subscriptions_.find(mute->owner));
    }
}

std::vector<SaSubscriptions::Record> SaSubscriptions::records() const {
    std::vector<Record> records;
    for (const auto& [owner, subscription] : subscriptions_) {
        records.push_back(subscription.record);
    }
    return records;
}

}  // namespace urnic::subnet
