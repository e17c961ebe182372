#include "tests/unit/ulp/rpcrdma/codec/vectors.h"

#include <gtest/gtest.h>

#include "ulp/rpcrdma/codec/header.h"
#include "ulp/rpcrdma/codec/private_data.h"
#include "ulp/rpcrdma/codec/properties.h"

namespace urnic::rpcrdma {
namespace {

constexpr std::uint32_t kBothVersions = 1U << kVersion1 | 1U << kVersion2;

Header decoded(const Octets& octets) {
    Header header;
    EXPECT_EQ(decode_header(octets, kBothVersions, header), DecodeStatus::kOk);
    return header;
}

TEST(RpcrdmaVectors, EachHeaderDecodesAndEncodesToTheSameOctets) {
    for (const Vector* vector : kVectors) {
        SCOPED_TRACE(vector->name);
        const Octets octets = vector->octets();
        const Header header = decoded(octets);
        EXPECT_EQ(header.size, vector->header_octets);
        EXPECT_EQ(header.xid, vector->words[0]);
        EXPECT_EQ(header.version, vector->words[1]);
        EXPECT_EQ(header.credits, vector->words[2]);
        EXPECT_EQ(header.proc, static_cast<Proc>(vector->words[3]));
        EXPECT_EQ(encoded_size(header), vector->header_octets);
        Octets room(octets.size() + 8, std::byte{0xee});
        ASSERT_EQ(encode_header(header, room), vector->header_octets);
        EXPECT_TRUE(std::equal(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(header.size),
                               octets.begin()));
        EXPECT_EQ(room[header.size], std::byte{0xee});
        EXPECT_EQ(encode_header(header, std::span(room).first(header.size - 1)), 0U);
    }
}

TEST(RpcrdmaVectors, NullCall) {
    for (const Vector* vector : {&kNullCall1, &kNullCall2}) {
        const Octets octets = vector->octets();
        const Header header = decoded(octets);
        EXPECT_EQ(header.direction, Direction::kCall);
        EXPECT_TRUE(header.chunks.is_empty());
        EXPECT_EQ(octets.size() - header.size, 40U);
        EXPECT_EQ(header.size, least_message_header(header.version));
    }
}

TEST(RpcrdmaVectors, CallWithReadChunkAndReplyChunk) {
    const Octets octets = kChunkedCall.octets();
    const Header header = decoded(octets);
    EXPECT_EQ(header.direction, Direction::kCall);
    EXPECT_EQ(header.inv_handle, 0xa101U);
    ASSERT_EQ(header.chunks.reads().size(), 2U);
    EXPECT_EQ(header.chunks.reads()[0], (ReadSegment{160, {0xa101, 4096, 0x7f00'0000'1000}}));
    EXPECT_EQ(header.chunks.reads()[1], (ReadSegment{160, {0xa102, 100, 0x7f00'0000'2000}}));
    EXPECT_EQ(header.chunks.write_chunk_count(), 0U);
    ASSERT_EQ(header.chunks.reply_chunk().size(), 1U);
    EXPECT_EQ(header.chunks.reply_chunk()[0], (Segment{0xb201, 8192, 0x7f00'0001'0000}));
    EXPECT_TRUE(header.chunks.has_handle(0xa101));
    EXPECT_TRUE(header.chunks.has_handle(0xa102));
    EXPECT_TRUE(header.chunks.has_handle(0xb201));
    EXPECT_FALSE(header.chunks.has_handle(0xb202));
    EXPECT_EQ(header.chunks.first_handle(), 0xa101U);
}

TEST(RpcrdmaVectors, ReplyWithWriteChunk) {
    const Octets octets = kReplyWithWriteChunk.octets();
    const Header header = decoded(octets);
    EXPECT_EQ(header.direction, Direction::kReply);
    ASSERT_EQ(header.chunks.write_chunk_count(), 1U);
    ASSERT_EQ(header.chunks.write_chunk(0).size(), 1U);
    EXPECT_EQ(header.chunks.write_chunk(0)[0], (Segment{0xc301, 5000, 0x7f00'0002'0000}));
    EXPECT_FALSE(header.chunks.has_reply_chunk());
    EXPECT_EQ(header.chunks.first_handle(), 0xc301U);
}

TEST(RpcrdmaVectors, Errors) {
    EXPECT_EQ(decoded(kErrVers.octets()).error, (ErrorBody{ErrorCode::kVers, 1, 1}));
    EXPECT_EQ(decoded(kErrReadChunks.octets()).error, (ErrorBody{ErrorCode::kReadChunks, 0, 0}));
    EXPECT_EQ(decoded(kErrWriteResource.octets()).error, (ErrorBody{ErrorCode::kWriteResource, 1, 12000}));
    EXPECT_EQ(decoded(kErrReplyResource.octets()).error, (ErrorBody{ErrorCode::kReplyResource, 9000, 0}));
    EXPECT_EQ(decoded(kErrInvalOption.octets()).error, (ErrorBody{ErrorCode::kInvalOption, 0, 0}));
    EXPECT_EQ(decoded(kErrVers.octets()).direction, Direction::kReply);
}

TEST(RpcrdmaVectors, Optional) {
    const Octets octets = kOptional.octets();
    const Header header = decoded(octets);
    EXPECT_EQ(header.option, 0x1234U);
    ASSERT_EQ(header.body.size(), 3U);
    EXPECT_EQ(header.body[0], std::byte{'a'});
    EXPECT_EQ(header.body[2], std::byte{'c'});
}

TEST(RpcrdmaVectors, Properties) {
    const Octets conn = kConnprop.octets();
    PropertyBody body;
    ASSERT_TRUE(decode_properties(Proc::kConnprop, decoded(conn).body, body));
    ASSERT_EQ(body.values.count, 2U);
    EXPECT_EQ(property_word(body.values.values[0]), 8192U);
    EXPECT_EQ(property_word(body.values.values[1]), static_cast<std::uint32_t>(BackwardSupport::kGeneral));
    EXPECT_EQ(body.values.find(1), 0U);
    EXPECT_EQ(body.values.find(2), 1U);
    EXPECT_EQ(body.values.find(3), std::nullopt);
    EXPECT_FALSE(body.first.has(0));
    EXPECT_TRUE(body.first.has(1));

    const Octets asked = kReqprop.octets();
    ASSERT_TRUE(decode_properties(Proc::kReqprop, decoded(asked).body, body));
    ASSERT_EQ(body.values.count, 1U);
    EXPECT_EQ(property_word(body.values.values[0]), 65536U);

    const Octets answer = kResprop.octets();
    ASSERT_TRUE(decode_properties(Proc::kResprop, decoded(answer).body, body));
    EXPECT_EQ(body.first.bits, 0U);
    EXPECT_EQ(body.second.bits, 0U);
    ASSERT_EQ(body.values.count, 1U);
    EXPECT_EQ(property_word(body.values.values[0]), 16384U);
}

TEST(RpcrdmaVectors, PropertiesEncodeToTheSameOctets) {
    for (const Vector* vector : {&kConnprop, &kReqprop, &kResprop}) {
        SCOPED_TRACE(vector->name);
        const Octets octets = vector->octets();
        const Header header = decoded(octets);
        PropertyBody body;
        ASSERT_TRUE(decode_properties(header.proc, header.body, body));
        Octets room(header.body.size());
        ASSERT_EQ(encode_properties(header.proc, body, room), room.size());
        EXPECT_TRUE(std::equal(room.begin(), room.end(), header.body.begin(), header.body.end()));
        EXPECT_EQ(encode_properties(header.proc, body, std::span(room).first(room.size() - 1)), 0U);
    }
}

TEST(RpcrdmaVectors, PrivateData) {
    const Octets octets = octets_of({0xf6ab0e18, 0x01010303});
    const PrivateData data = {4096, 4096, true};
    EXPECT_EQ(decode_private_data(octets), data);
    const auto encoded = encode_private_data(data);
    EXPECT_TRUE(std::equal(octets.begin(), octets.end(), encoded.begin(), encoded.end()));
}

}  // namespace
}  // namespace urnic::rpcrdma
