#include "rnic/qp/modify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace urnic {
namespace {

using enum QpState;

constexpr QpState kStates[] = {kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr};

// The transitions of RC (IBA tables 91 and 92), written down a second time.
const std::set<std::pair<QpState, QpState>>& expected() {
    static const std::set<std::pair<QpState, QpState>> transitions = {
        {kReset, kReset}, {kReset, kInit}, {kInit, kReset}, {kInit, kErr},  {kInit, kInit}, {kInit, kRtr},
        {kRtr, kReset},   {kRtr, kErr},    {kRtr, kRts},    {kRts, kReset}, {kRts, kErr},   {kRts, kRts},
        {kRts, kSqd},     {kSqd, kReset},  {kSqd, kErr},    {kSqd, kRts},   {kSqd, kSqd},   {kSqe, kReset},
        {kSqe, kErr},     {kErr, kReset},  {kErr, kErr},
    };
    return transitions;
}

abi::QpAttr attr_for(QpState from, QpState to, std::uint32_t mask) {
    abi::QpAttr attr{};
    attr.mask = mask | kQpAttrState;
    attr.state = to;
    attr.cur_state = from;
    attr.path_mtu = 3;
    attr.port_num = 1;
    return attr;
}

constexpr std::uint32_t kInitToRtr =
    kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn | kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
constexpr std::uint32_t kRtrToRts =
    kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxQpRdAtomic;

std::uint32_t required_for(QpState from, QpState to) {
    if (from == kReset && to == kInit) {
        return kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
    }
    if (from == kInit && to == kRtr) {
        return kInitToRtr;
    }
    return from == kRtr && to == kRts ? kRtrToRts : 0;
}

TEST(QpModify, TransitionsThatExist) {
    for (const QpState from : kStates) {
        for (const QpState to : kStates) {
            const bool exists = expected().count({from, to}) != 0;
            const abi::QpAttr attr = attr_for(from, to, required_for(from, to));
            EXPECT_EQ(check_modify(QpType::kRc, from, attr), exists ? 0 : EINVAL)
                << static_cast<int>(from) << " to " << static_cast<int>(to);
        }
    }
}

TEST(QpModify, EveryRequiredAttributeIsRequired) {
    for (const auto& states : expected()) {
        const std::uint32_t required = required_for(states.first, states.second);
        for (std::uint32_t bit = 1; bit != 0; bit <<= 1U) {
            if ((required & bit) != 0) {
                EXPECT_EQ(check_modify(QpType::kRc, states.first,
                                       attr_for(states.first, states.second, required & ~bit)),
                          EINVAL)
                    << "without " << bit;
            }
        }
    }
}

// Whatever the service: a limit on the rate can be said when the QP is able to send afterwards.
constexpr std::uint32_t anywhere_towards(QpState to) { return to == kRts ? kQpAttrRateLimit : 0U; }

// Attributes that may be there beside the required ones, by transition.
TEST(QpModify, OptionalAttributes) {
    constexpr std::uint32_t kRunning =
        kQpAttrCurState | kQpAttrAccessFlags | kQpAttrMinRnrTimer | kQpAttrPathMigState;
    const std::map<std::pair<QpState, QpState>, std::uint32_t> optional = {
        {{kInit, kInit}, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags},
        {{kInit, kRtr}, kQpAttrAccessFlags | kQpAttrPkeyIndex},
        {{kRtr, kRts}, kRunning},
        {{kRts, kRts}, kRunning},
        {{kRts, kSqd}, kQpAttrEnSqdAsyncNotify},
        {{kSqd, kRts}, kRunning},
        {{kSqd, kSqd},
         kQpAttrPort | kQpAttrAv | kQpAttrTimeout | kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrMaxQpRdAtomic |
             kQpAttrMaxDestRdAtomic | kQpAttrAccessFlags | kQpAttrPkeyIndex | kQpAttrMinRnrTimer |
             kQpAttrPathMigState},
    };
    for (const auto& states : expected()) {
        const std::uint32_t required = required_for(states.first, states.second);
        const auto found = optional.find(states);
        const std::uint32_t may =
            (found == optional.end() ? 0 : found->second) | anywhere_towards(states.second);
        for (std::uint32_t shift = 1; shift < 32; ++shift) {
            const std::uint32_t bit = 1U << shift;
            const bool allowed = ((required | may) & bit) != 0;
            EXPECT_EQ(check_modify(QpType::kRc, states.first,
                                   attr_for(states.first, states.second, required | bit)),
                      allowed ? 0 : EINVAL)
                << static_cast<int>(states.first) << " to " << static_cast<int>(states.second) << " with bit "
                << shift;
        }
    }
}

// The rows of UC and UD, written down a second time. A change to RESET or ERR takes no attributes and is not
// here.
struct Row {
    QpState from;
    QpState to;
    std::uint32_t required;
    std::uint32_t optional;
};
constexpr std::uint32_t kUcInit = kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
constexpr std::uint32_t kUcRunning = kQpAttrCurState | kQpAttrAccessFlags | kQpAttrPathMigState;
constexpr Row kUcRows[] = {
    {kReset, kInit, kUcInit, 0},
    {kInit, kInit, 0, kUcInit},
    {kInit, kRtr, kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn,
     kQpAttrAccessFlags | kQpAttrPkeyIndex},
    {kRtr, kRts, kQpAttrSqPsn, kUcRunning},
    {kRts, kRts, 0, kUcRunning},
    {kRts, kSqd, 0, kQpAttrEnSqdAsyncNotify},
    {kSqd, kRts, 0, kUcRunning},
    {kSqd, kSqd, 0, kQpAttrAv | kQpAttrAccessFlags | kQpAttrPkeyIndex | kQpAttrPathMigState},
    {kSqe, kRts, 0, kQpAttrCurState | kQpAttrAccessFlags},
};
constexpr std::uint32_t kUdInit = kQpAttrPkeyIndex | kQpAttrPort | kQpAttrQkey;
constexpr std::uint32_t kUdRunning = kQpAttrCurState | kQpAttrQkey;
constexpr Row kUdRows[] = {
    {kReset, kInit, kUdInit, 0},
    {kInit, kInit, 0, kUdInit},
    {kInit, kRtr, 0, kQpAttrPkeyIndex | kQpAttrQkey},
    {kRtr, kRts, kQpAttrSqPsn, kUdRunning},
    {kRts, kRts, 0, kUdRunning},
    {kRts, kSqd, 0, kQpAttrEnSqdAsyncNotify},
    {kSqd, kRts, 0, kUdRunning},
    {kSqd, kSqd, 0, kQpAttrPkeyIndex | kQpAttrQkey},
    {kSqe, kRts, 0, kUdRunning},
};

constexpr std::uint32_t kConnect = kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn;
constexpr std::uint32_t kAnswering = kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
constexpr std::uint32_t kRetries = kQpAttrRetryCnt | kQpAttrRnrRetry | kQpAttrMaxQpRdAtomic;
constexpr Row kXrcSendRows[] = {
    {kReset, kInit, kUcInit, 0},
    {kInit, kInit, 0, kUcInit},
    {kInit, kRtr, kConnect, kQpAttrAccessFlags | kQpAttrPkeyIndex | kAnswering},
    {kRtr, kRts, kQpAttrTimeout | kQpAttrSqPsn | kRetries, kUcRunning},
    {kRts, kRts, 0, kUcRunning},
    {kRts, kSqd, 0, kQpAttrEnSqdAsyncNotify},
    {kSqd, kRts, 0, kUcRunning},
    {kSqd, kSqd, 0,
     kQpAttrPort | kQpAttrAv | kQpAttrTimeout | kRetries | kQpAttrAccessFlags | kQpAttrPkeyIndex |
         kQpAttrPathMigState},
};
constexpr std::uint32_t kXrcRecvRunning = kUcRunning | kQpAttrMinRnrTimer;
constexpr Row kXrcRecvRows[] = {
    {kReset, kInit, kUcInit, 0},
    {kInit, kInit, 0, kUcInit},
    {kInit, kRtr, kConnect | kAnswering, kQpAttrAccessFlags | kQpAttrPkeyIndex},
    {kRtr, kRts, kQpAttrTimeout | kQpAttrSqPsn, kXrcRecvRunning | kRetries},
    {kRts, kRts, 0, kXrcRecvRunning},
    {kRts, kSqd, 0, kQpAttrEnSqdAsyncNotify},
    {kSqd, kRts, 0, kXrcRecvRunning},
    {kSqd, kSqd, 0,
     kQpAttrPort | kQpAttrAv | kQpAttrTimeout | kAnswering | kQpAttrAccessFlags | kQpAttrPkeyIndex |
         kQpAttrPathMigState},
};

// Every pair of states, and for each transition every attribute left out and every one added.
void check_rows(QpType type, std::span<const Row> rows) {
    for (const QpState from : kStates) {
        for (const QpState to : kStates) {
            SCOPED_TRACE(std::to_string(static_cast<int>(from)) + " to " +
                         std::to_string(static_cast<int>(to)));
            const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& candidate) {
                return candidate.from == from && candidate.to == to;
            });
            const bool plain = to == kReset || (to == kErr && from != kReset);
            const std::uint32_t required = row == rows.end() ? 0 : row->required;
            const std::uint32_t optional = row == rows.end() ? 0 : row->optional | anywhere_towards(to);
            const bool exists = plain || row != rows.end();
            EXPECT_EQ(check_modify(type, from, attr_for(from, to, required)), exists ? 0 : EINVAL);
            for (std::uint32_t shift = 1; exists && shift < 32; ++shift) {
                const std::uint32_t bit = 1U << shift;
                const bool allowed = ((required | optional) & bit) != 0;
                EXPECT_EQ(check_modify(type, from, attr_for(from, to, required | bit)), allowed ? 0 : EINVAL)
                    << "with bit " << shift;
                EXPECT_EQ(check_modify(type, from, attr_for(from, to, required & ~bit)),
                          (required & bit) != 0 ? EINVAL : 0)
                    << "without bit " << shift;
            }
        }
    }
}

