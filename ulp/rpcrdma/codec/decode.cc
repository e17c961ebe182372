#include "ulp/rpcrdma/codec/error_arms.h"
#include "ulp/rpcrdma/codec/header.h"
#include "ulp/rpcrdma/codec/properties.h"
#include "ulp/rpcrdma/codec/xdr.h"

namespace urnic::rpcrdma {
namespace {

Segment read_segment(XdrReader& in) {
    Segment segment{};
    segment.handle = in.u32();
    segment.length = in.u32();
    segment.offset = in.u64();
    return segment;
}

Direction read_direction(XdrReader& in) {
    const std::uint32_t value = in.u32();
    if (value > static_cast<std::uint32_t>(Direction::kReply)) {
        in.fail();
    }
    return value == static_cast<std::uint32_t>(Direction::kReply) ? Direction::kReply : Direction::kCall;
}

/// Positions are octets of an XDR stream, where items begin at words, and are sorted (RFC 8166, section
/// 3.4.4).
void read_read_list(XdrReader& in, ChunkLists& chunks) {
    std::uint32_t last_position = 0;
    while (in.boolean()) {
        ReadSegment segment{};
        segment.position = in.u32();
        segment.target = read_segment(in);
        if (in.failed() || segment.position % 4 != 0 || segment.position < last_position) {
            in.fail();
            return;
        }
        last_position = segment.position;
        chunks.add_read(segment);
    }
}

/// The segments of the chunk that was begun. A count is believed only as far as the message has octets.
void read_chunk(XdrReader& in, ChunkLists& chunks) {
    constexpr std::size_t kSegmentOctets = 16;
    const std::size_t count = in.u32();
    if (count > in.remaining() / kSegmentOctets) {
        in.fail();
        return;
    }
    for (std::size_t i = 0; i < count; ++i) {
        chunks.add_segment(read_segment(in));
    }
}

void read_chunk_lists(XdrReader& in, ChunkLists& chunks) {
    read_read_list(in, chunks);
    while (in.boolean()) {
        chunks.begin_write_chunk();
        read_chunk(in, chunks);
    }
    if (in.boolean()) {
        chunks.begin_reply_chunk();
        read_chunk(in, chunks);
    }
}

void read_error(XdrReader& in, Header& header) {
    const std::uint32_t code = in.u32();
    const std::optional<std::size_t> words = error_words(header.version, code);
    header.direction = Direction::kReply;
    if (!words) {
        in.fail();
        return;
    }
    header.error.code = static_cast<ErrorCode>(code);
    header.error.first = *words > 0 ? in.u32() : 0;
    header.error.second = *words > 1 ? in.u32() : 0;
}

/// Version 1 has no field for it (RFC 8167, section 5.1).
Direction direction_of_version_1(XdrReader& behind_header, const Header& header) {
    if (header.proc == Proc::kMsg) {
        (void)behind_header.u32();  // XID of the RPC message
        return read_direction(behind_header);
    }
    const std::span<const ReadSegment> reads = header.chunks.reads();
    const bool has_position_zero = !reads.empty() && reads.front().position == 0;
    return header.chunks.has_reply_chunk() && !has_position_zero ? Direction::kReply : Direction::kCall;
}

void read_message(XdrReader& in, Header& header) {
    if (header.version != kVersion1) {
        header.direction = read_direction(in);
        header.inv_handle = in.u32();
        read_chunk_lists(in, header.chunks);
        header.size = in.position();
        return;
    }
    read_chunk_lists(in, header.chunks);
    header.size = in.position();
    header.direction = direction_of_version_1(in, header);
}

void read_option(XdrReader& in, Header& header) {
    header.direction = read_direction(in);
    header.option = in.u32();
    header.body = in.opaque(in.remaining());
}

void read_properties(XdrReader& in, Header& header) {
    PropertyBody checked;
    std::size_t octets = 0;
    if (!decode_properties(header.proc, in.rest(), checked, octets)) {
        in.fail();
        return;
    }
    header.body = in.rest().first(octets);
    header.size = in.position() + octets;
}

bool is_known(std::uint32_t version, Proc proc) {
    switch (proc) {
        case Proc::kMsg:
        case Proc::kNomsg:
        case Proc::kError:
            return true;
        case Proc::kOptional:
        case Proc::kConnprop:
        case Proc::kReqprop:
        case Proc::kResprop:
        case Proc::kUpdprop:
            return version != kVersion1;
        case Proc::kMsgp:
        case Proc::kDone:
            break;
    }
    return false;
}

void read_arm(XdrReader& in, Header& header) {
    switch (header.proc) {
        case Proc::kMsg:
        case Proc::kNomsg:
            read_message(in, header);
            return;
        case Proc::kError:
            read_error(in, header);
            header.size = in.position();
            return;
        case Proc::kOptional:
            read_option(in, header);
            header.size = in.position();
            return;
        default:
            read_properties(in, header);
    }
}

/// The chunk lists are emptied in place: they are most of a header's octets.
void reset(Header& header) {
    header.xid = 0;
    header.version = kVersion2;
    header.credits = 0;
    header.proc = Proc::kMsg;
    header.direction = Direction::kCall;
    header.inv_handle = 0;
    header.chunks.clear();
    header.error = {};
    header.option = 0;
    header.body = {};
    header.size = 0;
}

}  // namespace

DecodeStatus decode_header(std::span<const std::byte> message, std::uint32_t versions, Header& header) {
    reset(header);
    XdrReader in(message);
    header.xid = in.u32();
    header.version = in.u32();
    if (in.failed()) {
        return DecodeStatus::kTooShort;
    }
    header.credits = in.u32();
    header.proc = static_cast<Proc>(in.u32());
    const bool is_served = header.version < 32 && (versions >> header.version & 1U) != 0;
    if (!is_served) {
        // Who looks for a version that both have must understand a refusal in any.
        if (header.proc == Proc::kError) {
            read_error(in, header);
            header.size = in.position();
        }
        const bool is_refusal =
            header.proc == Proc::kError && !in.failed() && header.error.code == ErrorCode::kVers;
        return is_refusal ? DecodeStatus::kOk : DecodeStatus::kVersion;
    }
    if (in.failed()) {
        return DecodeStatus::kBadXdr;
    }
    if (!is_known(header.version, header.proc)) {
        return DecodeStatus::kUnknownProc;
    }
    read_arm(in, header);
    return in.failed() ? DecodeStatus::kBadXdr : DecodeStatus::kOk;
}

}  // namespace urnic::rpcrdma
