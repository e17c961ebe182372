// Every variant of the CRC-32 and of the VCRC against a bit-by-bit reference, and the order in which copied
// payload appears.
#include "rnic/wire/crc/crc32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "conform/case/reference_icrc.h"
#include "rnic/wire/crc/crc32_variants.h"
#include "tests/support/random_bytes.h"

namespace urnic::wire {
namespace {

constexpr std::size_t kMaxLength = 5000;
constexpr std::size_t kMaxOffset = 64;

class Crc32VariantTest : public testing::TestWithParam<const Crc32Variant*> {};

/// The variants that this CPU has; the table is always among them.
std::vector<const Crc32Variant*> supported_variants() {
    std::vector<const Crc32Variant*> variants;
    for (const Crc32Variant* variant : crc32_variants()) {
        if (variant->supported()) {
            variants.push_back(variant);
        }
    }
    return variants;
}

/// Registers of the reference after 0, 1, 2 ... bytes.
std::vector<std::uint32_t> reference_registers(std::uint32_t crc, const std::vector<std::byte>& data) {
    std::vector<std::uint32_t> registers = {crc};
    for (const std::byte& byte : data) {
        registers.push_back(conform::reference_crc32(registers.back(), {&byte, 1}));
    }
    return registers;
}

TEST_P(Crc32VariantTest, CheckValueOfTheCatalogue) {
    const std::string text = "123456789";
    const auto* data = reinterpret_cast<const std::byte*>(text.data());
    EXPECT_EQ(~GetParam()->update(0xffff'ffffU, data, text.size()), 0xcbf4'3926U);
}

TEST_P(Crc32VariantTest, UpdateEqualsReferenceForEveryLengthAndAlignment) {
    test::Random random;
    const std::vector<std::byte> data = random.bytes(kMaxLength);
    const auto start = static_cast<std::uint32_t>(random.next());
    const std::vector<std::uint32_t> expected = reference_registers(start, data);
    std::vector<std::byte> room(kMaxLength + kMaxOffset + 64);
    for (std::size_t length = 0; length <= kMaxLength; ++length) {
        // All alignments for short runs, where they take different ways; a changing one for long runs.
        const bool all = length < 300;
        for (std::size_t step = 0; step < (all ? kMaxOffset : 1); ++step) {
            const std::size_t offset = all ? step : length * 7 % kMaxOffset;
            std::memcpy(room.data() + offset, data.data(), length);
            ASSERT_EQ(GetParam()->update(start, room.data() + offset, length), expected[length])
                << "length " << length << " offset " << offset << ' ' << random;
        }
    }
}

/// Registers of polynomial 0x100B, bit by bit, after 0, 1, 2 ... bytes.
std::vector<std::uint16_t> reference_vcrc_registers(std::uint16_t crc, const std::vector<std::byte>& data) {
    constexpr std::uint32_t kReflected = 0xd008;
    std::vector<std::uint16_t> registers = {crc};
    for (const std::byte byte : data) {
        std::uint32_t value = registers.back() ^ std::to_integer<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) {
            value = (value & 1U) != 0 ? value >> 1U ^ kReflected : value >> 1U;
        }
        registers.push_back(static_cast<std::uint16_t>(value));
    }
    return registers;
}

TEST_P(Crc32VariantTest, VcrcEqualsReferenceForEveryLengthAndAlignment) {
    test::Random random;
    const std::vector<std::byte> data = random.bytes(kMaxLength);
    const auto start = static_cast<std::uint16_t>(random.next());
    const std::vector<std::uint16_t> expected = reference_vcrc_registers(start, data);
    for (std::size_t length = 0; length <= kMaxLength; ++length) {
        const bool all = length < 300;
        for (std::size_t step = 0; step < (all ? kMaxOffset : 1); ++step) {
            const std::size_t offset = all ? step : length * 7 % kMaxOffset;
            // Of its own size: a byte too far is seen.
            std::vector<std::byte> room(offset + length);
            std::copy_n(data.begin(), length, room.begin() + static_cast<std::ptrdiff_t>(offset));
            ASSERT_EQ(GetParam()->vcrc(start, std::span(room).subspan(offset)), expected[length])
                << "length " << length << " offset " << offset << ' ' << random;
        }
    }
}

/// A target with fences in front of and behind the bytes that a copy may write.
class FencedTarget {
  public:
    static constexpr std::size_t kFenceBytes = 64;

    /// Room for `length` bytes at `offset` from a cache line.
    std::byte* prepare(std::size_t offset, std::size_t length) {
        begin_ = kFenceBytes + offset;
        end_ = begin_ + length;
        std::memset(room_.data() + begin_ - kFenceBytes, kFence, kFenceBytes);
        std::memset(room_.data() + end_, kFence, kFenceBytes);
        return room_.data() + begin_;
    }
    [[nodiscard]] bool holds(const std::vector<std::byte>& expected) const {
        return std::equal(expected.begin(), expected.end(), room_.data() + begin_);
    }
    [[nodiscard]] bool fences_stand() const {
        return std::memcmp(room_.data() + begin_ - kFenceBytes, fence_.data(), kFenceBytes) == 0 &&
               std::memcmp(room_.data() + end_, fence_.data(), kFenceBytes) == 0;
    }

