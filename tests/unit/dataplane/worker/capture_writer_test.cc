// What one thread writes into the captures that run: which packets each has chosen, what of them, and what
// had no room.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "dataplane/worker/capture_writer.h"
#include "rnic/qp/captured_work.h"
#include "rnic/wire/blank_header.h"

namespace urnic::dataplane {
namespace {

constexpr std::uint32_t kRing = 3;
constexpr std::uint8_t kUdSend = std::uint8_t{wire::kServiceUd} | std::uint8_t{wire::kSendOnly};

/// A capture, and what its reader sees of the ring.
class Reader {
  public:
    Reader() : memory_(abi::kMinCaptureRingBytes / sizeof(Line)) {
        capture.rings[kRing] = CaptureRingWriter({bytes(), abi::kMinCaptureRingBytes});
        capture.rnics = 1;
        capture.snap_bytes = 65535;
    }

    struct Seen {
        abi::CaptureRecord record{};
        std::string bytes;
    };
    /// What is new.
    std::vector<Seen> read() {
        std::vector<Seen> all;
        const std::uint64_t head = ring().head.load();
        while (tail_ != head) {
            const std::byte* const at = bytes() + abi::kCaptureRingHeaderBytes + tail_ % kCapacity;
            Seen seen;
            std::memcpy(&seen.record, at,
                        std::min<std::uint64_t>(sizeof seen.record, kCapacity - tail_ % kCapacity));
            if (seen.record.rnic != abi::kCaptureFiller) {
                seen.bytes.assign(reinterpret_cast<const char*>(at) + sizeof seen.record,
                                  seen.record.captured);
                all.push_back(seen);
            }
            tail_ += seen.record.bytes;
        }
        ring().tail.store(tail_);
        return all;
    }
    abi::CaptureRing& ring() { return *reinterpret_cast<abi::CaptureRing*>(bytes()); }

    PacketCapture capture;

  private:
    static constexpr std::uint64_t kCapacity = 32768;  // the largest power of two behind the header
    struct alignas(64) Line {
        std::byte bytes[64];
    };
    std::byte* bytes() { return reinterpret_cast<std::byte*>(memory_.data()); }

    std::vector<Line> memory_;
    std::uint64_t tail_ = 0;
};

class CaptureWriterTest : public testing::Test {
  protected:
    /// A packet of that RNIC's QP 17 for QP 34 at LID 5.
    CaptureWriter::Packet packet(const std::string& text, std::uint32_t rnic = 0) {
        header_ = wire::kBlankHeader;
        header_.opcode = kUdSend;
        header_.dest_qp = 34;
        CaptureWriter::Packet packet;
        packet.rnic = rnic;
        packet.bytes = std::as_bytes(std::span(text));
        packet.wire_bytes = 1000;
        packet.header = &header_;
        packet.peer = &peer_;
        packet.qpn = 17;
        return packet;
    }
    void write(const std::string& text, std::uint32_t rnic = 0) {
        writer_.write(packet(text, rnic), 7, true, {abi::PacketFate::kSent});
        writer_.publish();
    }

