// The XDR handles against libtirpc's own over plain memory.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/support/file_service/service.h"
#include "ulp/rpcrdma/onc/xdr_decoder.h"
#include "ulp/rpcrdma/onc/xdr_encoder.h"

namespace urnic::rpcrdma::onc {

namespace {

using file_service::are_equal;
using file_service::make_sample;
using Octets = std::vector<std::byte>;

rpcrdma_onc_item item_at(std::size_t offset, std::uint32_t least = 1) {
    rpcrdma_onc_item item{};
    item.offset = offset;
    item.least_octets = least;
    return item;
}

const std::vector<rpcrdma_onc_item>& sample_items() {
    static const std::vector<rpcrdma_onc_item> items = {item_at(offsetof(sample, before.payload_val)),
                                                        item_at(offsetof(sample, data.payload_val))};
    return items;
}

Octets encode_plain(sample& object) {
    Octets memory(xdr_sizeof(reinterpret_cast<xdrproc_t>(xdr_sample), &object));
    XDR xdr;
    xdrmem_create(&xdr, reinterpret_cast<char*>(memory.data()), static_cast<u_int>(memory.size()),
                  XDR_ENCODE);
    EXPECT_TRUE(xdr_sample(&xdr, &object));
    return memory;
}

Octets put_together(const rpcrdma_message& message) {
    Octets all;
    const auto* const stream = static_cast<const std::byte*>(message.stream);
    std::size_t from = 0;
    for (const rpcrdma_item& item : std::span(message.items, message.item_count)) {
        all.insert(all.end(), stream + from, stream + item.at);
        from = item.at;
        const auto* const data = static_cast<const std::byte*>(item.data);
        all.insert(all.end(), data, data + item.octets);
        all.resize((all.size() + 3) / 4 * 4);
    }
    all.insert(all.end(), stream + from, stream + message.stream_octets);
    return all;
}

std::span<const std::byte> stream_of(const rpcrdma_message& message) {
    return {static_cast<const std::byte*>(message.stream), message.stream_octets};
}

/// Where the data of `message` are, as a Reply would say it.
std::vector<ChunkData> chunks_of(const rpcrdma_message& message) {
    std::vector<ChunkData> chunks;
    for (const rpcrdma_item& item : std::span(message.items, message.item_count)) {
        chunks.push_back({.memory = static_cast<const std::byte*>(item.data),
                          .octets = static_cast<std::uint32_t>(item.octets)});
    }
    return chunks;
}

void free_sample(sample& object) { xdr_free(reinterpret_cast<xdrproc_t>(xdr_sample), &object); }

}  // namespace

// Every length of data modulo 4, data in the stream and out of it: the octets are those of libtirpc.
TEST(OncXdr, EncodesLikeLibtirpc) {
    for (std::uint32_t seed = 0; seed < 64; ++seed) {
        sample object = make_sample(seed, seed % 23);
        const Octets expected = encode_plain(object);
        XdrEncoder whole;
        ASSERT_TRUE(xdr_sample(whole.xdr(), &object));
        EXPECT_EQ(put_together(whole.message()), expected) << seed;
        EXPECT_EQ(whole.message().item_count, 0U);
        XdrEncoder reduced;
        reduced.leave_out(&object, sample_items());
        ASSERT_TRUE(xdr_sample(reduced.xdr(), &object));
        EXPECT_EQ(put_together(reduced.message()), expected) << seed;
        free_sample(object);
    }
}

TEST(OncXdr, LeftOutDataAreNotCopied) {
    sample object = make_sample(5, 1001);
    XdrEncoder encoder;
    encoder.leave_out(&object, sample_items());
    ASSERT_TRUE(xdr_sample(encoder.xdr(), &object));
    const rpcrdma_message message = encoder.message();
    ASSERT_EQ(message.item_count, 2U);
    EXPECT_EQ(message.items[0].data, object.before.payload_val);
    EXPECT_EQ(message.items[1].data, object.data.payload_val);
    EXPECT_EQ(message.items[1].octets, 1001U);
    // The length word is in front of it.
    std::uint32_t word = 0;
    std::memcpy(&word, static_cast<const char*>(message.stream) + message.items[1].at - 4, 4);
    EXPECT_EQ(ntohl(word), 1001U);
    EXPECT_FALSE(encoder.is_ambiguous());
    free_sample(object);
}

// Results are known by their numbers: one that is too short to be left out, or empty, keeps its place.
TEST(OncXdr, ItemsKeepTheirNumbers) {
    sample object = make_sample(6, 300);  // `before` is empty
    ASSERT_EQ(object.before.payload_len, 0U);
    XdrEncoder encoder;
    encoder.leave_out(&object, sample_items());
    ASSERT_TRUE(xdr_sample(encoder.xdr(), &object));
    ASSERT_EQ(encoder.message().item_count, 2U);
    EXPECT_EQ(encoder.message().items[0].octets, 0U);
    EXPECT_EQ(encoder.message().items[1].octets, 300U);
    free_sample(object);
}

TEST(OncXdr, ShortDataStayInTheStream) {
    sample object = make_sample(4, 99);
    const std::vector<rpcrdma_onc_item> items = {item_at(offsetof(sample, data.payload_val), 100)};
    XdrEncoder encoder;
    encoder.leave_out(&object, items);
    ASSERT_TRUE(xdr_sample(encoder.xdr(), &object));
    EXPECT_FALSE(encoder.has_items());
    free_sample(object);
}

// Two opaques in the same memory: which one is the item cannot be seen.
TEST(OncXdr, TheSameMemoryTwiceIsNoticed) {
    sample object = make_sample(8, 64);
    const payload behind = object.behind;
    object.behind = object.data;
    XdrEncoder encoder;
    encoder.leave_out(&object, sample_items());
    ASSERT_TRUE(xdr_sample(encoder.xdr(), &object));
    EXPECT_TRUE(encoder.is_ambiguous());
    object.behind = behind;
    free_sample(object);
}

TEST(OncXdr, DecodesWhatWasEncoded) {
    for (std::uint32_t seed = 0; seed < 64; ++seed) {
        sample object = make_sample(seed, seed * 7 % 130);
        XdrEncoder encoder;
        encoder.leave_out(&object, sample_items());
        ASSERT_TRUE(xdr_sample(encoder.xdr(), &object));
        sample copy{};
        XdrDecoder decoder(stream_of(encoder.message()));
        const auto chunks = chunks_of(encoder.message());
        decoder.put_in(&copy, sample_items(), chunks);
        ASSERT_TRUE(xdr_sample(decoder.xdr(), &copy)) << seed;
        EXPECT_TRUE(decoder.is_complete());
        EXPECT_TRUE(are_equal(object, copy)) << seed;
        free_sample(object);
        free_sample(copy);
    }
}

// What a server says of a chunk must be what the length word says.
TEST(OncXdr, OtherLengthsAreRefused) {
    sample object = make_sample(3, 40);
    XdrEncoder encoder;
    encoder.leave_out(&object, sample_items());
    ASSERT_TRUE(xdr_sample(encoder.xdr(), &object));
    for (const std::uint32_t octets : {39U, 41U}) {
        auto chunks = chunks_of(encoder.message());
        chunks[1].octets = octets;
        sample copy{};
        XdrDecoder decoder(stream_of(encoder.message()));
        decoder.put_in(&copy, sample_items(), chunks);
        EXPECT_FALSE(xdr_sample(decoder.xdr(), &copy));
        free_sample(copy);
    }
    free_sample(object);
}

TEST(OncXdr, DataWithoutAPlaceAreNoticed) {
    payload object{};
    XdrEncoder encoder;
    ASSERT_TRUE(xdr_payload(encoder.xdr(), &object));
    const std::vector<std::byte> data(16);
    const std::vector<ChunkData> chunks = {{.memory = data.data(), .octets = 16}};
    const std::vector<rpcrdma_onc_item> items = {item_at(offsetof(payload, payload_val))};
    payload copy{};
    XdrDecoder decoder(stream_of(encoder.message()));
    decoder.put_in(&copy, items, chunks);
    ASSERT_TRUE(xdr_payload(decoder.xdr(), &copy));
    EXPECT_FALSE(decoder.is_complete());
}

// Memory that the program has given takes no more than its room, in whatever way the data come.
TEST(OncXdr, GivenMemoryIsNotOverrun) {
    std::string data(64, 'x');
    payload object{.payload_len = 64, .payload_val = data.data()};
    XdrEncoder encoder;
    ASSERT_TRUE(xdr_payload(encoder.xdr(), &object));
    const std::vector<rpcrdma_onc_item> items = {item_at(offsetof(payload, payload_val))};
    for (const std::uint32_t room : {63U, 64U}) {
        std::string memory(room, '.');
        payload copy{.payload_len = 0, .payload_val = memory.data()};
        const std::vector<ChunkData> chunks = {
            {.memory = reinterpret_cast<const std::byte*>(memory.data()), .octets = 0, .room = room}};
        XdrDecoder decoder(stream_of(encoder.message()));
        decoder.put_in(&copy, items, chunks);
        EXPECT_EQ(xdr_payload(decoder.xdr(), &copy) != FALSE, room == 64) << room;
    }
}

TEST(OncXdr, EachTruncationIsRefused) {
    sample object = make_sample(7, 21);
    const Octets whole = encode_plain(object);
    for (std::size_t octets = 0; octets < whole.size(); ++octets) {
        // Memory of just that size: a sanitizer sees what reads beyond.
        const Octets part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(octets));
        sample copy{};
        XdrDecoder decoder(part);
        EXPECT_FALSE(xdr_sample(decoder.xdr(), &copy)) << octets;
        free_sample(copy);
    }
    free_sample(object);
}

