// The codec of RPC-over-RDMA: transport headers of both versions, properties and CM private data, as a peer
// may send them. What decodes comes out the same when it is encoded.
#include <algorithm>
#include <span>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/input.h"
#include "tests/unit/ulp/rpcrdma/codec/header_equal.h"
#include "ulp/rpcrdma/codec/header.h"
#include "ulp/rpcrdma/codec/private_data.h"
#include "ulp/rpcrdma/codec/properties.h"

namespace urnic::fuzz {
namespace {

namespace rpc = urnic::rpcrdma;
using Octets = std::vector<std::byte>;

bool is_inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
    return part.empty() ||
           (part.data() >= whole.data() && part.size() <= whole.size() &&
            static_cast<std::size_t>(part.data() - whole.data()) <= whole.size() - part.size());
}

void check_properties(rpc::Proc proc, std::span<const std::byte> octets) {
    rpc::PropertyBody body;
    std::size_t size = 0;
    if (!rpc::decode_properties(proc, octets, body, size)) {
        return;
    }
    URNIC_CHECK(size <= octets.size() && body.values.count <= rpc::kMaxProperties);
    for (const rpc::PropertyValue& value : body.values.all()) {
        URNIC_CHECK(is_inside(value.data, octets.first(size)));
        URNIC_CHECK(body.values.find(value.id).has_value());
        if (value.data.empty() || value.data.size() >= 4) {
            (void)rpc::property_word(value);
        }
    }
    Octets encoded(size + 8);  // subsets may have had no word
    encoded.resize(rpc::encode_properties(proc, body, encoded));
    URNIC_CHECK(!encoded.empty());
    rpc::PropertyBody again;
    URNIC_CHECK(rpc::decode_properties(proc, encoded, again));
    URNIC_CHECK(again.first.bits == body.first.bits && again.second.bits == body.second.bits);
    URNIC_CHECK(std::ranges::equal(again.values.all(), body.values.all(),
                                   [](const rpc::PropertyValue& a, const rpc::PropertyValue& b) {
                                       return a.id == b.id && std::ranges::equal(a.data, b.data);
                                   }));
}

void check_again(const rpc::Header& header, const Octets& message, std::uint32_t versions) {
    Octets encoded(rpc::encoded_size(header));
    URNIC_CHECK(encoded.size() == header.size);
    URNIC_CHECK(rpc::encode_header(header, encoded) == header.size);
    // Of an opaque's padding, which is 0 (RFC 4506, section 4.10), a peer may have made something else.
    const auto size = static_cast<std::ptrdiff_t>(header.size);
    const bool is_padded = header.proc == rpc::Proc::kOptional;
    URNIC_CHECK(is_padded ||
                std::equal(encoded.begin(), encoded.end(), message.begin(), message.begin() + size));
    encoded.insert(encoded.end(), message.begin() + size, message.end());
    rpc::Header again;
    URNIC_CHECK(rpc::decode_header(encoded, versions, again) == rpc::DecodeStatus::kOk);
    URNIC_CHECK(again.size == header.size && rpc::has_equal_fields(again, header));
}

void check_header(const Octets& message, std::uint32_t versions) {
    rpc::Header header;
    const rpc::DecodeStatus status = rpc::decode_header(message, versions, header);
    URNIC_CHECK((status == rpc::DecodeStatus::kTooShort) == (message.size() < 8));
    if (status != rpc::DecodeStatus::kOk) {
        return;
    }
    URNIC_CHECK(header.size <= message.size() && is_inside(header.body, message));
    if (header.chunks.overflowed()) {
        URNIC_CHECK(rpc::encoded_size(header) == 0);
        return;
    }
    const rpc::ChunkLists& chunks = header.chunks;
    std::uint32_t position = 0;
    for (const rpc::ReadSegment& read : chunks.reads()) {
        URNIC_CHECK(read.position >= position && read.position % 4 == 0);
        URNIC_CHECK(chunks.has_handle(read.target.handle));
        position = read.position;
    }
    for (std::size_t i = 0; i < chunks.write_chunk_count(); ++i) {
        for (const rpc::Segment& segment : chunks.write_chunk(i)) {
            URNIC_CHECK(chunks.has_handle(segment.handle));
        }
    }
    check_again(header, message, versions);
}

void check_private_data(std::span<const std::byte> octets) {
    const auto data = rpc::decode_private_data(octets);
    if (data) {
        URNIC_CHECK(rpc::decode_private_data(rpc::encode_private_data(*data)) == data);
    }
}

}  // namespace
}  // namespace urnic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace urnic;
    fuzz::Input input(data, size);
    const std::uint8_t what = input.byte();
    const std::span<const std::byte> rest = input.all();
    const fuzz::Octets message(rest.begin(), rest.end());  // of its own, so that one octet too far is seen
    switch (what % 8) {
        case 0:
            fuzz::check_private_data(message);
            break;
        case 1:
            fuzz::check_properties(static_cast<rpcrdma::Proc>(what / 8), message);
            break;
        default: {
            // Both versions, or one of them.
            constexpr std::uint32_t kBoth = 1U << rpcrdma::kVersion1 | 1U << rpcrdma::kVersion2;
            const std::uint32_t one = 1U << (what % 8 == 2 ? rpcrdma::kVersion1 : rpcrdma::kVersion2);
            fuzz::check_header(message, what % 8 <= 3 ? one : kBoth);
        }
    }
    return 0;
}
