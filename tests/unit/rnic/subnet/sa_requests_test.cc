// Requests to subnet administration, answered, lost, late, and answered by whom nobody asked.
#include "rnic/subnet/sa_requests.h"

#include <gtest/gtest.h>

#include <new>
#include <vector>

#include "rnic/subnet/sa_components.h"

namespace urnic::subnet {
namespace {

namespace mad = wire::mad;
namespace pc = path_component;

constexpr TimeNs kMs = 1'000'000;
constexpr std::uint32_t kKey = 0x1234'5678;
const SaAddress kAdministrator{7, 3, 0xffff};

SaRequest path_request() {
    mad::PathRecord wanted;
    wanted.dgid[15] = 2;
    wanted.sgid[15] = 1;
    wanted.reversible = true;
    wanted.numb_path = 1;
    return sa_request(wire::kMadGet, mad::kPathRecord,
                      pc::kDgid | pc::kSgid | pc::kReversible | pc::kNumbPath, mad::kPathRecordTable, wanted);
}

class SaRequestsTest : public testing::Test {
  protected:
    SaRequests::Id ask(SaRequests::Owner owner, TimeNs time_ns, TimeNs now = 0) {
        return requests_.ask(path_request(), kAdministrator, time_ns, owner, now, send_);
    }
    /// The answer that an administrator would send to what was sent last.
    [[nodiscard]] MadPacket answer() const {
        MadPacket packet = sent_.back();
        packet.slid = packet.dlid;
        MadRef(packet.mad).set_method(wire::kMadGetResponse);
        return packet;
    }

