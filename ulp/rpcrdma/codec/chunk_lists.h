/// The chunk lists of a transport header: which memory of the requester holds arguments and takes results
/// (RFC 8166, section 3.4; version 2 draft of July 2017, section 7.2).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace urnic::rpcrdma {

/// Memory of the requester (rpcrdma2_segment, 16 octets): an R_Key, octets, an address. Without initial
/// values: a header has room for a hundred of these and mostly uses none.
struct Segment {
    std::uint32_t handle;
    std::uint32_t length;
    std::uint64_t offset;
    friend bool operator==(const Segment&, const Segment&) = default;
};

/// Memory that the responder reads. `position`: where its data belongs in the payload stream before anything
/// was taken out, in octets, a multiple of 4; 0: the whole Call. Segments of one position, in the order of
/// the list, are one chunk.
struct ReadSegment {
    std::uint32_t position;
    Segment target;
    friend bool operator==(const ReadSegment&, const ReadSegment&) = default;
};

/// Most segments of a header that are kept: Read segments, and those of all Write chunks and the Reply chunk
/// together. A header in a receive of 4096 octets has room for 168 Read segments; who sends more than this is
/// told the limit (ERR_SEGMENTS).
inline constexpr std::size_t kMaxReadSegments = 64;
inline constexpr std::size_t kMaxWriteSegments = 64;
inline constexpr std::size_t kMaxWriteChunks = 16;

/// The Read list, the Write list and the Reply chunk. What exceeds the room is counted, not kept, and
/// `overflowed()`.
class ChunkLists {
  public:
    ChunkLists() {}  // NOLINT(modernize-use-equals-default): = default would clear all of it in Header{}
    ~ChunkLists() = default;
    /// Copies what is kept alone.
    ChunkLists(const ChunkLists& other) { *this = other; }
    ChunkLists& operator=(const ChunkLists& other);
    void clear();
    void add_read(const ReadSegment& segment);
    /// Begins a Write chunk; add_segment() adds to it.
    void begin_write_chunk();
    /// Begins the Reply chunk, after all Write chunks.
    void begin_reply_chunk();
    void add_segment(const Segment& segment);

    [[nodiscard]] std::span<const ReadSegment> reads() const {
        return std::span(reads_).first(kept(read_count_, kMaxReadSegments));
    }
    [[nodiscard]] std::size_t write_chunk_count() const { return kept(chunk_count_, kMaxWriteChunks); }
    [[nodiscard]] std::span<const Segment> write_chunk(std::size_t index) const {
        return segments_of(chunks_[index]);
    }
    [[nodiscard]] bool has_reply_chunk() const { return has_reply_; }
    [[nodiscard]] std::span<const Segment> reply_chunk() const {
        return has_reply_ ? segments_of(reply_) : std::span<const Segment>();
    }
    /// Those of all Write chunks and the Reply chunk, as far as they are kept.
    [[nodiscard]] std::span<const Segment> write_segments() const {
        return std::span(segments_).first(kept(segment_count_, kMaxWriteSegments));
    }
    [[nodiscard]] bool is_empty() const { return read_count_ == 0 && chunk_count_ == 0 && !has_reply_; }
    /// Returns whether the header had more segments or chunks than are kept.
    [[nodiscard]] bool overflowed() const {
        return read_count_ > kMaxReadSegments || chunk_count_ > kMaxWriteChunks ||
               segment_count_ > kMaxWriteSegments;
    }
    /// As many as the header had, kept or not.
    [[nodiscard]] std::size_t read_segments_seen() const { return read_count_; }
    [[nodiscard]] std::size_t write_chunks_seen() const { return chunk_count_; }
    /// Returns whether one of the handles of these lists is `handle`, of those that are kept.
    [[nodiscard]] bool has_handle(std::uint32_t handle) const;
    /// The first handle of the Read list, Write list, Reply chunk, in this order; 0: no segment.
    [[nodiscard]] std::uint32_t first_handle() const;
    /// Octets of the three lists in a header (the same in both versions), of what is kept.
    [[nodiscard]] std::size_t encoded_size() const;

  private:
    struct Range {
        std::uint16_t first;
        std::uint16_t count;
    };
    [[nodiscard]] static std::size_t kept(std::size_t seen, std::size_t most) {
        return seen < most ? seen : most;
    }
    [[nodiscard]] Range range_from_here() const;
    [[nodiscard]] std::span<const Segment> segments_of(Range range) const {
        return std::span(segments_).subspan(range.first, range.count);
    }

    // Only what is counted is ever read, and a header is made for each message.
    std::array<ReadSegment, kMaxReadSegments> reads_;
    std::array<Segment, kMaxWriteSegments> segments_;
    std::array<Range, kMaxWriteChunks> chunks_;
    Range reply_{};
    std::size_t read_count_ = 0;
    std::size_t chunk_count_ = 0;
    std::size_t segment_count_ = 0;
    bool has_reply_ = false;
};

/// The octets of all segments together; no sum of 64 segments overflows.
[[nodiscard]] std::uint64_t total_length(std::span<const Segment> segments);

}  // namespace urnic::rpcrdma
