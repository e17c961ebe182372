#include "ulp/ipoib/engine/subnet_client.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace urnic::ipoib {

namespace {

/// Bit of a status (IBA 13.4.7): busy, ask again.
constexpr std::uint16_t kBusy = 1;
/// From a failure to the next request: doubled each time.
constexpr std::uint64_t kFirstRetryMs = 1000;
constexpr std::uint32_t kMostDoublings = 4;
/// Unicast LIDs and multicast LIDs (IBA 4.1.3).
constexpr std::uint16_t kLastUnicastLid = 0xBFFF;
constexpr std::uint16_t kFirstMulticastLid = 0xC000;
constexpr std::uint16_t kPermissiveLid = 0xFFFF;

}  // namespace

// --- questions

std::uint32_t SubnetClient::send(Request request, const MakeMad& make) {
    while (next_id_ == 0 || requests_.contains(next_id_)) {
        ++next_id_;
    }
    const std::uint32_t id = next_id_++;
    if (!port_.request(make(id))) {
        ++counters_.timeouts;
        return 0;
    }
    ++counters_.requests;
    request.end_ms = now_ms_ + kRequestMs;
    requests_.emplace(id, request);
    return id;
}

Progress SubnetClient::ask(Question& question, const Request& request, const MakeMad& make) {
    if (question.request != 0) {
        return Progress::kPending;
    }
    if (now_ms_ < question.retry_ms || requests_.size() >= kMostRequests) {
        return Progress::kFailed;
    }
    question.request = send(request, make);
    if (question.request == 0) {
        last_failure_ = kNoAnswer;
        fail(question);
        return Progress::kFailed;
    }
    return Progress::kPending;
}

void SubnetClient::fail(Question& question) {
    question.request = 0;
    question.retry_ms = now_ms_ + (kFirstRetryMs << std::min(question.failures, kMostDoublings));
    ++question.failures;
}

// --- groups

Progress SubnetClient::join(const Gid& group, JoinState state) {
    if (!groups_.contains(group) && !make_room_for_group()) {
        return Progress::kFailed;
    }
    Group& entry = groups_[group];
    const bool is_joined = state == JoinState::kSendOnlyNonMember
                               ? entry.joined != 0
                               : (entry.joined & static_cast<unsigned>(JoinState::kFullMember)) != 0;
    if (is_joined) {
        return Progress::kDone;
    }
    // A request to leave that is repeated must not come after the one to join.
    if (is_leaving(group)) {
        return Progress::kPending;
    }
    const GroupRecord* const made_like =
        state == JoinState::kFullMember && group != broadcast_ ? this->group(broadcast_) : nullptr;
    return ask(entry.question, {Kind::kJoin, group, state},
               [&](std::uint32_t id) { return join_request(id, member_, group, state, made_like); });
}

/// One that could not be joined goes for one that perhaps can.
bool SubnetClient::make_room_for_group() {
    if (groups_.size() < kMostGroups) {
        return true;
    }
    const auto failed = std::find_if(groups_.begin(), groups_.end(), [](const auto& entry) {
        return entry.second.joined == 0 && entry.second.question.request == 0;
    });
    if (failed == groups_.end()) {
        return false;
    }
    groups_.erase(failed);
    return true;
}

void SubnetClient::leave(const Gid& group) {
    const auto found = groups_.find(group);
    if (found == groups_.end()) {
        return;
    }
    const Group entry = found->second;
    // An answer that is still to come is a membership that nobody wants: settle_join() ends it.
    groups_.erase(found);
    if (entry.question.request != 0) {
        settled_.push_back(group);
    }
    for (const std::uint8_t states : {entry.joined, entry.unknown}) {
        if (states != 0) {
            send_leave(group, states);
        }
    }
}

void SubnetClient::leave_all() {
    while (!groups_.empty()) {
        const Gid group = groups_.begin()->first;
        leave(group);
    }
}