    SaRequests requests_{kKey};
    std::vector<MadPacket> sent_;
    SaRequests::Send send_ = [this](const MadPacket& packet) { sent_.push_back(packet); };
};

TEST_F(SaRequestsTest, ARequestOctetByOctet) {
    const SaRequests::Id id = ask(1, 400 * kMs);
    ASSERT_EQ(sent_.size(), 1U);
    MadPacket packet = sent_[0];
    EXPECT_EQ(packet.dlid, 7);
    EXPECT_EQ(packet.sl, 3);
    EXPECT_EQ(packet.src_qp, 1U);
    EXPECT_EQ(packet.dest_qp, 1U);
    EXPECT_EQ(packet.qkey, 0x8001'0000U);
    const MadRef mad(packet.mad);
    EXPECT_EQ(mad.base_version(), 1);
    EXPECT_EQ(mad.mgmt_class(), 3);
    EXPECT_EQ(mad.class_version(), 2);
    EXPECT_EQ(mad.method(), 1);
    EXPECT_EQ(mad.transaction_id(), id);
    EXPECT_EQ(id >> 32U, kKey);
    EXPECT_EQ(mad.attribute_id(), 0x35);
    EXPECT_EQ(load_be64(mad.at(48)), pc::kDgid | pc::kSgid | pc::kReversible | pc::kNumbPath);
    EXPECT_EQ(packet.mad[56 + 8 + 15], std::byte{2}) << "DGID";
    EXPECT_EQ(packet.mad[56 + 24 + 15], std::byte{1}) << "SGID";
}

TEST_F(SaRequestsTest, AnAnswerEndsItsRequest) {
    const SaRequests::Id first = ask(1, 400 * kMs);
    const MadPacket first_answer = answer();
    const SaRequests::Id second = ask(2, 400 * kMs);
    EXPECT_NE(first, second);
    const auto taken = requests_.take(first_answer);
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->id, first);
    EXPECT_EQ(taken->owner, 1U);
    EXPECT_EQ(taken->status, 0);
    EXPECT_EQ(taken->record<mad::PathRecord>(mad::kPathRecordTable).dgid[15], 2);
    EXPECT_EQ(requests_.size(), 1U);
    EXPECT_FALSE(requests_.take(first_answer)) << "once";

    MadPacket refused = answer();
    MadRef(refused.mad).set_status(kSaNoRecords);
    EXPECT_EQ(requests_.take(refused)->status, kSaNoRecords);
    EXPECT_EQ(requests_.next_event(), kNever);
}

TEST_F(SaRequestsTest, WhatIsNoAnswer) {
    (void)ask(1, 400 * kMs);
    const auto no_answer = [&](const char* what, auto&& change) {
        MadPacket packet = answer();
        change(packet);
        EXPECT_FALSE(requests_.take(packet)) << what;
    };
    no_answer("the request itself", [](MadPacket& p) { MadRef(p.mad).set_method(wire::kMadGet); });
    no_answer("of another port", [](MadPacket& p) { p.slid = 8; });
    no_answer("of another QP", [](MadPacket& p) { p.src_qp = 0; });
    no_answer("of another request", [](MadPacket& p) { MadRef(p.mad).set_transaction_id(1); });
    no_answer("of another class", [](MadPacket& p) { p.mad[1] = std::byte{4}; });
    no_answer("of another attribute", [](MadPacket& p) { p.mad[17] = std::byte{0x38}; });
    EXPECT_TRUE(requests_.take(answer()));
}

TEST_F(SaRequestsTest, RepeatedWhileTheTimeLasts) {
    const SaRequests::Id id = ask(1, 400 * kMs, 1000 * kMs);
    EXPECT_EQ(requests_.next_event(), 1100 * kMs);
    EXPECT_FALSE(requests_.advance(1100 * kMs - 1, send_));
    EXPECT_EQ(sent_.size(), 1U);
    for (std::uint32_t tries = 2; tries <= SaRequests::kTries; ++tries) {
        EXPECT_FALSE(requests_.advance(requests_.next_event(), send_));
        ASSERT_EQ(sent_.size(), tries);
        EXPECT_EQ(sent_.back().mad, sent_.front().mad);
    }
    EXPECT_EQ(requests_.next_event(), 1400 * kMs);
    const auto ended = requests_.advance(1400 * kMs, send_);
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->id, id);
    EXPECT_EQ(ended->owner, 1U);
    EXPECT_FALSE(requests_.advance(1400 * kMs, send_));
    EXPECT_EQ(sent_.size(), SaRequests::kTries);
    EXPECT_FALSE(requests_.take(answer())) << "too late";
    EXPECT_EQ(requests_.next_event(), kNever);
}

/// As where there is no memory for the packet.
TEST_F(SaRequestsTest, WhatCannotBeSentIsNotUnderWay) {
    send_ = [](const MadPacket& /*packet*/) { throw std::bad_alloc(); };
    EXPECT_THROW((void)ask(1, 400 * kMs), std::bad_alloc);
    EXPECT_EQ(requests_.size(), 0U);
    EXPECT_EQ(requests_.next_event(), kNever);
}

TEST_F(SaRequestsTest, NobodyHearsOfWhatIsForgotten) {
    const SaRequests::Id id = ask(1, 0);
    EXPECT_EQ(requests_.next_event(), kMs / SaRequests::kTries) << "a millisecond at least";
    requests_.forget(id);
    requests_.forget(id);
    requests_.forget(0);
    EXPECT_FALSE(requests_.take(answer()));
    EXPECT_FALSE(requests_.advance(1000 * kMs, send_));
    EXPECT_EQ(sent_.size(), 1U);
}

TEST_F(SaRequestsTest, ManyAtOnceEndInTheOrderOfTheirTimes) {
    for (SaRequests::Owner owner = 1; owner <= 1000; ++owner) {
        (void)ask(owner, static_cast<TimeNs>(1001 - owner) * 4 * kMs);
    }
    TimeNs now = 0;
    SaRequests::Owner next = 1000;
    while (requests_.size() != 0) {
        ASSERT_GT(requests_.next_event(), now);
        now = requests_.next_event();
        while (const auto ended = requests_.advance(now, send_)) {
            EXPECT_EQ(ended->owner, next--);
        }
    }
    EXPECT_EQ(next, 0U);
    EXPECT_EQ(sent_.size(), 1000U * SaRequests::kTries);
}

}  // namespace
}  // namespace urnic::subnet
