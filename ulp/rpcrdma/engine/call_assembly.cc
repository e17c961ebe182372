#include "ulp/rpcrdma/engine/call_assembly.h"

#include <algorithm>

#include "ulp/rpcrdma/codec/xdr.h"

namespace urnic::rpcrdma {

namespace {

/// The segments of the Read list that begin at `reads` and are of one position.
std::span<const ReadSegment> first_chunk(std::span<const ReadSegment> reads) {
    const auto end = std::find_if(reads.begin(), reads.end(), [&](const ReadSegment& segment) {
        return segment.position != reads.front().position;
    });
    return reads.first(static_cast<std::size_t>(end - reads.begin()));
}

std::uint64_t chunk_octets(std::span<const ReadSegment> chunk) {
    std::uint64_t octets = 0;
    for (const ReadSegment& segment : chunk) {
        octets += segment.target.length;
    }
    return octets;
}

bool wraps(const Segment& segment) { return segment.offset + segment.length < segment.offset; }

bool any_wraps(const ChunkLists& chunks) {
    const auto is_read_beyond = [](const ReadSegment& read) { return wraps(read.target); };
    return std::ranges::any_of(chunks.reads(), is_read_beyond) ||
           std::ranges::any_of(chunks.write_segments(), wraps);
}

/// Whether two results, or a result and the Reply, would be written to the same octets: the Reply could not
/// be what it says. Segments that are read may overlap: one buffer may be two arguments.
bool any_overlaps(std::span<const Segment> written) {
    for (std::size_t i = 0; i < written.size(); ++i) {
        const Segment& one = written[i];
        const bool is_shared = std::ranges::any_of(written.subspan(i + 1), [&](const Segment& other) {
            return one.handle == other.handle && one.length != 0 && other.length != 0 &&
                   one.offset < other.offset + other.length && other.offset < one.offset + one.length;
        });
        if (is_shared) {
            return true;
        }
    }
    return false;
}

CallFault check_limits(const ChunkLists& chunks, const Limits& limits) {
    std::uint32_t read_chunks = 0;
    std::size_t most_segments = chunks.reply_chunk().size();
    for (std::span<const ReadSegment> reads = chunks.reads(); !reads.empty();) {
        const std::span<const ReadSegment> chunk = first_chunk(reads);
        // The Position-Zero chunk is the Call itself, no argument.
        read_chunks += chunk.front().position != 0 ? 1 : 0;
        most_segments = std::max(most_segments, chunk.size());
        reads = reads.subspan(chunk.size());
    }
    if (chunks.write_chunks_seen() > limits.max_write_chunks ||
        chunks.write_chunks_seen() > kMaxWriteChunks) {
        return limits.max_write_chunks == 0 ? CallFault::kNoWriteChunks : CallFault::kWriteChunks;
    }
    for (std::size_t i = 0; i < chunks.write_chunk_count(); ++i) {
        most_segments = std::max(most_segments, chunks.write_chunk(i).size());
    }
    if (chunks.overflowed() || most_segments > limits.max_segments) {
        return CallFault::kSegments;
    }
    return read_chunks > limits.max_read_chunks ? CallFault::kReadChunks : CallFault::kNone;
}

/// Where the stream comes from: the octets behind the header, or the Position-Zero Read chunk.
class StreamSource {
  public:
    StreamSource(std::span<const std::byte> payload, std::span<const ReadSegment> chunk)
        : payload_(payload), chunk_(chunk) {}

    /// Moves `into.size()` octets; returns the RDMA READs of it.
    std::uint32_t take(std::span<std::byte> into, std::uint32_t id, Outbox& outbox) {
        if (chunk_.empty()) {
            std::copy_n(payload_.begin(), into.size(), into.begin());
            payload_ = payload_.subspan(into.size());
            return 0;
        }
        std::uint32_t reads = 0;
        while (!into.empty()) {
            const Segment& segment = chunk_.front().target;
            const auto octets =
                static_cast<std::uint32_t>(std::min<std::size_t>(segment.length - used_, into.size()));
            if (octets == 0) {
                chunk_ = chunk_.subspan(1);
                used_ = 0;
                continue;
            }
            outbox.read(id, {segment.handle, octets, segment.offset + used_}, into.first(octets));
            ++reads;
            used_ += octets;
            into = into.subspan(octets);
        }
        return reads;
    }

  private:
    std::span<const std::byte> payload_;
    std::span<const ReadSegment> chunk_;
    std::uint32_t used_ = 0;
};

}  // namespace

CallFault check_call(const Header& header, std::size_t payload_octets, const Limits& limits,
                     std::uint64_t& call_octets) {
    if (any_wraps(header.chunks) || any_overlaps(header.chunks.write_segments())) {
        return CallFault::kBadXdr;
    }
    const CallFault fault = check_limits(header.chunks, limits);
    if (fault != CallFault::kNone) {
        return fault;
    }
    std::span<const ReadSegment> reads = header.chunks.reads();
    const bool has_position_zero = !reads.empty() && reads.front().position == 0;
    if (has_position_zero != (header.proc == Proc::kNomsg) || (has_position_zero && payload_octets != 0)) {
        return CallFault::kBadXdr;
    }
    std::uint64_t stream = payload_octets;
    if (has_position_zero) {
        stream = chunk_octets(first_chunk(reads));
        reads = reads.subspan(first_chunk(reads).size());
    }
    std::uint64_t taken_out = 0;
    std::uint64_t end = 0;  // of the chunk in front
    while (!reads.empty()) {
        const std::span<const ReadSegment> chunk = first_chunk(reads);
        // As many octets of the stream are in front of a chunk as its position says, less those of the chunks
        // in front of it.
        const std::uint64_t position = chunk.front().position;
        if (position < end || position - taken_out > stream) {
            return CallFault::kBadXdr;
        }
        const std::uint64_t octets = xdr_padded(chunk_octets(chunk));
        taken_out += octets;
        end = position + octets;
        reads = reads.subspan(chunk.size());
    }
    call_octets = stream + taken_out;
    return call_octets > limits.max_call_octets ? CallFault::kTooLong
           : call_octets < 8                    ? CallFault::kBadXdr
                                                : CallFault::kNone;
}

std::uint32_t assemble_call(const Header& header, std::span<const std::byte> payload,
                            std::span<std::byte> call, std::uint32_t id, Outbox& outbox) {
    std::span<const ReadSegment> reads = header.chunks.reads();
    std::span<const ReadSegment> whole;
    if (!reads.empty() && reads.front().position == 0) {
        whole = first_chunk(reads);
        reads = reads.subspan(whole.size());
    }
    StreamSource source(payload, whole);
    std::uint32_t count = 0;
    std::size_t at = 0;
    while (!reads.empty()) {
        const std::span<const ReadSegment> chunk = first_chunk(reads);
        count += source.take(call.subspan(at, chunk.front().position - at), id, outbox);
        at = chunk.front().position;
        for (const ReadSegment& segment : chunk) {
            if (segment.target.length != 0) {
                outbox.read(id, segment.target, call.subspan(at, segment.target.length));
                ++count;
            }
            at += segment.target.length;
        }
        const std::size_t padded = chunk.front().position + xdr_padded(at - chunk.front().position);
        std::fill(call.begin() + static_cast<std::ptrdiff_t>(at),
                  call.begin() + static_cast<std::ptrdiff_t>(padded), std::byte{0});
        at = padded;
        reads = reads.subspan(chunk.size());
    }
    return count + source.take(call.subspan(at), id, outbox);
}

}  // namespace urnic::rpcrdma
