#include "ulp/rpcrdma/codec/private_data.h"

#include <gtest/gtest.h>

#include "tests/unit/ulp/rpcrdma/codec/vectors.h"

namespace urnic::rpcrdma {
namespace {

TEST(RpcrdmaPrivateData, EverySizeThatTheFieldHas) {
    for (std::uint32_t units = 1; units <= 256; ++units) {
        const PrivateData data = {units * 1024, (257 - units) * 1024, units % 2 == 0};
        EXPECT_EQ(decode_private_data(encode_private_data(data)), data);
    }
}

TEST(RpcrdmaPrivateData, OtherSizesAreRoundedToOneThatIsThere) {
    const auto coded = [](std::uint32_t octets) {
        return decode_private_data(encode_private_data({octets, octets, false}))->send_octets;
    };
    EXPECT_EQ(coded(0), 1024U);
    EXPECT_EQ(coded(1023), 1024U);
    EXPECT_EQ(coded(5000), 4096U);
    EXPECT_EQ(coded(262143), 261120U);
    EXPECT_EQ(coded(262145), 262144U);
    EXPECT_EQ(coded(0xffffffff), 262144U);
}

TEST(RpcrdmaPrivateData, FieldsAreWhereTheyBelong) {
    EXPECT_EQ(decode_private_data(octets_of({0xf6ab0e18, 0x0100'0007})), (PrivateData{1024, 8192, false}));
    EXPECT_EQ(decode_private_data(octets_of({0xf6ab0e18, 0x0101'ff00})), (PrivateData{262144, 1024, true}));
    // Flags of later versions of the format say nothing.
    EXPECT_EQ(decode_private_data(octets_of({0xf6ab0e18, 0x01fe'0000})), (PrivateData{1024, 1024, false}));
}

TEST(RpcrdmaPrivateData, OnlyWhatBeginsWithMagicAndVersion) {
    EXPECT_EQ(decode_private_data(octets_of({0xf6ab0e19, 0x0101'0303})), std::nullopt);
    EXPECT_EQ(decode_private_data(octets_of({0xf6ab0e18, 0x0001'0303})), std::nullopt);
    EXPECT_EQ(decode_private_data(octets_of({0xf6ab0e18, 0x0201'0303})), std::nullopt);
    EXPECT_EQ(decode_private_data(octets_of({0, 0xf6ab0e18, 0x0101'0303})), std::nullopt);
    const Octets octets = octets_of({0xf6ab0e18, 0x0101'0303, 0xffffffff});
    for (std::size_t length = 0; length <= octets.size(); ++length) {
        const Octets prefix(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(length));
        EXPECT_EQ(decode_private_data(prefix).has_value(), length >= kPrivateDataOctets) << length;
    }
}

}  // namespace
}  // namespace urnic::rpcrdma
