#include "rnic/subnet/sa_paths.h"

#include <algorithm>
#include <optional>

#include "rnic/subnet/sa_choice.h"
#include "rnic/subnet/sa_components.h"

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;
namespace pc = path_component;

/// One end of the paths: of those that the request leaves open, all.
bool is_meant(const Endpoint& endpoint, bool has_gid, const wire::Gid& gid, bool has_lid, std::uint16_t lid) {
    return (!has_gid || endpoint.gid() == gid) && (!has_lid || endpoint.has_lid(lid));
}

/// What a path has that the request may choose: where there is no policy, every service, SL and traffic class
/// is as good as another (IBA 15.2.5.16). FlowLabel, HopLimit and TClass are for a GRH.
void take_wishes(mad::PathRecord& path, const mad::PathRecord& wanted, std::uint64_t mask) {
    path.service_id = wanted.service_id;
    path.sl = has_components(mask, pc::kSl) ? wanted.sl : 0;
    path.flow_label = has_components(mask, pc::kFlowLabel) ? wanted.flow_label : 0;
    path.hop_limit = has_components(mask, pc::kHopLimit) ? wanted.hop_limit : 0;
    path.tclass = has_components(mask, pc::kTclass) ? wanted.tclass : 0;
    path.reversible = true;
    path.mtu_selector = path.rate_selector = path.packet_life_time_selector =
        static_cast<std::uint8_t>(Selector::kExactly);
}

struct Bounds {
    Bounds(const mad::PathRecord& wanted, std::uint64_t mask)
        : mtu(bound_of(has_components(mask, pc::kMtu | pc::kMtuSelector), wanted.mtu_selector, wanted.mtu)),
          rate(bound_of(has_components(mask, pc::kRate | pc::kRateSelector), wanted.rate_selector,
                        wanted.rate)),
          life(bound_of(has_components(mask, pc::kLife | pc::kLifeSelector), wanted.packet_life_time_selector,
                        wanted.packet_life_time)) {}
    Bound mtu, rate, life;
};

std::optional<mad::PathRecord> path_between(const Endpoint& from, const Endpoint& to,
                                            const mad::PathRecord& wanted, std::uint64_t mask) {
    const Bounds bounds(wanted, mask);
    const auto pkey =
        shared_pkey(from.pkeys(), to.pkeys(),
                    has_components(mask, pc::kPkey) ? std::optional(wanted.pkey) : std::nullopt);
    const auto mtu = choose_mtu(bounds.mtu, std::min(from.mtu(), to.mtu()));
    const auto rate =
        choose_rate(bounds.rate, is_rate_at_least(from.rate(), to.rate()) ? to.rate() : from.rate());
    const auto life = choose_life_time(bounds.life, kPathLifeTime);
    if (!pkey || !mtu || !rate || !life) {
        return std::nullopt;
    }
    mad::PathRecord path;
    take_wishes(path, wanted, mask);
    path.sgid = from.gid();
    path.dgid = to.gid();
    path.slid = has_components(mask, pc::kSlid) ? wanted.slid : from.info().lid;
    path.dlid = has_components(mask, pc::kDlid) ? wanted.dlid : to.info().lid;
    path.pkey = *pkey;
    path.mtu = *mtu;
    path.rate = *rate;
    path.packet_life_time = *life;
    return path;
}

/// To a group goes what the group is (IBA 15.2.5.17): nothing of it can be chosen.
std::optional<mad::PathRecord> path_to_group(const Endpoint& from, const mad::McMemberRecord& group,
                                             const mad::PathRecord& wanted, std::uint64_t mask) {
    const Bounds bounds(wanted, mask);
    const bool is_same =
        (!has_components(mask, pc::kDlid) || wanted.dlid == group.mlid) &&
        (!has_components(mask, pc::kSl) || wanted.sl == group.sl) &&
        (!has_components(mask, pc::kFlowLabel) || wanted.flow_label == group.flow_label) &&
        (!has_components(mask, pc::kHopLimit) || wanted.hop_limit == group.hop_limit) &&
        (!has_components(mask, pc::kTclass) || wanted.tclass == group.tclass) &&
        (!has_components(mask, pc::kPkey) || ((wanted.pkey ^ group.pkey) & ~wire::kFullMember) == 0);
    const std::optional<std::uint16_t> pkey = from.pkeys().match(group.pkey);
    // Nobody answers from a group.
    const bool must_reverse = has_components(mask, pc::kReversible) && wanted.reversible;
    if (!is_same || !pkey || must_reverse || !mtu_fits(bounds.mtu, group.mtu) ||
        !rate_fits(bounds.rate, group.rate) || !life_time_fits(bounds.life, group.packet_life_time)) {
        return std::nullopt;
    }
    mad::PathRecord path;
    take_wishes(path, wanted, mask);
    path.reversible = false;
    path.sgid = from.gid();
    path.dgid = group.mgid;
    path.slid = has_components(mask, pc::kSlid) ? wanted.slid : from.info().lid;
    path.dlid = group.mlid;
    path.pkey = *pkey;
    path.sl = group.sl;
    path.flow_label = group.flow_label;
    path.hop_limit = group.hop_limit;
    path.tclass = group.tclass;
    path.mtu = group.mtu;
    path.rate = group.rate;
    path.packet_life_time = group.packet_life_time;
    return path;
}

}  // namespace

std::uint16_t find_paths(std::span<const Endpoint> endpoints, const SaGroups& groups,
                         const mad::PathRecord& wanted, std::uint64_t mask, std::size_t most,
                         std::vector<mad::PathRecord>& paths) {
    const bool has_sgid = has_components(mask, pc::kSgid);
    const bool has_dgid = has_components(mask, pc::kDgid);
    const bool is_to_group = has_dgid && wanted.dgid[0] == 0xff;
    const mad::McMemberRecord* const group = is_to_group ? groups.find(wanted.dgid) : nullptr;
    if ((has_sgid && find_gid(endpoints, wanted.sgid) == nullptr) ||
        (has_dgid && (is_to_group ? group == nullptr : find_gid(endpoints, wanted.dgid) == nullptr))) {
        return kSaInvalidGid;
    }
    if (has_components(mask, pc::kNumbPath) && wanted.numb_path == 0) {
        return kSaRequestInvalid;
    }
    if (has_components(mask, pc::kRawTraffic) && wanted.raw_traffic) {
        return kStatusGood;  // nobody has raw datagrams
    }
    for (const Endpoint& from : endpoints) {
        if (!is_meant(from, has_sgid, wanted.sgid, has_components(mask, pc::kSlid), wanted.slid)) {
            continue;
        }
        const auto add = [&](const std::optional<mad::PathRecord>& path) {
            if (path) {
                paths.push_back(*path);
            }
            return paths.size() <= most;
        };
        if (group != nullptr) {
            if (!add(path_to_group(from, *group, wanted, mask))) {
                return kSaNoResources;
            }
            continue;
        }
        for (const Endpoint& to : endpoints) {
            if (is_meant(to, has_dgid, wanted.dgid, has_components(mask, pc::kDlid), wanted.dlid) &&
                !add(path_between(from, to, wanted, mask))) {
                return kSaNoResources;
            }
        }
    }
    return kStatusGood;
}

}  // namespace urnic::subnet
