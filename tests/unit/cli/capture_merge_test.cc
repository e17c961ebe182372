// Records of several rings in the order of time, and in parts.
#include "cli/capture_merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "abi/verbs_values.h"
#include "cli/packet_note.h"
#include "dataplane/worker/capture_ring_writer.h"
#include "tests/support/random_bytes.h"
#include "tests/support/ring_memory.h"

namespace urnic::cli {
namespace {

class WrittenRing {
  public:
    explicit WrittenRing(std::size_t bytes = kBytes)
        : bytes_(bytes), memory_(zeroed_memory(bytes, kPageBytes)), writer_({memory_.get(), bytes}) {}
    [[nodiscard]] CaptureRingReader reader() const { return CaptureRingReader({memory_.get(), bytes_}); }
    /// Returns whether there was room.
    bool write(std::uint64_t time_ns, std::uint32_t number) {
        constexpr std::uint32_t kContent = 8;
        std::byte* const room = writer_.reserve(sizeof(abi::CaptureRecord) + kContent);
        if (room == nullptr) return false;
        abi::CaptureRecord record{};
        record.bytes = sizeof record + kContent;
        record.time_ns = time_ns;
        record.captured = sizeof number;
        std::memcpy(room, &record, sizeof record);
        std::memcpy(room + sizeof record, &number, sizeof number);
        writer_.publish();
        return true;
    }

  private:
    static constexpr std::size_t kBytes = abi::kCaptureRingHeaderBytes + (std::size_t{4} << 20U);

