#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/unit/ulp/rpcrdma/codec/vectors.h"
#include "ulp/rpcrdma/codec/header.h"

namespace urnic::rpcrdma {
namespace {

constexpr std::uint32_t kOnly1 = 1U << kVersion1;
constexpr std::uint32_t kOnly2 = 1U << kVersion2;

DecodeStatus status_of(const Octets& octets, std::uint32_t versions, Header& header) {
    // Of a size of its own, so that ASan sees one octet too far.
    const Octets exact(octets.begin(), octets.end());
    const DecodeStatus status = decode_header(exact, versions, header);
    header.body = {};  // of octets that are gone
    return status;
}
DecodeStatus status_of(std::initializer_list<std::uint32_t> words) {
    Header header;
    return status_of(octets_of(words), kOnly1 | kOnly2, header);
}

/// The header in front of `words`, which must be good.
Header header_of(std::initializer_list<std::uint32_t> words) {
    Header header;
    EXPECT_EQ(status_of(octets_of(words), kOnly1 | kOnly2, header), DecodeStatus::kOk);
    return header;
}

TEST(RpcrdmaDecode, EveryPrefixIsTooShortOrBadXdr) {
    for (const Vector* vector : kVectors) {
        const Octets octets = vector->octets();
        const bool has_rpc_direction = vector->words[1] == kVersion1 && vector->words[3] == 0;
        const std::size_t needed = vector->header_octets + (has_rpc_direction ? 8 : 0);
        for (std::size_t length = 0; length <= octets.size(); ++length) {
            SCOPED_TRACE(std::string(vector->name) + ", " + std::to_string(length) + " octets");
            const auto end = octets.begin() + static_cast<std::ptrdiff_t>(length);
            Header header;
            const DecodeStatus status = status_of(Octets(octets.begin(), end), kOnly1 | kOnly2, header);
            EXPECT_EQ(status, length < 8        ? DecodeStatus::kTooShort
                              : length < needed ? DecodeStatus::kBadXdr
                                                : DecodeStatus::kOk);
            // What the message has of the fixed part is told, to answer it.
            EXPECT_EQ(header.xid, length < 4 ? 0 : vector->words[0]);
            EXPECT_EQ(header.credits, length < 12 ? 0 : vector->words[2]);
            EXPECT_EQ(header.proc, static_cast<Proc>(length < 16 ? 0 : vector->words[3]));
        }
    }
}

TEST(RpcrdmaDecode, AVersionThatIsNotServedComesBeforeEverythingElse) {
    Header header;
    EXPECT_EQ(status_of(kNullCall2.octets(), kOnly1, header), DecodeStatus::kVersion);
    EXPECT_EQ(header.xid, 0x11223344U);
    EXPECT_EQ(header.version, 2U);
    EXPECT_EQ(header.credits, 0x20U);
    EXPECT_EQ(status_of(kNullCall1.octets(), kOnly2, header), DecodeStatus::kVersion);
    EXPECT_EQ(status_of({1, 0, 1, 0}), DecodeStatus::kVersion);
    EXPECT_EQ(status_of({1, 3, 1, 77}), DecodeStatus::kVersion);
    EXPECT_EQ(status_of({1, 3}), DecodeStatus::kVersion);
    // Shifts by more than the bits that there are.
    for (const std::uint32_t version : {31U, 32U, 33U, 34U, 0x80000001U, 0xffffffffU}) {
        EXPECT_EQ(status_of({1, version, 1, 0, 0, 0, 0, 0, 0}), DecodeStatus::kVersion) << version;
    }
}

TEST(RpcrdmaDecode, ARefusalIsUnderstoodInAnyVersion) {
    for (const std::uint32_t version : {0U, 1U, 2U, 3U, 0xffffffffU}) {
        Header header;
        ASSERT_EQ(status_of(octets_of({9, version, 5, 4, 1, 1, 7}), kOnly2, header), DecodeStatus::kOk);
        EXPECT_EQ(header.version, version);
        EXPECT_EQ(header.error, (ErrorBody{ErrorCode::kVers, 1, 7}));
        EXPECT_EQ(header.direction, Direction::kReply);
        EXPECT_EQ(header.size, 28U);
    }
    // Another error, or half of one, of a version that is not served says nothing; its proc forbids an
    // answer.
    Header header;
    EXPECT_EQ(status_of(octets_of({9, 3, 5, 4, 2}), kOnly2, header), DecodeStatus::kVersion);
    EXPECT_EQ(header.proc, Proc::kError);
    EXPECT_EQ(status_of(octets_of({9, 3, 5, 4, 1, 1}), kOnly2, header), DecodeStatus::kVersion);
    EXPECT_EQ(header.proc, Proc::kError);
}

TEST(RpcrdmaDecode, UnknownProcs) {
    for (const std::uint32_t version : {kVersion1, kVersion2}) {
        for (std::uint32_t proc = 0; proc < 16; ++proc) {
            // CONNPROP's and RESPROP's least arms have most words; 0 fits all, but for errors.
            const Octets octets = octets_of({1, version, 1, proc, proc == 4 ? 1U : 0U, 0, 0, 0, 0, 0});
            Header header;
            const bool is_known = proc <= 1 || proc == 4 || (version == kVersion2 && proc >= 5 && proc <= 9);
            EXPECT_EQ(status_of(octets, kOnly1 | kOnly2, header),
                      is_known ? DecodeStatus::kOk : DecodeStatus::kUnknownProc)
                << "version " << version << ", proc " << proc;
            EXPECT_EQ(header.proc, static_cast<Proc>(proc));
        }
        EXPECT_EQ(status_of({1, version, 1, 0xffffffff}), DecodeStatus::kUnknownProc);
    }
}

TEST(RpcrdmaDecode, DirectionIsOneOfTwo) {
    EXPECT_EQ(header_of({1, 2, 1, 0, 1, 0, 0, 0, 0}).direction, Direction::kReply);
    EXPECT_EQ(status_of({1, 2, 1, 0, 2, 0, 0, 0, 0}), DecodeStatus::kBadXdr);
    EXPECT_EQ(status_of({1, 2, 1, 1, 0xffffffff, 0, 0, 0, 0}), DecodeStatus::kBadXdr);
    EXPECT_EQ(header_of({1, 2, 1, 5, 1, 9, 0}).direction, Direction::kReply);
    EXPECT_EQ(status_of({1, 2, 1, 5, 2, 9, 0}), DecodeStatus::kBadXdr);
}

TEST(RpcrdmaDecode, DirectionOfVersion1IsThatOfTheRpcMessage) {
    EXPECT_EQ(header_of({1, 1, 1, 0, 0, 0, 0, 1, 0}).direction, Direction::kCall);
    EXPECT_EQ(header_of({1, 1, 1, 0, 0, 0, 0, 1, 1}).direction, Direction::kReply);
    EXPECT_EQ(status_of({1, 1, 1, 0, 0, 0, 0, 1, 2}), DecodeStatus::kBadXdr);
    EXPECT_EQ(status_of({1, 1, 1, 0, 0, 0, 0, 1}), DecodeStatus::kBadXdr);
    // NOMSG: the Call is in a Position-Zero Read chunk, the Reply in the Reply chunk.
    EXPECT_EQ(header_of({1, 1, 1, 1, 1, 0, 7, 8, 0, 0, 0, 0, 0}).direction, Direction::kCall);
    EXPECT_EQ(header_of({1, 1, 1, 1, 1, 0, 7, 8, 0, 0, 0, 0, 1, 0}).direction, Direction::kCall);
    EXPECT_EQ(header_of({1, 1, 1, 1, 1, 4, 7, 8, 0, 0, 0, 0, 1, 0}).direction, Direction::kReply);
    EXPECT_EQ(header_of({1, 1, 1, 1, 0, 0, 1, 0}).direction, Direction::kReply);
    EXPECT_EQ(header_of({1, 1, 1, 1, 0, 0, 0}).direction, Direction::kCall);
    EXPECT_EQ(header_of({1, 1, 1, 4, 2}).direction, Direction::kReply);
}

TEST(RpcrdmaDecode, BooleansOfListsAreZeroOrOne) {
    for (const std::uint32_t bad : {2U, 0x01000000U, 0xffffffffU}) {
        EXPECT_EQ(status_of({1, 2, 1, 0, 0, 0, bad, 0, 0, 0, 0, 0, 0, 0}), DecodeStatus::kBadXdr) << bad;
        EXPECT_EQ(status_of({1, 2, 1, 0, 0, 0, 0, bad, 0, 0, 0}), DecodeStatus::kBadXdr) << bad;
        EXPECT_EQ(status_of({1, 2, 1, 0, 0, 0, 0, 0, bad, 0, 0}), DecodeStatus::kBadXdr) << bad;
        EXPECT_EQ(status_of({1, 2, 1, 0, 0, 0, 1, 0, 7, 8, 0, 0, bad, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
                  DecodeStatus::kBadXdr)
            << bad;
    }
}

TEST(RpcrdmaDecode, PositionsAreWordsAndNeverDecrease) {
    const auto status = [](std::uint32_t first, std::uint32_t second) {
        return status_of({1, 2, 1, 0, 0, 0, 1, first, 7, 8, 0, 0, 1, second, 7, 8, 0, 0, 0, 0, 0});
    };
    EXPECT_EQ(status(0, 0), DecodeStatus::kOk);
    EXPECT_EQ(status(0, 4), DecodeStatus::kOk);
    EXPECT_EQ(status(160, 160), DecodeStatus::kOk);
    EXPECT_EQ(status(0xfffffffc, 0xfffffffc), DecodeStatus::kOk);
    EXPECT_EQ(status(160, 156), DecodeStatus::kBadXdr);
    EXPECT_EQ(status(4, 0), DecodeStatus::kBadXdr);
    EXPECT_EQ(status(0xfffffffc, 0), DecodeStatus::kBadXdr);
    for (const std::uint32_t odd : {1U, 2U, 3U, 161U, 0xffffffffU}) {
        EXPECT_EQ(status(odd, 0xfffffffc), DecodeStatus::kBadXdr) << odd;
        EXPECT_EQ(status(0, odd), DecodeStatus::kBadXdr) << odd;
    }
}

TEST(RpcrdmaDecode, CountsAreBelievedAsFarAsThereAreOctets) {
    for (const std::uint32_t count : {2U, 0xfffffffU, 0x10000000U, 0x10000001U, 0x80000000U, 0xffffffffU}) {
        SCOPED_TRACE(count);
        for (const Octets& octets : {octets_of({1, 2, 1, 0, 0, 0, 0, 1, count, 7, 8, 0, 0, 0, 0, 0}),
                                     octets_of({1, 2, 1, 0, 0, 0, 0, 0, 1, count, 7, 8, 0, 0, 0, 0, 0})}) {
            Header header;
            EXPECT_EQ(status_of(octets, kOnly2, header), DecodeStatus::kBadXdr);
            // The time that it takes is that of the octets, not of the count.
            EXPECT_FALSE(header.chunks.overflowed());
        }
        EXPECT_EQ(status_of({1, 2, 1, 5, 0, 9, count, 0}),
                  count <= 4 ? DecodeStatus::kOk : DecodeStatus::kBadXdr);
        EXPECT_EQ(status_of({1, 2, 1, 6, count, 1, 4, 0x2000, 0}), DecodeStatus::kBadXdr);
        EXPECT_EQ(status_of({1, 2, 1, 6, 0, count, 1}), DecodeStatus::kBadXdr);
    }
    // A chunk of no segments is one that is not used.
    const Header header = header_of({1, 2, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0});
    EXPECT_EQ(header.chunks.write_chunk_count(), 2U);
    EXPECT_TRUE(header.chunks.write_chunk(1).empty());
    EXPECT_TRUE(header.chunks.has_reply_chunk());
    EXPECT_TRUE(header.chunks.reply_chunk().empty());
    EXPECT_EQ(header.chunks.first_handle(), 0U);
}

TEST(RpcrdmaDecode, ErrorCodesOfEachVersion) {
    constexpr std::array<std::size_t, 12> kSizes = {0, 28, 20, 20, 24, 24, 24, 28, 24, 20, 20, 0};
    for (std::uint32_t code = 0; code < kSizes.size(); ++code) {
        const Octets octets = octets_of({1, 2, 1, 4, code, 11, 22});
        Header header;
        EXPECT_EQ(status_of(octets, kOnly2, header),
                  kSizes[code] != 0 ? DecodeStatus::kOk : DecodeStatus::kBadXdr);
        if (kSizes[code] != 0) {
            EXPECT_EQ(header.size, kSizes[code]);
            EXPECT_EQ(header.error.first, kSizes[code] > 20 ? 11U : 0U);
            EXPECT_EQ(header.error.second, kSizes[code] > 24 ? 22U : 0U);
        }
        const Octets version_1 = octets_of({1, 1, 1, 4, code, 11, 22});
        EXPECT_EQ(status_of(version_1, kOnly1, header),
                  code == 1 || code == 2 ? DecodeStatus::kOk : DecodeStatus::kBadXdr);
    }
    EXPECT_EQ(status_of({1, 2, 1, 4, 0xffffffff}), DecodeStatus::kBadXdr);
}

TEST(RpcrdmaDecode, ErrorsEncodeAsTheVersionHasThem) {
    const auto encoded = [](std::uint32_t version, ErrorBody error) {
        Header header;
        header.xid = 5;
        header.version = version;
        header.credits = 6;
        header.proc = Proc::kError;
        header.error = error;
        Octets room(64);
        room.resize(encode_header(header, room));
        EXPECT_EQ(room.size(), encoded_size(header));
        return room;
    };
    EXPECT_EQ(encoded(1, {ErrorCode::kVers, 1, 2}), octets_of({5, 1, 6, 4, 1, 1, 2}));
    EXPECT_EQ(encoded(9, {ErrorCode::kVers, 1, 2}), octets_of({5, 9, 6, 4, 1, 1, 2}));
    for (std::uint32_t code = 2; code <= 10; ++code) {
        EXPECT_EQ(encoded(1, {static_cast<ErrorCode>(code), 7, 8}), octets_of({5, 1, 6, 4, 2})) << code;
    }
    EXPECT_EQ(encoded(2, {ErrorCode::kSegments, 16, 8}), octets_of({5, 2, 6, 4, 6, 16}));
    EXPECT_EQ(encoded(2, {static_cast<ErrorCode>(11), 7, 8}), Octets());
}

TEST(RpcrdmaDecode, WhatTheHeaderHadBeforeIsGone) {
    Header header;
    const Octets call = kChunkedCall.octets();
    ASSERT_EQ(decode_header(call, kOnly2, header), DecodeStatus::kOk);
    const Octets optional = kOptional.octets();
    ASSERT_EQ(decode_header(optional, kOnly2, header), DecodeStatus::kOk);
    EXPECT_TRUE(header.chunks.is_empty());
    EXPECT_FALSE(header.chunks.has_reply_chunk());
    EXPECT_EQ(header.inv_handle, 0U);
    EXPECT_EQ(header.chunks.first_handle(), 0U);
    EXPECT_FALSE(header.chunks.has_handle(0xb201));
    const Octets error = kErrWriteResource.octets();
    ASSERT_EQ(decode_header(error, kOnly2, header), DecodeStatus::kOk);
    EXPECT_TRUE(header.body.empty());
    EXPECT_EQ(header.option, 0U);
    EXPECT_EQ(header.direction, Direction::kReply);
    const Octets asked = kReqprop.octets();
    ASSERT_EQ(decode_header(asked, kOnly2, header), DecodeStatus::kOk);
    EXPECT_EQ(header.direction, Direction::kCall);
    ASSERT_EQ(decode_header(call, kOnly2, header), DecodeStatus::kOk);
    EXPECT_EQ(header.error, ErrorBody());
    EXPECT_EQ(header.direction, Direction::kCall);
}

TEST(RpcrdmaDecode, WhatAVersionHasNotDoesNotEncode) {
    Octets room(256);
    Header header;
    for (const Proc proc : {Proc::kMsgp, Proc::kDone, static_cast<Proc>(10)}) {
        header.proc = proc;
        EXPECT_EQ(encode_header(header, room), 0U);
    }
    header.version = kVersion1;
    for (const Proc proc :
         {Proc::kOptional, Proc::kConnprop, Proc::kReqprop, Proc::kResprop, Proc::kUpdprop}) {
        header.proc = proc;
        EXPECT_EQ(encode_header(header, room), 0U);
    }
}

}  // namespace
}  // namespace urnic::rpcrdma
