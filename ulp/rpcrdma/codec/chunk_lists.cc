#include "ulp/rpcrdma/codec/chunk_lists.h"

#include <algorithm>

namespace urnic::rpcrdma {

ChunkLists& ChunkLists::operator=(const ChunkLists& other) {
    if (this != &other) {
        std::copy_n(other.reads_.begin(), kept(other.read_count_, kMaxReadSegments), reads_.begin());
        std::copy_n(other.segments_.begin(), kept(other.segment_count_, kMaxWriteSegments),
                    segments_.begin());
        std::copy_n(other.chunks_.begin(), kept(other.chunk_count_, kMaxWriteChunks), chunks_.begin());
        reply_ = other.reply_;
        read_count_ = other.read_count_;
        chunk_count_ = other.chunk_count_;
        segment_count_ = other.segment_count_;
        has_reply_ = other.has_reply_;
    }
    return *this;
}

void ChunkLists::clear() {
    reply_ = {};
    read_count_ = 0;
    chunk_count_ = 0;
    segment_count_ = 0;
    has_reply_ = false;
}

void ChunkLists::add_read(const ReadSegment& segment) {
    if (read_count_ < kMaxReadSegments) {
        reads_[read_count_] = segment;
    }
    ++read_count_;
}

ChunkLists::Range ChunkLists::range_from_here() const {
    return {static_cast<std::uint16_t>(kept(segment_count_, kMaxWriteSegments)), 0};
}

void ChunkLists::begin_write_chunk() {
    if (chunk_count_ < kMaxWriteChunks) {
        chunks_[chunk_count_] = range_from_here();
    }
    ++chunk_count_;
}

void ChunkLists::begin_reply_chunk() {
    reply_ = range_from_here();
    has_reply_ = true;
}

void ChunkLists::add_segment(const Segment& segment) {
    if (segment_count_ < kMaxWriteSegments) {
        segments_[segment_count_] = segment;
        if (has_reply_) {
            ++reply_.count;
        } else if (chunk_count_ != 0 && chunk_count_ <= kMaxWriteChunks) {
            ++chunks_[chunk_count_ - 1].count;
        }
    }
    ++segment_count_;
}

bool ChunkLists::has_handle(std::uint32_t handle) const {
    return std::ranges::any_of(reads(),
                               [&](const ReadSegment& read) { return read.target.handle == handle; }) ||
           std::ranges::any_of(write_segments(),
                               [&](const Segment& segment) { return segment.handle == handle; });
}

std::uint32_t ChunkLists::first_handle() const {
    if (read_count_ != 0) {
        return reads_[0].target.handle;
    }
    return segment_count_ != 0 ? segments_[0].handle : 0;
}

std::size_t ChunkLists::encoded_size() const {
    constexpr std::size_t kWord = 4;
    constexpr std::size_t kReadEntry = 24;
    constexpr std::size_t kChunk = 8;  // the word that says that there is one, and the count
    constexpr std::size_t kSegment = 16;
    std::size_t octets = reads().size() * kReadEntry + kWord;
    for (std::size_t chunk = 0; chunk < write_chunk_count(); ++chunk) {
        octets += kChunk + write_chunk(chunk).size() * kSegment;
    }
    return octets + kWord + (has_reply_ ? kChunk + reply_chunk().size() * kSegment : kWord);
}

std::uint64_t total_length(std::span<const Segment> segments) {
    std::uint64_t total = 0;
    for (const Segment& segment : segments) {
        total += segment.length;
    }
    return total;
}

}  // namespace urnic::rpcrdma