TEST(QpModify, TransitionsOfUc) { check_rows(QpType::kUc, kUcRows); }
TEST(QpModify, TransitionsOfUd) { check_rows(QpType::kUd, kUdRows); }

TEST(QpModify, TransitionsOfAnXrcInitiator) { check_rows(QpType::kXrcSend, kXrcSendRows); }
TEST(QpModify, TransitionsOfAnXrcTarget) { check_rows(QpType::kXrcRecv, kXrcRecvRows); }

TEST(QpModify, WithoutAStateTheStateStays) {
    abi::QpAttr attr{};
    attr.mask = kQpAttrMinRnrTimer;
    attr.state = kErr;  // not in the mask
    EXPECT_EQ(check_modify(QpType::kRc, kRts, attr), 0);
    EXPECT_EQ(target_state(kRts, attr), kRts);
    EXPECT_EQ(check_modify(QpType::kRc, kInit, attr), EINVAL);
}

TEST(QpModify, CurrentStateHasToBeTrue) {
    abi::QpAttr attr = attr_for(kRts, kRts, kQpAttrCurState);
    attr.cur_state = kSqd;
    EXPECT_EQ(check_modify(QpType::kRc, kRts, attr), EINVAL);
}

TEST(QpModify, StatesThatDoNotExist) {
    for (const std::uint32_t state : {7U, 100U, 0xffU}) {
        EXPECT_EQ(check_modify(QpType::kRc, kRts, attr_for(kRts, static_cast<QpState>(state), 0)), EINVAL);
    }
}