// As authgss and others write lengths that they know later only.
TEST(OncXdr, PositionsCanBeSet) {
    XdrEncoder encoder;
    XDR* const xdr = encoder.xdr();
    std::uint32_t word = 1;
    ASSERT_TRUE(xdr_u_int(xdr, &word));
    const u_int begin = XDR_GETPOS(xdr);
    ASSERT_TRUE(xdr_u_int(xdr, &word));
    const u_int end = XDR_GETPOS(xdr);
    EXPECT_EQ(end - begin, 4U);
    word = 0xABCD;
    ASSERT_TRUE(XDR_SETPOS(xdr, begin));
    ASSERT_TRUE(xdr_u_int(xdr, &word));
    ASSERT_TRUE(XDR_SETPOS(xdr, end));
    EXPECT_FALSE(XDR_SETPOS(xdr, end + 4));
    XdrDecoder decoder(stream_of(encoder.message()));
    ASSERT_TRUE(XDR_SETPOS(decoder.xdr(), begin));
    ASSERT_TRUE(xdr_u_int(decoder.xdr(), &word));
    EXPECT_EQ(word, 0xABCDU);
    EXPECT_FALSE(xdr_u_int(decoder.xdr(), &word));
    EXPECT_FALSE(XDR_SETPOS(decoder.xdr(), end + 4));
}

TEST(OncXdr, AHandleIsForOneDirection) {
    std::uint32_t word = 1;
    XdrEncoder encoder;
    encoder.xdr()->x_op = XDR_DECODE;
    EXPECT_FALSE(xdr_u_int(encoder.xdr(), &word));
    XdrDecoder decoder({});
    decoder.xdr()->x_op = XDR_ENCODE;
    EXPECT_FALSE(xdr_u_int(decoder.xdr(), &word));
}

}  // namespace urnic::rpcrdma::onc