std::vector<Gid> SubnetClient::expire_senders() {
    std::vector<Gid> expired;
    for (const auto& [gid, entry] : groups_) {
        if (entry.joined == static_cast<std::uint8_t>(JoinState::kSendOnlyNonMember) &&
            entry.question.request == 0 && now_ms_ - entry.since_ms >= kSenderMs) {
            expired.push_back(gid);
        }
    }
    for (const Gid& gid : expired) {
        leave(gid);
    }
    return expired;
}

void SubnetClient::send_leave(const Gid& group, std::uint8_t states) {
    leaves_.push_back({group, states});
    send_leaves();
}

void SubnetClient::send_leaves() {
    for (; !leaves_.empty() && requests_.size() < kMostRequests; leaves_.pop_front()) {
        const Leave leave = leaves_.front();
        static_cast<void>(send({.kind = Kind::kLeave, .gid = leave.group}, [&](std::uint32_t id) {
            return leave_request(id, member_, leave.group, leave.states);
        }));
    }
}

bool SubnetClient::is_leaving(const Gid& group) const {
    return std::any_of(leaves_.begin(), leaves_.end(),
                       [&](const Leave& leave) { return leave.group == group; }) ||
           std::any_of(requests_.begin(), requests_.end(), [&](const auto& request) {
               return request.second.kind == Kind::kLeave && request.second.gid == group;
           });
}

const GroupRecord* SubnetClient::group(const Gid& group) const {
    const auto found = groups_.find(group);
    return found == groups_.end() || found->second.joined == 0 ? nullptr : &found->second.record;
}

/// All groups of a link have the Q_Key of the broadcast group (RFC 4391, section 5): its QP has one. Their
/// packets are as long.
bool SubnetClient::is_usable(const Gid& gid, const GroupRecord& record) const {
    const GroupRecord* const broadcast = gid == broadcast_ ? nullptr : group(broadcast_);
    return record.mlid >= kFirstMulticastLid && record.mlid != kPermissiveLid && record.mtu >= 1 &&
           record.mtu <= 5 &&
           (broadcast == nullptr || (record.qkey == broadcast->qkey && record.mtu >= broadcast->mtu));
}

void SubnetClient::settle_join(const Request& request, std::uint32_t id, const GroupRecord& record) {
    const auto found = groups_.find(request.gid);
    if (found == groups_.end()) {
        send_leave(request.gid, static_cast<std::uint8_t>(request.state));
        return;
    }
    Group& entry = found->second;
    if (entry.question.request != id) {
        return;
    }
    if (!is_usable(request.gid, record)) {
        ++counters_.malformed;
        fail(request, id);
        send_leave(request.gid, static_cast<std::uint8_t>(request.state));
        return;
    }
    entry.question = {};
    entry.unknown = 0;
    entry.since_ms = now_ms_;
    entry.joined = static_cast<std::uint8_t>(entry.joined | static_cast<unsigned>(request.state));
    entry.record = record;
    settled_.push_back(request.gid);
}

// --- paths

Progress SubnetClient::find_path(const Gid& destination) {
    auto found = paths_.find(destination);
    if (found == paths_.end()) {
        make_room_for_path();
        found = paths_.try_emplace(destination).first;
    }
    Path& entry = found->second;
    entry.used = ++uses_;
    if (entry.is_known) {
        return Progress::kDone;
    }
    const GroupRecord* const broadcast = group(broadcast_);
    const std::uint8_t traffic_class = broadcast == nullptr ? 0 : broadcast->traffic_class;
    return ask(entry.question, {Kind::kPath, destination},
               [&](std::uint32_t id) { return path_request(id, member_, destination, traffic_class); });
}

/// The one that was not used for the longest time goes; its answer, if it is still to come, is nobody's.
void SubnetClient::make_room_for_path() {
    if (paths_.size() < kMostPaths) {
        return;
    }
    const auto oldest = std::min_element(paths_.begin(), paths_.end(), [](const auto& a, const auto& b) {
        return a.second.used < b.second.used;
    });
    if (oldest->second.question.request != 0) {
        settled_.push_back(oldest->first);
    }
    paths_.erase(oldest);
}

