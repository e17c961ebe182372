#include "ulp/rpcrdma/codec/chunk_lists.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/ulp/rpcrdma/codec/header_equal.h"
#include "tests/unit/ulp/rpcrdma/codec/vectors.h"
#include "ulp/rpcrdma/codec/header.h"

namespace urnic::rpcrdma {
namespace {

Segment segment_number(std::size_t number) {
    const auto handle = static_cast<std::uint32_t>(number) + 1;
    return {handle, handle * 16, std::uint64_t{handle} << 32U};
}

TEST(RpcrdmaChunkLists, ReadSegmentsBeyondTheRoomAreCounted) {
    ChunkLists lists;
    for (std::size_t i = 0; i < kMaxReadSegments; ++i) {
        lists.add_read({0, segment_number(i)});
    }
    EXPECT_FALSE(lists.overflowed());
    lists.add_read({0, segment_number(kMaxReadSegments)});
    EXPECT_TRUE(lists.overflowed());
    EXPECT_EQ(lists.reads().size(), kMaxReadSegments);
    EXPECT_EQ(lists.read_segments_seen(), kMaxReadSegments + 1);
    EXPECT_EQ(lists.reads().back().target, segment_number(kMaxReadSegments - 1));
    EXPECT_FALSE(lists.has_handle(kMaxReadSegments + 1));
    lists.clear();
    EXPECT_TRUE(lists.is_empty());
    EXPECT_FALSE(lists.overflowed());
}

TEST(RpcrdmaChunkLists, WriteAndReplySegmentsShareTheRoom) {
    ChunkLists lists;
    lists.begin_write_chunk();
    lists.begin_write_chunk();
    for (std::size_t i = 0; i < kMaxWriteSegments - 1; ++i) {
        lists.add_segment(segment_number(i));
    }
    lists.begin_reply_chunk();
    lists.add_segment(segment_number(kMaxWriteSegments - 1));
    EXPECT_FALSE(lists.overflowed());
    EXPECT_TRUE(lists.write_chunk(0).empty());
    EXPECT_EQ(lists.write_chunk(1).size(), kMaxWriteSegments - 1);
    ASSERT_EQ(lists.reply_chunk().size(), 1U);
    EXPECT_EQ(lists.reply_chunk()[0], segment_number(kMaxWriteSegments - 1));
    EXPECT_TRUE(lists.has_handle(kMaxWriteSegments));
    lists.add_segment(segment_number(kMaxWriteSegments));
    EXPECT_TRUE(lists.overflowed());
    EXPECT_EQ(lists.reply_chunk().size(), 1U);
}

TEST(RpcrdmaChunkLists, AChunkBehindTheLastSegmentThatIsKeptIsEmpty) {
    ChunkLists lists;
    lists.begin_write_chunk();
    for (std::size_t i = 0; i < kMaxWriteSegments + 3; ++i) {
        lists.add_segment(segment_number(i));
    }
    lists.begin_write_chunk();
    lists.add_segment(segment_number(0));
    lists.begin_reply_chunk();
    lists.add_segment(segment_number(1));
    EXPECT_TRUE(lists.overflowed());
    EXPECT_EQ(lists.write_chunk(0).size(), kMaxWriteSegments);
    EXPECT_TRUE(lists.write_chunk(1).empty());
    EXPECT_EQ(lists.write_chunk(1).data(), lists.write_chunk(0).data() + kMaxWriteSegments);
    EXPECT_TRUE(lists.reply_chunk().empty());
}

TEST(RpcrdmaChunkLists, WriteChunksBeyondTheRoomAreCounted) {
    ChunkLists lists;
    for (std::size_t i = 0; i < kMaxWriteChunks; ++i) {
        lists.begin_write_chunk();
        lists.add_segment(segment_number(i));
    }
    EXPECT_FALSE(lists.overflowed());
    lists.begin_write_chunk();
    lists.add_segment(segment_number(kMaxWriteChunks));
    EXPECT_TRUE(lists.overflowed());
    EXPECT_EQ(lists.write_chunk_count(), kMaxWriteChunks);
    EXPECT_EQ(lists.write_chunks_seen(), kMaxWriteChunks + 1);
    ASSERT_EQ(lists.write_chunk(kMaxWriteChunks - 1).size(), 1U);
    EXPECT_EQ(lists.write_chunk(kMaxWriteChunks - 1)[0], segment_number(kMaxWriteChunks - 1));
}

TEST(RpcrdmaChunkLists, ListsThatOverflowedAreNotEncoded) {
    Header header;
    for (std::size_t i = 0; i <= kMaxReadSegments; ++i) {
        header.chunks.add_read({0, segment_number(i)});
    }
    Octets room(4096);
    EXPECT_EQ(encoded_size(header), 0U);
    EXPECT_EQ(encode_header(header, room), 0U);
}

/// A receive may be large enough for more than is kept.
TEST(RpcrdmaChunkLists, AHeaderWithMoreThanIsKeptDecodes) {
    constexpr std::size_t kReads = 5000;
    constexpr std::size_t kChunks = 300;
    constexpr std::size_t kSegments = 400;
    std::vector<std::uint32_t> words = {1, 2, 1, 1, 0, 0};
    for (std::uint32_t i = 0; i < kReads; ++i) {
        words.insert(words.end(), {1, i * 4, i, 1, 0, 0});
    }
    words.push_back(0);
    for (std::uint32_t i = 0; i < kChunks; ++i) {
        words.insert(words.end(), {1, 1, i, 1, 0, 0});
    }
    words.insert(words.end(), {0, 1, kSegments});
    for (std::uint32_t i = 0; i < kSegments; ++i) {
        words.insert(words.end(), {i, 1, 0, 0});
    }
    Header header;
    ASSERT_EQ(decode_header(octets_of(words), 1U << kVersion2, header), DecodeStatus::kOk);
    EXPECT_EQ(header.size, words.size() * 4);
    EXPECT_TRUE(header.chunks.overflowed());
    EXPECT_EQ(header.chunks.read_segments_seen(), kReads);
    EXPECT_EQ(header.chunks.write_chunks_seen(), kChunks);
    EXPECT_EQ(header.chunks.reads().size(), kMaxReadSegments);
    EXPECT_EQ(header.chunks.write_chunk_count(), kMaxWriteChunks);
    EXPECT_TRUE(header.chunks.has_reply_chunk());
}

TEST(RpcrdmaChunkLists, ACopyReplacesAllThatWasThere) {
    ChunkLists lists;
    lists.add_read({160, segment_number(0)});
    lists.begin_write_chunk();
    lists.add_segment(segment_number(1));
    lists.add_segment(segment_number(2));
    lists.begin_write_chunk();
    lists.begin_reply_chunk();
    lists.add_segment(segment_number(3));
    ChunkLists copy;
    for (std::size_t i = 0; i <= kMaxReadSegments; ++i) {
        copy.add_read({0, segment_number(9)});
        copy.begin_write_chunk();
        copy.add_segment(segment_number(9));
    }
    copy = lists;
    EXPECT_TRUE(has_equal_fields(copy, lists));
    EXPECT_FALSE(copy.overflowed());
    EXPECT_EQ(copy.write_chunks_seen(), 2U);
    EXPECT_EQ(copy.encoded_size(), lists.encoded_size());
    EXPECT_FALSE(copy.has_handle(10));
    copy.add_segment(segment_number(4));
    EXPECT_EQ(copy.reply_chunk().size(), 2U);
    copy = ChunkLists(copy);
    EXPECT_EQ(copy.reply_chunk()[1], segment_number(4));
    copy = ChunkLists();
    EXPECT_TRUE(copy.is_empty());
    EXPECT_EQ(copy.first_handle(), 0U);
}

TEST(RpcrdmaChunkLists, TotalLengthDoesNotOverflow) {
    const std::vector<Segment> segments(kMaxWriteSegments, Segment{1, 0xffffffff, 0});
    EXPECT_EQ(total_length(segments), 64 * std::uint64_t{0xffffffff});
    EXPECT_EQ(total_length({}), 0U);
}

}  // namespace
}  // namespace urnic::rpcrdma