    std::size_t bytes_;
    RingMemory memory_;
    dataplane::CaptureRingWriter writer_;
};

constexpr std::uint64_t kEnd = ~std::uint64_t{0};

struct Taken {
    std::uint64_t time_ns;
    std::uint32_t number;
    bool operator==(const Taken&) const = default;
};

void take(CaptureMerge& merge, std::uint64_t until_ns, std::vector<Taken>& taken) {
    ASSERT_TRUE(merge.read(until_ns));
    for (const CaptureMerge::Record* const record : merge.records()) {
        Taken one{record->header.time_ns, 0};
        ASSERT_EQ(record->bytes.size(), sizeof one.number);
        std::memcpy(&one.number, record->bytes.data(), sizeof one.number);
        taken.push_back(one);
    }
}

std::vector<Taken> sorted(std::vector<Taken> records) {
    std::stable_sort(records.begin(), records.end(),
                     [](const Taken& a, const Taken& b) { return a.time_ns < b.time_ns; });
    return records;
}

TEST(CaptureMerge, RingsOfAnyFillAreOneSequence) {
    test::Random random;
    SCOPED_TRACE(testing::Message() << random);
    std::vector<WrittenRing> rings(4);
    CaptureMerge merge;
    std::vector<Taken> written;
    for (std::size_t i = 0; i < rings.size(); ++i) {
        merge.add(rings[i].reader());
        // The last has none, the first more than are taken at once.
        const std::size_t count = i == 3 ? 0 : i == 0 ? 20'000 : 1 + random.below(9'000);
        std::uint64_t time = 1'000 + random.below(100'000);
        for (std::size_t n = 0; n < count; ++n) {
            time += 100 + random.below(100);
            // Answers in front of their packet.
            const std::uint64_t answered = random.below(4) == 0 ? random.below(900) : 0;
            written.push_back({time - answered, static_cast<std::uint32_t>(written.size())});
            ASSERT_TRUE(rings[i].write(written.back().time_ns, written.back().number));
            if (random.below(50) == 0) time += 5'000;
        }
    }
    std::vector<Taken> taken;
    int reads = 0;
    do {
        take(merge, kEnd, taken);
        ASSERT_LT(++reads, 1'000);
    } while (merge.has_more());
    EXPECT_GT(reads, 4);
    EXPECT_EQ(taken, sorted(written));
    take(merge, kEnd, taken);
    EXPECT_EQ(taken.size(), written.size());
}

TEST(CaptureMerge, APacketBehindItsAnswersIsInFrontOfThem) {
    WrittenRing ring;
    CaptureMerge merge;
    merge.add(ring.reader());
    std::vector<Taken> written;
    // At each place that a part could end.
    for (std::uint32_t i = 0; i < 4 * CaptureMerge::kMostRecords; i += 4) {
        for (const std::uint64_t time : {3, 4, 5, 2}) {
            written.push_back({std::uint64_t{i} * 4 + time, i + static_cast<std::uint32_t>(time)});
            ASSERT_TRUE(ring.write(written.back().time_ns, written.back().number));
        }
        if (i == 0) {
            written.push_back({6, 1'000'000});
            ASSERT_TRUE(ring.write(6, 1'000'000));
        }
    }
    std::vector<Taken> taken;
    do take(merge, kEnd, taken);
    while (merge.has_more());
    EXPECT_EQ(taken, sorted(written));
}

TEST(CaptureMerge, WhatIsYoungerStays) {
    WrittenRing first;
    WrittenRing second;
    CaptureMerge merge;
    merge.add(first.reader());
    merge.add(second.reader());
    ASSERT_TRUE(first.write(10, 1) && first.write(30, 2) && second.write(20, 3) && second.write(40, 4));
    std::vector<Taken> taken;
    take(merge, 25, taken);
    EXPECT_EQ(taken, (std::vector<Taken>{{10, 1}, {20, 3}}));
    EXPECT_FALSE(merge.has_more());
    take(merge, kEnd, taken);
    EXPECT_EQ(taken, (std::vector<Taken>{{10, 1}, {20, 3}, {30, 2}, {40, 4}}));
}

TEST(CaptureMerge, RoomComesBack) {
    WrittenRing ring(abi::kMinCaptureRingBytes);
    CaptureMerge merge;
    merge.add(ring.reader());
    std::uint32_t written = 0;
    std::vector<Taken> taken;
    for (int round = 0; round < 100; ++round) {
        while (ring.write(written, written)) ++written;
        take(merge, kEnd, taken);
        take(merge, kEnd, taken);  // gives the room back
    }
    ASSERT_EQ(taken.size(), written);
    EXPECT_GT(written, 10'000U);
    for (std::uint32_t i = 0; i < written; ++i) ASSERT_EQ(taken[i].number, i);
}

TEST(CaptureMerge, DamageIsSeen) {
    WrittenRing ring;
    CaptureMerge merge;
    CaptureRingReader reader = ring.reader();
    merge.add(reader);
    ASSERT_TRUE(ring.write(1, 1));
    reader.look();
    CaptureRingReader::Record record;
    ASSERT_EQ(reader.next(kEnd, record), CaptureRingReader::Found::kRecord);
    const_cast<std::byte*>(record.bytes.data())[-static_cast<std::ptrdiff_t>(sizeof record.header)] =
        std::byte{1};
    EXPECT_FALSE(merge.read(kEnd));
}

TEST(PacketNote, SaysWhatIsKnown) {
    abi::CaptureRecord record{};
    record.fate = abi::PacketFate::kDelivered;
    record.qpn = 0xc43e10;
    record.state = static_cast<std::uint8_t>(QpState::kRts);
    record.expected_psn = 3108136;
    EXPECT_EQ(PacketNote(record).text(),
              "fate=delivered qpn=0xc43e10 state=RTS expected_psn=3108136 next_psn=0");
    record.qpn = abi::kNoQp;
    record.state = abi::kNoState;
    EXPECT_EQ(PacketNote(record).text(), "fate=delivered");
    // The longest.
    record.fate = abi::PacketFate::kDropped;
    record.qpn = 0xfffffffe;
    record.state = 99;
    record.expected_psn = record.next_psn = 0xffffffff;
    for (record.drop = 0; record.drop < std::size(abi::kPacketDrops); ++record.drop) {
        EXPECT_EQ(PacketNote(record).text(),
                  "fate=dropped drop=" + std::string(abi::kPacketDrops[record.drop]) +
                      " qpn=0xfffffffe state=unknown expected_psn=4294967295 next_psn=4294967295");
    }
    EXPECT_EQ(PacketNote(record).text(),
              "fate=dropped qpn=0xfffffffe state=unknown expected_psn=4294967295 next_psn=4294967295");
    record.fate = static_cast<abi::PacketFate>(99);
    record.qpn = 0;
    record.state = abi::kNoState;
    EXPECT_EQ(PacketNote(record).text(), "fate=unknown qpn=0x0");
}

}  // namespace
}  // namespace urnic::cli
