/// Transport headers of RPC-over-RDMA versions 1 (RFC 8166) and 2 (Internet-Draft of 17 July 2017), as
/// values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ulp/rpcrdma/codec/chunk_lists.h"

namespace urnic::rpcrdma {

inline constexpr std::uint32_t kVersion1 = 1;
inline constexpr std::uint32_t kVersion2 = 2;
/// Octets of a SEND that every receiver of a version takes (draft, section 3.3; RFC 8166, section 3.3.2).
inline constexpr std::uint32_t kInlineThreshold1 = 1024;
inline constexpr std::uint32_t kInlineThreshold2 = 4096;
/// xid, vers, credit, proc.
inline constexpr std::size_t kFixedHeaderOctets = 16;
/// The TCP port of NFS over RDMA (IANA).
inline constexpr std::uint16_t kNfsRdmaPort = 20049;

/// rdma_proc (draft, 7.2; RFC 8166, 4.1). 2 and 3 are of version 1 alone and may not be used.
enum class Proc : std::uint32_t {
    kMsg = 0,
    kNomsg = 1,
    kMsgp = 2,
    kDone = 3,
    kError = 4,
    kOptional = 5,
    kConnprop = 6,
    kReqprop = 7,
    kResprop = 8,
    kUpdprop = 9,
};

/// rdma_direction, and msg_type of an RPC message (RFC 5531).
enum class Direction : std::uint32_t { kCall = 0, kReply = 1 };

/// rpcrdma2_errcode (draft, 7.2.4). Version 1 has the first two; its ERR_CHUNK is kBadXdr.
enum class ErrorCode : std::uint32_t {
    kVers = 1,
    kBadXdr = 2,
    kInvalProc = 3,
    kReadChunks = 4,
    kWriteChunks = 5,
    kSegments = 6,
    kWriteResource = 7,
    kReplyResource = 8,
    kInvalOption = 9,
    kSystem = 10,
};

/// What an error says beside its code.
struct ErrorBody {
    ErrorCode code = ErrorCode::kSystem;
    /// kVers: the lowest version served. kReadChunks, kWriteChunks, kSegments: the most that are taken.
    /// kWriteResource: the first Write chunk that is too short, from 1; 0: not known. kReplyResource: octets
    /// needed.
    std::uint32_t first = 0;
    /// kVers: the highest version served. kWriteResource: octets that the chunk needs.
    std::uint32_t second = 0;
    friend bool operator==(const ErrorBody&, const ErrorBody&) = default;
};

/// One header, decoded. The views are of the octets it was decoded from.
struct Header {
    std::uint32_t xid = 0;
    std::uint32_t version = kVersion2;
    /// Credits asked for (Call) or granted (Reply).
    std::uint32_t credits = 0;
    Proc proc = Proc::kMsg;
    /// kMsg, kNomsg of version 2; kOptional. In version 1 the RPC message tells: see decode_header().
    Direction direction = Direction::kCall;
    /// kMsg, kNomsg of version 2: the handle that the responder may invalidate; 0: none.
    std::uint32_t inv_handle = 0;
    ChunkLists chunks;         ///< kMsg, kNomsg
    ErrorBody error;           ///< kError
    std::uint32_t option = 0;  ///< kOptional: rdma_opttype
    /// kOptional: rdma_optinfo. kConnprop to kUpdprop: the arm as XDR, checked, for properties.h.
    std::span<const std::byte> body;
    /// Octets of the header: the payload stream is behind.
    std::size_t size = 0;
};

/// What decoding found (the order of checks is that of section 7.2.4).
enum class DecodeStatus : std::uint8_t {
    kOk,
    kTooShort,     ///< not even xid and vers: cannot be answered
    kVersion,      ///< vers is not served: answer ERR_VERS
    kUnknownProc,  ///< answer ERR_INVAL_PROC (version 1: ERR_CHUNK); MSGP and DONE are unknown as well
    kBadXdr,       ///< answer ERR_BAD_XDR (version 1: ERR_CHUNK)
};

/// Decodes the header in front of `message`. `versions`: bit N stands for version N served. Lists are read by
/// loops; counts and positions are checked (positions are multiples of 4 and never decrease). With kVersion,
/// kUnknownProc and kBadXdr, xid, version, credits and proc are set as far as the message has them; what has
/// proc kError is never answered. An ERR_VERS is decoded whatever its version says (draft, section 8). In
/// version 1 the direction is that of the RPC message: its second word behind the header (kMsg; kBadXdr if
/// there is none or it is no msg_type), for kNomsg kReply if there is a Reply chunk without a Position-Zero
/// Read chunk. kError is always a Reply (RFC 8167, section 5.1). What is behind a header that has no payload
/// is not looked at, nor is inv_handle.
[[nodiscard]] DecodeStatus decode_header(std::span<const std::byte> message, std::uint32_t versions,
                                         Header& header);

/// Encodes; the octets written, or 0 if the room is too small, the lists overflowed, or the version has no
/// such proc. kConnprop to kUpdprop and kOptional write `body` as it is (kOptional as an opaque). Version 1
/// has kMsg, kNomsg and kError alone, and of errors kVers and kBadXdr: others become kBadXdr.
[[nodiscard]] std::size_t encode_header(const Header& header, std::span<std::byte> room);

/// The octets that encode_header() will write; 0: it has no encoding.
[[nodiscard]] std::size_t encoded_size(const Header& header);

/// Of a message with chunk lists that are empty: 36 in version 2, 28 in version 1.
[[nodiscard]] constexpr std::size_t least_message_header(std::uint32_t version) {
    return version == kVersion1 ? 28 : 36;
}

}  // namespace urnic::rpcrdma