struct Limit {
    std::uint32_t attribute;
    void (*set)(abi::QpAttr&, std::uint32_t);
    std::uint32_t good;
    std::uint32_t bad;
};

TEST(QpModify, ValuesHaveLimits) {
    const Limit limits[] = {
        {kQpAttrTimeout, [](abi::QpAttr& a, std::uint32_t v) { a.timeout = static_cast<std::uint8_t>(v); },
         31, 32},
        {kQpAttrRetryCnt, [](abi::QpAttr& a, std::uint32_t v) { a.retry_cnt = static_cast<std::uint8_t>(v); },
         7, 8},
        {kQpAttrRnrRetry, [](abi::QpAttr& a, std::uint32_t v) { a.rnr_retry = static_cast<std::uint8_t>(v); },
         7, 8},
        {kQpAttrMinRnrTimer,
         [](abi::QpAttr& a, std::uint32_t v) { a.min_rnr_timer = static_cast<std::uint8_t>(v); }, 31, 32},
        {kQpAttrMaxQpRdAtomic,
         [](abi::QpAttr& a, std::uint32_t v) { a.max_rd_atomic = static_cast<std::uint8_t>(v); }, 16, 17},
        {kQpAttrMaxDestRdAtomic,
         [](abi::QpAttr& a, std::uint32_t v) { a.max_dest_rd_atomic = static_cast<std::uint8_t>(v); }, 16,
         17},
        {kQpAttrPort, [](abi::QpAttr& a, std::uint32_t v) { a.port_num = static_cast<std::uint8_t>(v); }, 1,
         2},
        {kQpAttrPkeyIndex,
         [](abi::QpAttr& a, std::uint32_t v) { a.pkey_index = static_cast<std::uint16_t>(v); }, 127, 128},
        {kQpAttrAccessFlags, [](abi::QpAttr& a, std::uint32_t v) { a.access_flags = v; }, 15, 0x80},
        {kQpAttrPathMigState,
         [](abi::QpAttr& a, std::uint32_t v) { a.path_mig_state = static_cast<std::uint8_t>(v); }, 0, 1},
    };
    for (const Limit& limit : limits) {
        abi::QpAttr attr = attr_for(kSqd, kSqd, limit.attribute);
        limit.set(attr, limit.good);
        EXPECT_EQ(check_modify(QpType::kRc, kSqd, attr), 0) << limit.attribute;
        limit.set(attr, limit.bad);
        EXPECT_EQ(check_modify(QpType::kRc, kSqd, attr), EINVAL) << limit.attribute;
    }
    abi::QpAttr rtr = attr_for(kInit, kRtr, kInitToRtr);
    for (const std::uint8_t mtu : {0, 6, 255}) {
        rtr.path_mtu = mtu;
        EXPECT_EQ(check_modify(QpType::kRc, kInit, rtr), EINVAL) << int{mtu};
    }
    rtr.path_mtu = 5;
    rtr.dest_qp_num = 0x1000000;
    EXPECT_EQ(check_modify(QpType::kRc, kInit, rtr), EINVAL);
}

TEST(QpModify, OnlyNamedAttributesAreTaken) {
    abi::QpAttr attr{};
    attr.timeout = 3;
    attr.retry_cnt = 4;
    abi::QpAttr change{};
    change.mask = kQpAttrTimeout | kQpAttrSqPsn;
    change.timeout = 9;
    change.retry_cnt = 7;
    change.sq_psn = 0xab12'3456;
    apply_attributes(change, attr);
    EXPECT_EQ(attr.timeout, 9);
    EXPECT_EQ(attr.retry_cnt, 4);
    EXPECT_EQ(attr.sq_psn, 0x12'3456U);
}

}  // namespace
}  // namespace urnic
