#include "ulp/rpcrdma/codec/properties.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/ulp/rpcrdma/codec/vectors.h"

namespace urnic::rpcrdma {
namespace {

bool decodes(Proc proc, std::initializer_list<std::uint32_t> words) {
    PropertyBody body;
    return decode_properties(proc, octets_of(words), body);
}

PropertyValue value_of(PropertyId id, std::span<const std::byte> data) {
    return {static_cast<std::uint32_t>(id), data};
}

TEST(RpcrdmaProperties, NoOctetsStandForTheDefault) {
    EXPECT_TRUE(decodes(Proc::kUpdprop, {2, 1, 0, 2, 0}));
    EXPECT_EQ(property_word(value_of(PropertyId::kReceiveBufferSize, {})), 4096U);
    EXPECT_EQ(property_word(value_of(PropertyId::kBackwardRequestSupport, {})), 1U);
    EXPECT_EQ(property_word({77, {}}), 0U);
}

TEST(RpcrdmaProperties, AValueTooShortForItsTypeIsAnError) {
    for (std::uint32_t length = 1; length <= 8; ++length) {
        EXPECT_EQ(decodes(Proc::kUpdprop, {1, 1, length, 0, 0}), length >= 4) << length;
        EXPECT_EQ(decodes(Proc::kUpdprop, {1, 2, length, 0, 0}), length >= 4) << length;
    }
}

TEST(RpcrdmaProperties, BackwardSupportIsOneOfThree) {
    for (std::uint32_t support = 0; support < 5; ++support) {
        EXPECT_EQ(decodes(Proc::kUpdprop, {1, 2, 4, support}), support <= 2) << support;
    }
    EXPECT_FALSE(decodes(Proc::kUpdprop, {1, 2, 4, 0xffffffff}));
    // Any size is one; whether it can be worked with is not for the codec.
    EXPECT_TRUE(decodes(Proc::kUpdprop, {1, 1, 4, 0xffffffff}));
    EXPECT_TRUE(decodes(Proc::kUpdprop, {1, 1, 4, 0}));
}

TEST(RpcrdmaProperties, UnknownOnesAreNoError) {
    const Octets octets = octets_of({3, 3, 1, 0x61000000, 1, 4, 0x4000, kFirstExperimentalProperty, 0});
    PropertyBody body;
    ASSERT_TRUE(decode_properties(Proc::kReqprop, octets, body));
    ASSERT_EQ(body.values.count, 3U);
    EXPECT_EQ(body.values.values[0].data.size(), 1U);
    EXPECT_EQ(body.values.find(1), 1U);
    EXPECT_EQ(property_word(body.values.values[1]), 0x4000U);
}

TEST(RpcrdmaProperties, AnUnknownOneMayNotReachBeyondTheMessage) {
    for (const std::uint32_t length : {5U, 8U, 0x7fffffffU, 0xfffffffcU, 0xfffffffdU, 0xffffffffU}) {
        EXPECT_FALSE(decodes(Proc::kReqprop, {1, 77, length, 0})) << length;
    }
    EXPECT_TRUE(decodes(Proc::kReqprop, {1, 77, 3, 0}));
}

TEST(RpcrdmaProperties, TheLastOfAnIdCounts) {
    const Octets octets = octets_of({3, 1, 4, 0x1000, 2, 4, 0, 1, 4, 0x2000});
    PropertyBody body;
    ASSERT_TRUE(decode_properties(Proc::kUpdprop, octets, body));
    EXPECT_EQ(body.values.find(1), 2U);
    EXPECT_EQ(body.values.find(2), 1U);
}

TEST(RpcrdmaProperties, AsManyAsAreKept) {
    std::vector<std::uint32_t> words = {kMaxProperties};
    for (std::uint32_t i = 0; i <= kMaxProperties; ++i) {
        words.insert(words.end(), {100 + i, 0});
    }
    PropertyBody body;
    ASSERT_TRUE(decode_properties(Proc::kReqprop, octets_of(words), body));
    EXPECT_EQ(body.values.count, kMaxProperties);
    ++words[0];
    EXPECT_FALSE(decode_properties(Proc::kReqprop, octets_of(words), body));
    EXPECT_FALSE(decodes(Proc::kReqprop, {0xffffffff}));
}

TEST(RpcrdmaProperties, SubsetsHaveBitsOfTheSetBesideThem) {
    const Octets octets = octets_of({2, 0x80000001, 0xffffffff, 1, 0x00000002, 0});
    PropertyBody body;
    ASSERT_TRUE(decode_properties(Proc::kResprop, octets, body));
    EXPECT_EQ(body.first.bits, 0x80000001U);
    EXPECT_EQ(body.second.bits, 2U);
    EXPECT_TRUE(body.first.has(0));
    EXPECT_TRUE(body.first.has(31));
    EXPECT_FALSE(body.first.has(1));
    EXPECT_FALSE(body.first.has(32));
    EXPECT_FALSE(body.first.has(63));
    PropertySubset subset;
    subset.add(3);
    subset.add(32);
    EXPECT_EQ(subset.bits, 8U);
    for (const std::uint32_t words : {3U, 0x40000000U, 0x40000001U, 0xffffffffU}) {
        EXPECT_FALSE(decodes(Proc::kResprop, {words, 1, 1})) << words;
    }
}

TEST(RpcrdmaProperties, TheArmIsAllThatIsTaken) {
    const Octets octets = octets_of({0x77, 2, 0x20, 9, 1, 1, 4, 0x10000, 0xdeadbeef});
    Header header;
    ASSERT_EQ(decode_header(octets, 1U << kVersion2, header), DecodeStatus::kOk);
    EXPECT_EQ(header.size, 32U);
    EXPECT_EQ(header.body.size(), 16U);
    EXPECT_EQ(header.body.data(), octets.data() + 16);
}

TEST(RpcrdmaProperties, EveryPrefixIsAnError) {
    for (const Vector* vector : {&kConnprop, &kReqprop, &kResprop}) {
        const Octets octets = vector->octets();
        const std::size_t arm = octets.size() - kFixedHeaderOctets;
        for (std::size_t length = 0; length < arm; ++length) {
            const Octets prefix(octets.begin() + kFixedHeaderOctets,
                                octets.begin() + static_cast<std::ptrdiff_t>(kFixedHeaderOctets + length));
            PropertyBody body;
            EXPECT_FALSE(decode_properties(static_cast<Proc>(vector->words[3]), prefix, body))
                << vector->name << ", " << length;
        }
    }
}

TEST(RpcrdmaProperties, OtherMessagesHaveNone) {
    EXPECT_FALSE(decodes(Proc::kMsg, {0, 0, 0}));
    EXPECT_FALSE(decodes(Proc::kOptional, {0, 0, 0}));
    Octets room(64);
    EXPECT_EQ(encode_properties(Proc::kError, {}, room), 0U);
}

}  // namespace
}  // namespace urnic::rpcrdma
