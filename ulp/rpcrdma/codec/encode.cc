#include "ulp/rpcrdma/codec/error_arms.h"
#include "ulp/rpcrdma/codec/header.h"
#include "ulp/rpcrdma/codec/xdr.h"

namespace urnic::rpcrdma {
namespace {

void write_segment(XdrWriter& out, const Segment& segment) {
    out.u32(segment.handle);
    out.u32(segment.length);
    out.u64(segment.offset);
}

void write_chunk(XdrWriter& out, std::span<const Segment> segments) {
    out.boolean(true);
    out.u32(static_cast<std::uint32_t>(segments.size()));
    for (const Segment& segment : segments) {
        write_segment(out, segment);
    }
}

void write_chunk_lists(XdrWriter& out, const ChunkLists& chunks) {
    for (const ReadSegment& read : chunks.reads()) {
        out.boolean(true);
        out.u32(read.position);
        write_segment(out, read.target);
    }
    out.boolean(false);
    for (std::size_t chunk = 0; chunk < chunks.write_chunk_count(); ++chunk) {
        write_chunk(out, chunks.write_chunk(chunk));
    }
    out.boolean(false);
    if (chunks.has_reply_chunk()) {
        write_chunk(out, chunks.reply_chunk());
    } else {
        out.boolean(false);
    }
}

/// Version 1 can say no more than that a header was not understood (RFC 8166, section 4.5).
ErrorCode code_in_version(std::uint32_t version, ErrorCode code) {
    return version == kVersion1 && code != ErrorCode::kVers ? ErrorCode::kBadXdr : code;
}

std::optional<std::size_t> encoded_error_words(const Header& header) {
    const ErrorCode code = code_in_version(header.version, header.error.code);
    return error_words(header.version, static_cast<std::uint32_t>(code));
}

void write_error(XdrWriter& out, const Header& header) {
    const std::size_t words = encoded_error_words(header).value_or(0);
    out.u32(static_cast<std::uint32_t>(code_in_version(header.version, header.error.code)));
    if (words > 0) {
        out.u32(header.error.first);
    }
    if (words > 1) {
        out.u32(header.error.second);
    }
}

void write_octets(XdrWriter& out, std::span<const std::byte> words) {
    XdrReader in(words);
    while (in.remaining() != 0) {
        out.u32(in.u32());
    }
}

void write_arm(XdrWriter& out, const Header& header) {
    switch (header.proc) {
        case Proc::kMsg:
        case Proc::kNomsg:
            if (header.version != kVersion1) {
                out.u32(static_cast<std::uint32_t>(header.direction));
                out.u32(header.inv_handle);
            }
            write_chunk_lists(out, header.chunks);
            return;
        case Proc::kError:
            write_error(out, header);
            return;
        case Proc::kOptional:
            out.u32(static_cast<std::uint32_t>(header.direction));
            out.u32(header.option);
            out.opaque(header.body);
            return;
        default:
            write_octets(out, header.body);
    }
}

}  // namespace

std::size_t encoded_size(const Header& header) {
    const bool is_version_1 = header.version == kVersion1;
    switch (header.proc) {
        case Proc::kMsg:
        case Proc::kNomsg:
            if (header.chunks.overflowed()) {
                return 0;
            }
            return kFixedHeaderOctets + (is_version_1 ? 0 : 8) + header.chunks.encoded_size();
        case Proc::kError: {
            const std::optional<std::size_t> words = encoded_error_words(header);
            return words ? kFixedHeaderOctets + 4 + 4 * *words : 0;
        }
        case Proc::kOptional:
            return is_version_1 ? 0 : kFixedHeaderOctets + 12 + xdr_padded(header.body.size());
        case Proc::kConnprop:
        case Proc::kReqprop:
        case Proc::kResprop:
        case Proc::kUpdprop:
            return is_version_1 || header.body.size() % 4 != 0 ? 0 : kFixedHeaderOctets + header.body.size();
        case Proc::kMsgp:
        case Proc::kDone:
            break;
    }
    return 0;
}

std::size_t encode_header(const Header& header, std::span<std::byte> room) {
    const std::size_t octets = encoded_size(header);
    if (octets == 0 || octets > room.size()) {
        return 0;
    }
    XdrWriter out(room.first(octets));
    out.u32(header.xid);
    out.u32(header.version);
    out.u32(header.credits);
    out.u32(static_cast<std::uint32_t>(header.proc));
    write_arm(out, header);
    return out.failed() ? 0 : out.size();
}

}  // namespace urnic::rpcrdma
