/// Random headers come back as they were. URNIC_TEST_SEED repeats a run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/ulp/rpcrdma/codec/header_equal.h"
#include "tests/unit/ulp/rpcrdma/codec/vectors.h"
#include "ulp/rpcrdma/codec/header.h"
#include "ulp/rpcrdma/codec/properties.h"

namespace urnic::rpcrdma {
namespace {

constexpr std::uint32_t kBoth = 1U << kVersion1 | 1U << kVersion2;
constexpr int kHeaders = 4000;

class RandomHeaders {
  public:
    explicit RandomHeaders(unsigned seed) : random_(seed) {}

    /// `body_` and `data_` are what the header's views are of, until the next call.
    Header next() {
        Header header;
        header.xid = word();
        header.credits = word();
        header.version = below(2) == 0 ? kVersion1 : kVersion2;
        constexpr std::array kProcs = {Proc::kMsg,      Proc::kNomsg,   Proc::kError,   Proc::kOptional,
                                       Proc::kConnprop, Proc::kReqprop, Proc::kResprop, Proc::kUpdprop};
        header.proc = kProcs[below(header.version == kVersion1 ? 3 : kProcs.size())];
        switch (header.proc) {
            case Proc::kMsg:
            case Proc::kNomsg:
                fill_message(header);
                break;
            case Proc::kError:
                fill_error(header);
                break;
            case Proc::kOptional:
                header.direction = direction();
                header.option = word();
                body_ = some_octets(40);
                header.body = body_;
                break;
            default:
                fill_properties(header);
        }
        return header;
    }
    std::size_t below(std::size_t limit) { return random_() % limit; }
    Octets some_octets(std::size_t most) {
        Octets octets(below(most + 1));
        for (std::byte& octet : octets) {
            octet = static_cast<std::byte>(random_());
        }
        return octets;
    }

  private:
    /// Often at an edge.
    std::uint32_t word() {
        constexpr std::array<std::uint32_t, 4> kEdges = {0, 1, 0x80000000, 0xffffffff};
        const std::size_t choice = below(8);
        return choice < kEdges.size() ? kEdges[choice] : static_cast<std::uint32_t>(random_());
    }
    Direction direction() { return below(2) == 0 ? Direction::kCall : Direction::kReply; }
    Segment segment() { return {word(), word(), std::uint64_t{word()} << 32U | word()}; }

    void fill_message(Header& header) {
        const std::size_t reads = below(kMaxReadSegments + 1);
        std::uint32_t position = 0;
        for (std::size_t i = 0; i < reads; ++i) {
            position += below(3) == 0 ? 4 * static_cast<std::uint32_t>(below(1000)) : 0;
            header.chunks.add_read({position, segment()});
        }
        std::size_t room = kMaxWriteSegments;
        const auto add_segments = [&] {
            for (std::size_t left = below(std::min<std::size_t>(room, 12) + 1); left != 0; --left, --room) {
                header.chunks.add_segment(segment());
            }
        };
        for (std::size_t chunks = below(kMaxWriteChunks + 1); chunks != 0; --chunks) {
            header.chunks.begin_write_chunk();
            add_segments();
        }
        if (below(2) == 0) {
            header.chunks.begin_reply_chunk();
            add_segments();
        }
        if (header.version == kVersion2) {
            header.direction = direction();
            header.inv_handle = word();
        } else if (header.proc == Proc::kMsg) {
            header.direction = direction();
        } else {
            const bool is_whole_call = reads != 0 && header.chunks.reads()[0].position == 0;
            header.direction =
                header.chunks.has_reply_chunk() && !is_whole_call ? Direction::kReply : Direction::kCall;
        }
    }

    void fill_error(Header& header) {
        header.direction = Direction::kReply;
        header.error.code = static_cast<ErrorCode>(1 + below(header.version == kVersion1 ? 2 : 10));
        switch (header.error.code) {
            case ErrorCode::kVers:
            case ErrorCode::kWriteResource:
                header.error.second = word();
                [[fallthrough]];
            case ErrorCode::kReadChunks:
            case ErrorCode::kWriteChunks:
            case ErrorCode::kSegments:
            case ErrorCode::kReplyResource:
                header.error.first = word();
                break;
            default:
                break;
        }
    }

    void fill_properties(Header& header) {
        PropertyBody body;
        data_.clear();
        for (std::size_t left = below(kMaxProperties + 1); left != 0; --left) {
            data_.push_back(some_octets(20));
        }
        for (const Octets& data : data_) {
            body.values.values[body.values.count++] = {3 + static_cast<std::uint32_t>(below(1000)), data};
        }
        body.first.bits = header.proc == Proc::kConnprop || header.proc == Proc::kResprop ? word() : 0;
        body.second.bits = header.proc == Proc::kResprop ? word() : 0;
        body_.resize(4096);
        body_.resize(encode_properties(header.proc, body, body_));
        header.body = body_;
        PropertyBody again;
        ASSERT_TRUE(decode_properties(header.proc, body_, again));
        ASSERT_EQ(again.values.count, body.values.count);
        for (std::size_t i = 0; i < body.values.count; ++i) {
            EXPECT_EQ(again.values.values[i].id, body.values.values[i].id);
            EXPECT_TRUE(std::ranges::equal(again.values.values[i].data, data_[i]));
        }
        EXPECT_EQ(again.first.bits, body.first.bits);
        EXPECT_EQ(again.second.bits, body.second.bits);
    }

    std::mt19937 random_;
    Octets body_;
    std::vector<Octets> data_;
};

TEST(RpcrdmaRoundTrip, RandomHeaders) {
    const char* given = std::getenv("URNIC_TEST_SEED");
    const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
    SCOPED_TRACE("URNIC_TEST_SEED=" + std::to_string(seed));
    RandomHeaders headers(seed);
    for (int i = 0; i < kHeaders && !testing::Test::HasFailure(); ++i) {
        SCOPED_TRACE("header " + std::to_string(i));
        const Header header = headers.next();
        // What is behind must not matter, but in version 1 it tells the direction.
        Octets message(encoded_size(header));
        ASSERT_FALSE(message.empty());
        ASSERT_EQ(encode_header(header, message), message.size());
        const std::size_t size = message.size();
        const Octets rpc = octets_of({header.xid, static_cast<std::uint32_t>(header.direction)});
        message.insert(message.end(), rpc.begin(), rpc.end());
        const Octets behind = headers.some_octets(12);
        message.insert(message.end(), behind.begin(), behind.end());
        Header again;
        ASSERT_EQ(decode_header(message, kBoth, again), DecodeStatus::kOk);
        EXPECT_EQ(again.size, size);
        EXPECT_TRUE(has_equal_fields(header, again));
    }
}

}  // namespace
}  // namespace urnic::rpcrdma