    CaptureWriter writer_{kRing};
    Reader one_;
    Reader other_;
    wire::PacketHeader header_;
    wire::Gid peer_ = wire::lid_gid(5);
};

TEST_F(CaptureWriterTest, RecordsSayWhatIsKnown) {
    one_.capture.snap_bytes = 6;
    writer_.use({nullptr, &one_.capture, &other_.capture});
    EXPECT_TRUE(writer_.is_capturing(0));
    EXPECT_FALSE(writer_.is_capturing(1));
    writer_.write(packet("a packet"), 7, false, {abi::PacketFate::kDropped, 14});
    EXPECT_TRUE(one_.read().empty()) << "not published";
    writer_.publish();
    const auto seen = one_.read();
    ASSERT_EQ(seen.size(), 1U);
    const abi::CaptureRecord& record = seen[0].record;
    EXPECT_EQ(seen[0].bytes, "a pack");
    EXPECT_EQ(record.bytes, 56U);
    EXPECT_EQ(record.wire_bytes, 1000U);
    EXPECT_EQ(record.time_ns, 7U);
    EXPECT_EQ(record.is_sent, 0);
    EXPECT_EQ(record.fate, abi::PacketFate::kDropped);
    EXPECT_EQ(record.drop, 14);
    EXPECT_EQ(record.qpn, 17U);
    EXPECT_EQ(record.state, abi::kNoState);
    ASSERT_EQ(other_.read().size(), 1U);
    write("elsewhere", 1);
    EXPECT_TRUE(one_.read().empty());
}

TEST_F(CaptureWriterTest, EachPartOfAFilterChooses) {
    struct Case {
        const char* what;
        std::uint32_t filters;
        std::uint32_t qpn;
        std::uint8_t opcode;
        std::uint16_t lid;
        bool is_chosen;
    };
    constexpr std::uint32_t kAll = abi::kFilterQpn | abi::kFilterOpcode | abi::kFilterPeer;
    for (const Case& one : {
             Case{"nothing is asked for", 0, 1, 1, 1, true},
             Case{"this end", abi::kFilterQpn, 17, 0, 0, true},
             Case{"the other end", abi::kFilterQpn, 34, 0, 0, true},
             Case{"another QP", abi::kFilterQpn, 0, 0, 0, false},
             Case{"opcode", abi::kFilterOpcode, 0, kUdSend, 0, true},
             Case{"another opcode", abi::kFilterOpcode, 0, 4, 0, false},
             Case{"peer", abi::kFilterPeer, 0, 0, 5, true},
             Case{"another peer", abi::kFilterPeer, 0, 0, 6, false},
             Case{"all", kAll, 17, kUdSend, 5, true},
             Case{"all but the peer", kAll, 17, kUdSend, 6, false},
         }) {
        Reader reader;
        reader.capture.filters = one.filters;
        reader.capture.qpn = one.qpn;
        reader.capture.opcode = one.opcode;
        reader.capture.peer = wire::lid_gid(one.lid);
        writer_.use({&reader.capture});
        write("text");
        EXPECT_EQ(reader.read().size(), one.is_chosen ? 1U : 0U) << one.what;
        EXPECT_EQ(reader.ring().rnics[0].seen.load(), one.is_chosen ? 1U : 0U) << one.what;
        // What is not understood has nothing to be chosen by.
        const std::string text("text");
        CaptureWriter::Packet unknown = packet(text);
        unknown.header = nullptr;
        writer_.write(unknown, 7, true, {});
        writer_.publish();
        EXPECT_EQ(reader.read().size(), one.filters == 0 ? 1U : 0U) << one.what;
        writer_.use({});
    }
}

/// One that stalls loses and is told how much; the other sees all.
TEST_F(CaptureWriterTest, WhatHasNoRoomIsCounted) {
    writer_.use({&one_.capture, &other_.capture});
    const std::string text(952, 'x');  // 1000 with the record's header
    std::size_t seen_by_other = 0;
    for (int i = 0; i < 40; ++i) {
        write(text);
        seen_by_other += other_.read().size();
    }
    EXPECT_EQ(seen_by_other, 40U);
    const std::size_t kept = one_.read().size();
    EXPECT_EQ(kept, 32U);
    EXPECT_EQ(one_.ring().rnics[0].seen.load(), 40U);
    EXPECT_EQ(one_.ring().rnics[0].lost.load(), 8U);
    EXPECT_EQ(other_.ring().rnics[0].lost.load(), 0U);
    write(text);
    write(text);
    const auto later = one_.read();
    ASSERT_EQ(later.size(), 2U);
    EXPECT_EQ(later[0].record.lost_before, 8U);
    EXPECT_EQ(later[1].record.lost_before, 0U);
}

/// Whatever the filter of packets; those who did not ask for completions get none.
TEST_F(CaptureWriterTest, CompletionsGoToWhoAskedForThem) {
    one_.capture.has_completions = true;
    one_.capture.filters = abi::kFilterQpn;
    one_.capture.snap_bytes = 1;
    writer_.use({&one_.capture, &other_.capture});
    Completion completion;
    completion.wr_id = 0x7fff'0000'1234;
    completion.qp_num = 17;
    completion.wqe_index = 3;
    completion.byte_len = 100;
    completion.status = WcStatus::kWrFlushErr;
    completion.opcode = WcOpcode::kRdmaRead;
    completion.is_recv = true;
    completion.solicited = true;
    writer_.write({0, completion.qp_num, 9}, captured_completion(completion));
    writer_.write({1, completion.qp_num, 9}, captured_completion(completion));
    writer_.publish();
    EXPECT_TRUE(other_.read().empty());
    const auto seen = one_.read();
    ASSERT_EQ(seen.size(), 1U) << "the other RNIC is not captured";
    EXPECT_EQ(seen[0].record.kind, abi::CaptureKind::kCompletion);
    EXPECT_EQ(seen[0].record.qpn, 17U);
    EXPECT_EQ(seen[0].record.time_ns, 9U);
    EXPECT_EQ(seen[0].record.state, abi::kNoState);
    abi::CapturedCompletion shown{};
    ASSERT_EQ(seen[0].bytes.size(), sizeof shown);
    std::memcpy(&shown, seen[0].bytes.data(), sizeof shown);
    EXPECT_EQ(shown.wqe_index, 3U);
    EXPECT_EQ(shown.byte_len, 100U);
    EXPECT_EQ(shown.status, static_cast<std::uint8_t>(WcStatus::kWrFlushErr));
    EXPECT_EQ(shown.opcode, static_cast<std::uint8_t>(WcOpcode::kRdmaRead));
    EXPECT_EQ(shown.is_recv, 1);
    EXPECT_EQ(shown.is_solicited, 1);
    // One more than there is room for, of 72 bytes each.
    for (int i = 0; i < 456; ++i) {
        writer_.write({0, completion.qp_num, 9}, captured_completion(completion));
    }
    writer_.publish();
    EXPECT_EQ(one_.read().size(), 455U);
    EXPECT_EQ(one_.ring().rnics[0].seen.load(), 457U);
    EXPECT_EQ(one_.ring().rnics[0].lost.load(), 1U);
}

TEST_F(CaptureWriterTest, WqesGoToWhoAskedForThem) {
    one_.capture.has_completions = true;
    one_.capture.snap_bytes = 1;
    writer_.use({&one_.capture, &other_.capture});
    EXPECT_TRUE(writer_.is_tracing(0));
    EXPECT_FALSE(writer_.is_tracing(1));
    abi::CapturedWqe wqe{};
    wqe.wqe_index = 7;
    wqe.length_bytes = std::uint64_t{1} << 31U;
    writer_.write({0, 17, 9}, wqe);
    writer_.publish();
    EXPECT_TRUE(other_.read().empty());
    const auto seen = one_.read();
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].record.kind, abi::CaptureKind::kWqe);
    EXPECT_EQ(seen[0].record.qpn, 17U);
    EXPECT_EQ(seen[0].record.time_ns, 9U);
    abi::CapturedWqe shown{};
    ASSERT_EQ(seen[0].bytes.size(), sizeof shown);
    std::memcpy(&shown, seen[0].bytes.data(), sizeof shown);
    EXPECT_EQ(shown.wqe_index, 7U);
    EXPECT_EQ(shown.length_bytes, std::uint64_t{1} << 31U);
    writer_.use({nullptr, &other_.capture});
    EXPECT_FALSE(writer_.is_tracing(0)) << "who captures packets alone gets none";
}

