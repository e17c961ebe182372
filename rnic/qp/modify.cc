#include "rnic/qp/modify.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "rnic/device/pkey_table.h"
#include "rnic/qp/limits.h"

namespace urnic {

namespace {

struct Transition {
    QpType type;
    QpState from;
    QpState to;
    std::uint32_t required;
    std::uint32_t optional;
};

using enum QpState;

// What several rows have in common.
constexpr std::uint32_t kForInit = kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
constexpr std::uint32_t kForUdInit = kQpAttrPkeyIndex | kQpAttrPort | kQpAttrQkey;
constexpr std::uint32_t kForRtr = kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn;
constexpr std::uint32_t kOfResponder = kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
constexpr std::uint32_t kOfRequester =
    kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxQpRdAtomic;
constexpr std::uint32_t kWhileRunning =
    kQpAttrCurState | kQpAttrAltPath | kQpAttrAccessFlags | kQpAttrPathMigState;
constexpr std::uint32_t kOtherPath = kQpAttrAltPath | kQpAttrAccessFlags | kQpAttrPkeyIndex;

// One row for each transition of each service; what is not here is refused. A change to RESET or ERR is the
// same for every service and stands in kAnyService.
constexpr std::array kTransitions = {
    Transition{QpType::kRc, kReset, kInit, kForInit, 0},
    Transition{QpType::kRc, kInit, kInit, 0, kForInit},
    Transition{QpType::kRc, kInit, kRtr, kForRtr | kOfResponder, kOtherPath},
    Transition{QpType::kRc, kRtr, kRts, kOfRequester, kWhileRunning | kQpAttrMinRnrTimer},
    Transition{QpType::kRc, kRts, kRts, 0, kWhileRunning | kQpAttrMinRnrTimer},
    Transition{QpType::kRc, kRts, kSqd, 0, kQpAttrEnSqdAsyncNotify},
    Transition{QpType::kRc, kSqd, kRts, 0, kWhileRunning | kQpAttrMinRnrTimer},
    Transition{QpType::kRc, kSqd, kSqd, 0,
               kForInit | kOfResponder | kQpAttrAv | kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry |
                   kQpAttrMaxQpRdAtomic | kQpAttrAltPath | kQpAttrPathMigState},

    Transition{QpType::kUc, kReset, kInit, kForInit, 0},
    Transition{QpType::kUc, kInit, kInit, 0, kForInit},
    Transition{QpType::kUc, kInit, kRtr, kForRtr, kOtherPath},
    Transition{QpType::kUc, kRtr, kRts, kQpAttrSqPsn, kWhileRunning},
    Transition{QpType::kUc, kRts, kRts, 0, kWhileRunning},
    Transition{QpType::kUc, kRts, kSqd, 0, kQpAttrEnSqdAsyncNotify},
    Transition{QpType::kUc, kSqd, kRts, 0, kWhileRunning},
    Transition{QpType::kUc, kSqd, kSqd, 0, kOtherPath | kQpAttrAv | kQpAttrPathMigState},
    Transition{QpType::kUc, kSqe, kRts, 0, kQpAttrCurState | kQpAttrAccessFlags},

    Transition{QpType::kUd, kReset, kInit, kForUdInit, 0},
    Transition{QpType::kUd, kInit, kInit, 0, kForUdInit},
    Transition{QpType::kUd, kInit, kRtr, 0, kQpAttrPkeyIndex | kQpAttrQkey},
    Transition{QpType::kUd, kRtr, kRts, kQpAttrSqPsn, kQpAttrCurState | kQpAttrQkey},
    Transition{QpType::kUd, kRts, kRts, 0, kQpAttrCurState | kQpAttrQkey},
    Transition{QpType::kUd, kRts, kSqd, 0, kQpAttrEnSqdAsyncNotify},
    Transition{QpType::kUd, kSqd, kRts, 0, kQpAttrCurState | kQpAttrQkey},
    Transition{QpType::kUd, kSqd, kSqd, 0, kQpAttrPkeyIndex | kQpAttrQkey},
    Transition{QpType::kUd, kSqe, kRts, 0, kQpAttrCurState | kQpAttrQkey},

    Transition{QpType::kXrcSend, kReset, kInit, kForInit, 0},
    Transition{QpType::kXrcSend, kInit, kInit, 0, kForInit},
    // perftest gives an initiator a responder's attributes too, and a target a requester's; NICs take them.
    Transition{QpType::kXrcSend, kInit, kRtr, kForRtr, kOtherPath | kOfResponder},
    Transition{QpType::kXrcSend, kRtr, kRts, kOfRequester, kWhileRunning},
    Transition{QpType::kXrcSend, kRts, kRts, 0, kWhileRunning},
    Transition{QpType::kXrcSend, kRts, kSqd, 0, kQpAttrEnSqdAsyncNotify},
    Transition{QpType::kXrcSend, kSqd, kRts, 0, kWhileRunning},
    Transition{QpType::kXrcSend, kSqd, kSqd, 0,
               kForInit | kQpAttrAv | kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry |
                   kQpAttrMaxQpRdAtomic | kQpAttrAltPath | kQpAttrPathMigState},

    Transition{QpType::kXrcRecv, kReset, kInit, kForInit, 0},
    Transition{QpType::kXrcRecv, kInit, kInit, 0, kForInit},
    Transition{QpType::kXrcRecv, kInit, kRtr, kForRtr | kOfResponder, kOtherPath},
    Transition{QpType::kXrcRecv, kRtr, kRts, kQpAttrTimeout | kQpAttrSqPsn,
               kWhileRunning | kQpAttrMinRnrTimer | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrMaxQpRdAtomic},
    Transition{QpType::kXrcRecv, kRts, kRts, 0, kWhileRunning | kQpAttrMinRnrTimer},
    Transition{QpType::kXrcRecv, kRts, kSqd, 0, kQpAttrEnSqdAsyncNotify},
    Transition{QpType::kXrcRecv, kSqd, kRts, 0, kWhileRunning | kQpAttrMinRnrTimer},
    Transition{QpType::kXrcRecv, kSqd, kSqd, 0,
               kForInit | kOfResponder | kQpAttrAv | kQpAttrTimeout | kQpAttrAltPath | kQpAttrPathMigState},
};

struct StatePair {
    QpState from;
    QpState to;
};
constexpr std::array kAnyService = {
    StatePair{kReset, kReset}, StatePair{kInit, kReset}, StatePair{kInit, kErr}, StatePair{kRtr, kReset},
    StatePair{kRtr, kErr},     StatePair{kRts, kReset},  StatePair{kRts, kErr},  StatePair{kSqd, kReset},
    StatePair{kSqd, kErr},     StatePair{kSqe, kReset},  StatePair{kSqe, kErr},  StatePair{kErr, kReset},
    StatePair{kErr, kErr},
};

constexpr std::uint32_t kQpAccess = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead |
                                    kAccessRemoteAtomic | kAccessMwBind | kAccessFlushGlobal |
                                    kAccessFlushPersistent;
constexpr std::uint32_t kMax24 = 0xff'ffff;

// Smallest and largest value of each attribute that has bounds.
struct Bound {
    std::uint32_t attribute;
    std::uint32_t (*value)(const abi::QpAttr&);
    std::uint32_t least;
    std::uint32_t most;
};
constexpr std::array kBounds = {
    Bound{kQpAttrPathMtu, [](const abi::QpAttr& a) { return std::uint32_t{a.path_mtu}; }, 1, 5},
    Bound{kQpAttrPkeyIndex, [](const abi::QpAttr& a) { return std::uint32_t{a.pkey_index}; }, 0,
          PkeyTable::kEntries - 1},
    Bound{kQpAttrPort, [](const abi::QpAttr& a) { return std::uint32_t{a.port_num}; }, 1, 1},
    Bound{kQpAttrTimeout, [](const abi::QpAttr& a) { return std::uint32_t{a.timeout}; }, 0, 31},
    Bound{kQpAttrRetryCnt, [](const abi::QpAttr& a) { return std::uint32_t{a.retry_cnt}; }, 0, 7},
    Bound{kQpAttrRnrRetry, [](const abi::QpAttr& a) { return std::uint32_t{a.rnr_retry}; }, 0, 7},
    Bound{kQpAttrMinRnrTimer, [](const abi::QpAttr& a) { return std::uint32_t{a.min_rnr_timer}; }, 0, 31},
    Bound{kQpAttrMaxQpRdAtomic, [](const abi::QpAttr& a) { return std::uint32_t{a.max_rd_atomic}; }, 0,
          kMaxRdAtomic},
    Bound{kQpAttrMaxDestRdAtomic, [](const abi::QpAttr& a) { return std::uint32_t{a.max_dest_rd_atomic}; }, 0,
          kMaxRdAtomic},
    Bound{kQpAttrDestQpn, [](const abi::QpAttr& a) { return a.dest_qp_num; }, 0, kMax24},
    // Without automatic path migration a QP is always MIGRATED.
    Bound{kQpAttrPathMigState, [](const abi::QpAttr& a) { return std::uint32_t{a.path_mig_state}; }, 0, 0},
    // An alternate path would need automatic path migration, which the device does not offer.
    Bound{kQpAttrAltPath, [](const abi::QpAttr&) { return 1U; }, 0, 0},
};

bool in_bounds(const abi::QpAttr& attr) {
    const bool numbers = std::all_of(kBounds.begin(), kBounds.end(), [&attr](const Bound& bound) {
        const std::uint32_t value = bound.value(attr);
        return (attr.mask & bound.attribute) == 0 || (value >= bound.least && value <= bound.most);
    });
    return numbers && ((attr.mask & kQpAttrAccessFlags) == 0 || (attr.access_flags & ~kQpAccess) == 0);
}

}  // namespace

int check_modify(QpType type, QpState from, const abi::QpAttr& attr) {
    const QpState to = target_state(from, attr);
    const bool names_other_state = (attr.mask & kQpAttrCurState) != 0 && attr.cur_state != from;
    if (names_other_state || !in_bounds(attr)) {
        return EINVAL;
    }
    // How fast to send is no matter of the service: it may be set whenever the QP can send afterwards.
    const std::uint32_t anywhere = to == kRts ? kQpAttrState | kQpAttrRateLimit : kQpAttrState;
    const std::uint32_t given = attr.mask & ~anywhere;
    const auto* const plain =
        std::find_if(kAnyService.begin(), kAnyService.end(),
                     [&](const StatePair& pair) { return pair.from == from && pair.to == to; });
    if (plain != kAnyService.end()) {
        return given == 0 ? 0 : EINVAL;
    }
    const auto* const row = std::find_if(kTransitions.begin(), kTransitions.end(), [&](const Transition& t) {
        return t.type == type && t.from == from && t.to == to;
    });
    if (row == kTransitions.end() || (given & row->required) != row->required ||
        (given & ~(row->required | row->optional)) != 0) {
        return EINVAL;
    }
    return 0;
}

void apply_attributes(const abi::QpAttr& change, abi::QpAttr& attr) {
    const auto take = [&](std::uint32_t attribute, auto abi::QpAttr::*field) {
        if ((change.mask & attribute) != 0) {
            attr.*field = change.*field;
        }
    };
    take(kQpAttrAccessFlags, &abi::QpAttr::access_flags);
    take(kQpAttrPkeyIndex, &abi::QpAttr::pkey_index);
    take(kQpAttrPort, &abi::QpAttr::port_num);
    take(kQpAttrQkey, &abi::QpAttr::qkey);
    take(kQpAttrAv, &abi::QpAttr::av);
    take(kQpAttrPathMtu, &abi::QpAttr::path_mtu);
    take(kQpAttrTimeout, &abi::QpAttr::timeout);
    take(kQpAttrRetryCnt, &abi::QpAttr::retry_cnt);
    take(kQpAttrRnrRetry, &abi::QpAttr::rnr_retry);
    take(kQpAttrMaxQpRdAtomic, &abi::QpAttr::max_rd_atomic);
    take(kQpAttrMinRnrTimer, &abi::QpAttr::min_rnr_timer);
    take(kQpAttrMaxDestRdAtomic, &abi::QpAttr::max_dest_rd_atomic);
    take(kQpAttrPathMigState, &abi::QpAttr::path_mig_state);
    take(kQpAttrDestQpn, &abi::QpAttr::dest_qp_num);
    take(kQpAttrRateLimit, &abi::QpAttr::rate_limit);
    take(kQpAttrEnSqdAsyncNotify, &abi::QpAttr::en_sqd_async_notify);
    // Programs give 32 bits of a random number; the kernel takes the low 24 too.
    if ((change.mask & kQpAttrRqPsn) != 0) {
        attr.rq_psn = change.rq_psn & kMax24;
    }
    if ((change.mask & kQpAttrSqPsn) != 0) {
        attr.sq_psn = change.sq_psn & kMax24;
    }
}

int take_attributes(QpCommon& common, QpType type, const abi::QpAttr& attr, const wire::Path& path) {
    const int error = check_modify(type, common.state, attr);
    if (error != 0) {
        return error;
    }
    if (!common.has_pkey(attr)) {
        return EINVAL;
    }
    apply_attributes(attr, common.attr);
    common.use_pkey();
    if ((attr.mask & kQpAttrAv) != 0) {
        common.use_path(path);
    }
    if ((attr.mask & kQpAttrPathMtu) != 0) {
        common.mtu_bytes = mtu_bytes(attr.path_mtu);
        common.mtu_shift = static_cast<std::uint8_t>(7 + attr.path_mtu);
    }
    return 0;
}

void report_attributes(const QpCommon& common, bool drained, const QpPsns& psns, abi::QpAttr& attr) {
    attr = common.attr;
    attr.rq_psn = psns.rq_psn;
    attr.sq_psn = psns.sq_psn;
    attr.mask = ~0U;
    attr.state = common.state;
    attr.cur_state = common.state;
    attr.sq_draining = common.state == QpState::kSqd && !drained ? 1 : 0;
}

}  // namespace urnic