const PathRecord* SubnetClient::path(const Gid& destination) const {
    const auto found = paths_.find(destination);
    return found == paths_.end() || !found->second.is_known ? nullptr : &found->second.record;
}

void SubnetClient::settle_path(const Request& request, std::uint32_t id, const PathRecord& record) {
    const auto found = paths_.find(request.gid);
    if (found == paths_.end() || found->second.question.request != id) {
        return;
    }
    if (record.dlid == 0 || record.dlid > kLastUnicastLid) {
        ++counters_.malformed;
        fail(request, id);
        return;
    }
    Path& entry = found->second;
    entry.question = {};
    entry.is_known = true;
    entry.record = record;
    settled_.push_back(request.gid);
}

// --- answers

void SubnetClient::fail(const Request& request, std::uint32_t id) {
    Question* question = nullptr;
    if (request.kind == Kind::kJoin) {
        const auto found = groups_.find(request.gid);
        question = found == groups_.end() ? nullptr : &found->second.question;
    } else if (request.kind == Kind::kPath) {
        const auto found = paths_.find(request.gid);
        question = found == paths_.end() ? nullptr : &found->second.question;
    }
    if (question != nullptr && question->request == id) {
        fail(*question);
        settled_.push_back(request.gid);
    }
}

void SubnetClient::on_answer(ConstOctets mad) {
    const std::optional<SaAnswer> answer = parse_sa_answer(mad);
    const auto found = answer ? requests_.find(answer->id) : requests_.end();
    if (found == requests_.end() ||
        (found->second.kind == Kind::kPath) != (answer->subject == SaSubject::kPath)) {
        ++counters_.malformed;
        return;
    }
    const Request request = found->second;
    requests_.erase(found);
    if (answer->status != 0) {
        ++counters_.refused;
        if (request.kind == Kind::kJoin) {
            last_failure_ = (answer->status & kBusy) != 0 ? kNoAnswer : answer->status;
        }
        fail(request, answer->id);
    } else if (answer->gid != request.gid) {
        ++counters_.malformed;
        fail(request, answer->id);
    } else if (request.kind == Kind::kPath) {
        settle_path(request, answer->id, answer->path);
    } else if (request.kind == Kind::kJoin) {
        settle_join(request, answer->id, answer->group);
    }
    end(request);
}

void SubnetClient::on_timeout(std::uint32_t id) {
    const auto found = requests_.find(id);
    if (found == requests_.end()) {
        return;
    }
    const Request request = found->second;
    requests_.erase(found);
    ++counters_.timeouts;
    if (request.kind == Kind::kJoin) {
        last_failure_ = kNoAnswer;
        if (const auto group = groups_.find(request.gid); group != groups_.end()) {
            group->second.unknown =
                static_cast<std::uint8_t>(group->second.unknown | static_cast<unsigned>(request.state));
        }
    }
    fail(request, id);
    end(request);
}

/// There is room for another request, and a group that was left may be joined.
void SubnetClient::end(const Request& request) {
    if (request.kind == Kind::kLeave) {
        settled_.push_back(request.gid);
    }
    send_leaves();
}

void SubnetClient::advance(std::uint64_t now_ms) {
    now_ms_ = now_ms;
    for (auto request = requests_.begin(); request != requests_.end();) {
        const auto [id, overdue] = std::pair(request->first, request->second.end_ms <= now_ms);
        request = overdue ? (on_timeout(id), requests_.upper_bound(id)) : std::next(request);
    }
}

void SubnetClient::forget() {
    groups_.clear();
    paths_.clear();
    requests_.clear();
    leaves_.clear();
    settled_.clear();
}

std::vector<Gid> SubnetClient::take_settled() { return std::exchange(settled_, {}); }

}  // namespace urnic::ipoib