TEST_F(CaptureWriterTest, OneQpAlone) {
    one_.capture.filters = abi::kFilterOwnQp;
    one_.capture.qpn = 17;
    one_.capture.has_completions = true;
    writer_.use({&one_.capture});
    const std::string text = "packet";
    const auto write_all = [&](std::uint32_t qpn) {
        CaptureWriter::Packet sent = packet(text);
        sent.qpn = qpn;
        writer_.write(sent, 7, true, {});
        // Of a frame whose headers make no sense nothing else is known.
        sent.header = nullptr;
        sent.peer = nullptr;
        writer_.write(sent, 7, true, {});
        writer_.write({0, qpn, 8}, abi::CapturedWqe{});
        Completion completion;
        completion.qp_num = qpn;
        writer_.write({0, completion.qp_num, 9}, captured_completion(completion));
        writer_.publish();
    };
    write_all(17);
    EXPECT_EQ(one_.read().size(), 4U);
    write_all(34);  // packets for QP 34 are of the other end
    EXPECT_TRUE(one_.read().empty());
    writer_.write({.rnic = 0, .time = 10}, abi::CapturedPause{});
    writer_.publish();
    EXPECT_EQ(one_.read().size(), 1U) << "pauses of the RNIC hold it up, too";
}

TEST_F(CaptureWriterTest, OneThatHasNoRingHere) {
    one_.capture.rings[kRing] = {};
    one_.capture.has_completions = true;
    writer_.use({&one_.capture, &other_.capture});
    write("packet");
    writer_.write({0, 17, 8}, abi::CapturedWqe{});
    writer_.publish();
    EXPECT_EQ(other_.read().size(), 1U);
}

TEST_F(CaptureWriterTest, WhatIsLostIsToldWhateverPlaceItHas) {
    Reader last;
    writer_.use({&one_.capture, &last.capture});
    const std::string large(20'000, 'x');
    write(large);
    write(large);  // no room
    writer_.use({&last.capture});
    (void)last.read();
    write("small");
    EXPECT_EQ(last.read().at(0).record.lost_before, 1U);
}

TEST_F(CaptureWriterTest, AFateMayChangeUntilItIsPublished) {
    writer_.use({nullptr, &one_.capture});
    CaptureWriter::Records records;
    writer_.write(packet("again"), 7, true, {abi::PacketFate::kSent}, records);
    ASSERT_EQ(records.places, 0b10U);
    records.of[1]->fate = abi::PacketFate::kRetransmission;
    writer_.publish();
    EXPECT_EQ(one_.read().at(0).record.fate, abi::PacketFate::kRetransmission);
}

}  // namespace
}  // namespace urnic::dataplane
