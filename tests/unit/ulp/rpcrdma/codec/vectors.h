/// RPC-over-RDMA messages worked out by hand, as words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "ulp/rpcrdma/codec/xdr.h"

namespace urnic::rpcrdma {

using Octets = std::vector<std::byte>;

inline Octets octets_of(std::span<const std::uint32_t> words) {
    Octets octets(words.size() * 4);
    XdrWriter out(octets);
    for (const std::uint32_t word : words) {
        out.u32(word);
    }
    return octets;
}
inline Octets octets_of(std::initializer_list<std::uint32_t> words) {
    return octets_of(std::span(words.begin(), words.size()));
}

struct Vector {
    const char* name;
    std::size_t header_octets;
    std::vector<std::uint32_t> words;
    [[nodiscard]] Octets octets() const { return octets_of(words); }
};

/// NFSv4 NULL: RPC version 2, program 100003, version 4, procedure 0, no credential, no verifier.
inline const Vector kNullCall2 = {
    "null_call_2", 36, {0x11223344, 2, 0x20, 0, 0, 0, 0, 0, 0, 0x11223344, 0, 2, 0x186a3, 4, 0, 0, 0, 0, 0}};
inline const Vector kNullCall1 = {
    "null_call_1", 28, {0x11223344, 1, 0x20, 0, 0, 0, 0, 0x11223344, 0, 2, 0x186a3, 4, 0, 0, 0, 0, 0}};
/// A Read chunk of two segments at position 160, a Reply chunk; the Read chunk's first handle may be
/// invalidated. Only the header.
inline const Vector kChunkedCall = {
    "chunked_call", 104, {0x11223345, 2,      0x20,   0, 0,      0xa101, 1,      0xa0,   0xa101,
                          0x1000,     0x7f00, 0x1000, 1, 0xa0,   0xa102, 0x64,   0x7f00, 0x2000,
                          0,          0,      1,      1, 0xb201, 0x2000, 0x7f00, 0x10000}};
/// A Write chunk with room for 8192 octets holds 5000. Only the header.
inline const Vector kReplyWithWriteChunk = {
    "reply_write_chunk", 60, {0x11223346, 2, 0x10, 0, 1, 0, 0, 1, 1, 0xc301, 0x1388, 0x7f00, 0x20000, 0, 0}};
inline const Vector kErrVers = {"err_vers", 28, {0x11223344, 2, 0x10, 4, 1, 1, 1}};
inline const Vector kErrReadChunks = {"err_read_chunks", 24, {0x11223345, 2, 0x10, 4, 4, 0}};
inline const Vector kErrWriteResource = {"err_write_resource", 28, {0x11223346, 2, 0x10, 4, 7, 1, 0x2ee0}};
inline const Vector kErrReplyResource = {"err_reply_resource", 24, {0x11223345, 2, 0x10, 4, 8, 0x2328}};
inline const Vector kOptional = {"optional", 32, {0x55, 2, 0x20, 5, 0, 0x1234, 3, 0x61626300}};
inline const Vector kErrInvalOption = {"err_inval_option", 20, {0x55, 2, 0x10, 4, 9}};
/// RBSIZ 8192, BRS GENL; BRS will not change.
inline const Vector kConnprop = {"connprop", 52, {0, 2, 1, 6, 2, 1, 4, 0x2000, 2, 4, 2, 1, 2}};
/// RBSIZ 65536 is asked for, 16384 is what the answer sets.
inline const Vector kReqprop = {"reqprop", 32, {0x77, 2, 0x20, 7, 1, 1, 4, 0x10000}};
inline const Vector kResprop = {"resprop", 40, {0x77, 2, 0x20, 8, 0, 0, 1, 1, 4, 0x4000}};

inline const std::array kVectors = {&kNullCall2, &kNullCall1,      &kChunkedCall,      &kReplyWithWriteChunk,
                                    &kErrVers,   &kErrReadChunks,  &kErrWriteResource, &kErrReplyResource,
                                    &kOptional,  &kErrInvalOption, &kConnprop,         &kReqprop,
                                    &kResprop};

}  // namespace urnic::rpcrdma