  private:
    static constexpr int kFence = 0x5a;
    std::vector<std::byte> room_ = std::vector<std::byte>(kMaxLength + kMaxOffset + 2 * kFenceBytes);
    std::vector<std::byte> fence_ = std::vector<std::byte>(kFenceBytes, std::byte{kFence});
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

/// Calls check(length, offset, source) for every length and for all offsets that matter. The source is an
/// exact copy on the heap, so that AddressSanitizer sees a read past its end.
template <class Check>
void for_every_length(const std::vector<std::byte>& data, Check check) {
    for (std::size_t length = 0; length <= kMaxLength; ++length) {
        const std::vector<std::byte> source(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(length));
        const bool all = length < 200;
        for (std::size_t step = 0; step < (all ? kMaxOffset : 1); ++step) {
            check(length, all ? step : length * 11 % kMaxOffset, source);
            if (testing::Test::HasFatalFailure()) {
                return;
            }
        }
    }
}

TEST_P(Crc32VariantTest, CopyEqualsReferenceAndStaysInBounds) {
    test::Random random;
    const std::vector<std::byte> data = random.bytes(kMaxLength);
    const auto start = static_cast<std::uint32_t>(random.next());
    const std::vector<std::uint32_t> expected = reference_registers(start, data);
    FencedTarget target;
    for_every_length(data, [&](std::size_t length, std::size_t offset, const std::vector<std::byte>& source) {
        std::byte* to = target.prepare(offset, length);
        ASSERT_EQ(GetParam()->copy(start, to, source.data(), length), expected[length])
            << "length " << length << " offset " << offset << ' ' << random;
        ASSERT_TRUE(target.holds(source)) << "length " << length << " offset " << offset << ' ' << random;
        ASSERT_TRUE(target.fences_stand()) << "length " << length << " offset " << offset;
    });
}

/// The register after the eight bytes of ones and a masked head.
std::uint32_t reference_head(const std::vector<std::byte>& bytes, const std::vector<std::byte>& ones) {
    std::vector<std::byte> head(8, std::byte{0xff});
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        head.push_back(bytes[i] | ones[i]);
    }
    return conform::reference_crc32(~0U, head);
}

TEST_P(Crc32VariantTest, HeadedRunsEqualReferenceForEveryHead) {
    test::Random random;
    FencedTarget target;
    for (std::size_t head_length = 16; head_length <= 128; head_length += 4) {
        const std::vector<std::byte> bytes = random.bytes(head_length);
        const std::vector<std::byte> ones = random.bytes(head_length);
        const MaskedHead head = {bytes.data(), ones.data(), head_length};
        const std::uint32_t start = reference_head(bytes, ones);
        for (std::size_t length = 0; length <= 700; length += length < 80 ? 1 : 31) {
            const std::vector<std::byte> source = random.bytes(length);
            const std::uint32_t expected = conform::reference_crc32(start, source);
            ASSERT_EQ(GetParam()->headed_update(head, source.data(), length), expected)
                << "head " << head_length << " length " << length << ' ' << random;
            std::byte* to = target.prepare(length % kMaxOffset, length);
            ASSERT_EQ(GetParam()->headed_copy(head, to, source.data(), length), expected)
                << "head " << head_length << " length " << length << ' ' << random;
            ASSERT_TRUE(target.holds(source)) << "length " << length << ' ' << random;
            ASSERT_TRUE(target.fences_stand()) << "length " << length;
        }
    }
}

TEST_P(Crc32VariantTest, CopyPayloadCopiesAndStaysInBounds) {
    test::Random random;
    const std::vector<std::byte> data = random.bytes(kMaxLength);
    FencedTarget target;
    for_every_length(data, [&](std::size_t length, std::size_t offset, const std::vector<std::byte>& source) {
        GetParam()->copy_payload(target.prepare(offset, length), source.data(), length);
        ASSERT_TRUE(target.holds(source)) << "length " << length << " offset " << offset << ' ' << random;
        ASSERT_TRUE(target.fences_stand()) << "length " << length << " offset " << offset;
    });
}

std::string variant_name(const testing::TestParamInfo<const Crc32Variant*>& info) {
    std::string name = info.param->name;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(All, Crc32VariantTest, testing::ValuesIn(supported_variants()), variant_name);

TEST(Crc32, TheVariantInUseIsTheFirstSupportedOne) {
    EXPECT_STREQ(crc32_variant(), supported_variants().front()->name);
    EXPECT_STREQ(supported_variants().back()->name, "table");
}

}  // namespace
}  // namespace urnic::wire
