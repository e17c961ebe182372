// Every RC opcode with verified payload, between two devices and between two QPs of one.
#include <arpa/inet.h>

#include <cstring>
#include <memory>
#include <tuple>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr std::size_t kRemote = 64;  // offset of the target in the peer's buffer: not page-aligned
constexpr std::uint8_t kUntouched = 0xee;

/// (path MTU, name of the peer's device)
using Parameters = std::tuple<ibv_mtu, const char*>;

class Transfer : public testing::TestWithParam<Parameters> {
  protected:
    void SetUp() override {
        a_ = std::make_unique<Endpoint>("urnic0");
        b_ = std::make_unique<Endpoint>(std::get<1>(GetParam()));
        connect(*a_, *b_, {.mtu = std::get<0>(GetParam())});
        if (HasFailure()) GTEST_FAIL() << "not connected";
    }
    [[nodiscard]] std::vector<std::size_t> sizes() const {
        const std::size_t mtu = 128U << static_cast<unsigned>(std::get<0>(GetParam()));
        return {0, 1, 2, 3, 4, 31, mtu - 1, mtu, mtu + 1, 4 * mtu + 7, 1U << 20U};
    }
    /// The target holds the pattern and its surroundings are as they were.
    static void expect_only(const Endpoint& side, std::size_t offset, std::size_t length,
                            std::uint32_t seed) {
        EXPECT_EQ(first_difference(side.at(offset), length, seed), -1) << "length " << length;
        EXPECT_EQ(first_other(side.at(0), offset, kUntouched), -1) << "before, length " << length;
        EXPECT_EQ(first_other(side.at(offset + length), 256, kUntouched), -1) << "behind, length " << length;
    }
    static void clear(const Endpoint& side, std::size_t length) {
        std::memset(side.at(0), kUntouched, kRemote + length + 512);
    }

    std::unique_ptr<Endpoint> a_, b_;
};

TEST_P(Transfer, Write) {
    std::uint32_t seed = 1;
    for (const std::size_t size : sizes()) {
        for (const std::size_t shift : {std::size_t{0}, std::size_t{5}}) {
            ++seed;
            fill(a_->at(shift), size, seed);
            clear(*b_, size);
            ibv_sge sge = a_->sge(shift, size);
            ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, seed, &sge, 1, *b_, kRemote + shift);
            a_->post(wr);
            a_->expect_success(seed, IBV_WC_RDMA_WRITE);
            expect_only(*b_, kRemote + shift, size, seed);
        }
    }
}

TEST_P(Transfer, Read) {
    std::uint32_t seed = 100;
    for (const std::size_t size : sizes()) {
        ++seed;
        fill(b_->at(7), size, seed);
        clear(*a_, size);
        ibv_sge sge = a_->sge(kRemote, size);
        ibv_send_wr wr = rdma(IBV_WR_RDMA_READ, seed, &sge, 1, *b_, 7);
        a_->post(wr);
        a_->expect_success(seed, IBV_WC_RDMA_READ);
        expect_only(*a_, kRemote, size, seed);
    }
}

TEST_P(Transfer, SendWithAndWithoutImmediate) {
    std::uint32_t seed = 200;
    for (const std::size_t size : sizes()) {
        for (const bool immediate : {false, true}) {
            ++seed;
            fill(a_->at(3), size, seed);
            clear(*b_, size);
            b_->post_recv(seed + 1000, {b_->sge(kRemote, size + 100)});
            ibv_sge sge = a_->sge(3, size);
            ibv_send_wr wr = request(immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, seed, &sge, 1);
            wr.imm_data = htonl(0xcafe0000U + seed);
            a_->post(wr);
            a_->expect_success(seed, IBV_WC_SEND);
            const ibv_wc received = b_->poll_one();
            ASSERT_EQ(received.status, IBV_WC_SUCCESS) << ibv_wc_status_str(received.status);
            EXPECT_EQ(received.opcode, IBV_WC_RECV);
            EXPECT_EQ(received.wr_id, seed + 1000);
            EXPECT_EQ(received.byte_len, size);
            EXPECT_EQ((received.wc_flags & IBV_WC_WITH_IMM) != 0, immediate);
            if (immediate) {
                EXPECT_EQ(received.imm_data, wr.imm_data);
            }
            expect_only(*b_, kRemote, size, seed);
        }
    }
}

TEST_P(Transfer, WriteWithImmediate) {
    std::uint32_t seed = 300;
    for (const std::size_t size : sizes()) {
        ++seed;
        fill(a_->at(0), size, seed);
        clear(*b_, size);
        b_->post_recv(seed + 1000, {});
        ibv_sge sge = a_->sge(0, size);
        ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE_WITH_IMM, seed, &sge, 1, *b_, kRemote);
        wr.imm_data = htonl(seed);
        a_->post(wr);
        a_->expect_success(seed, IBV_WC_RDMA_WRITE);
        const ibv_wc received = b_->poll_one();
        ASSERT_EQ(received.status, IBV_WC_SUCCESS) << ibv_wc_status_str(received.status);
        EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
        EXPECT_EQ(received.wr_id, seed + 1000);
        EXPECT_EQ(received.byte_len, size);
        EXPECT_TRUE((received.wc_flags & IBV_WC_WITH_IMM) != 0);
        EXPECT_EQ(received.imm_data, htonl(seed));
        expect_only(*b_, kRemote, size, seed);
    }
}

TEST_P(Transfer, Atomics) {
    auto* remote = reinterpret_cast<std::uint64_t*>(b_->at(kRemote));
    auto* result = reinterpret_cast<std::uint64_t*>(a_->at(16));
    *remote = 0xfffffffffffffff0U;
    ibv_sge sge = a_->sge(16, 8);
    ibv_send_wr add = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &sge, *b_, kRemote, 0x25);
    a_->post(add);
    a_->expect_success(1, IBV_WC_FETCH_ADD);
    EXPECT_EQ(*result, 0xfffffffffffffff0U);
    EXPECT_EQ(*remote, 0x15U);  // wrapped
    ibv_send_wr match = atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 2, &sge, *b_, kRemote, 0x15, 0x1122334455667788U);
    a_->post(match);
    a_->expect_success(2, IBV_WC_COMP_SWAP);
    EXPECT_EQ(*result, 0x15U);
    EXPECT_EQ(*remote, 0x1122334455667788U);
    ibv_send_wr miss = atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 3, &sge, *b_, kRemote, 0x15, 1);
    a_->post(miss);
    a_->expect_success(3, IBV_WC_COMP_SWAP);
    EXPECT_EQ(*result, 0x1122334455667788U);
    EXPECT_EQ(*remote, 0x1122334455667788U);
}

TEST_P(Transfer, ScatterAndGather) {
    constexpr std::size_t kPieces[] = {1, 3, 7, 64, 4096, 13, 0, 255, 1000, 2, 511, 8192, 5, 77, 1, 333};
    for (int count = 1; count <= 16; ++count) {
        std::vector<ibv_sge> gather;
        std::size_t total = 0;
        for (int i = 0; i < count; ++i) {
            // Every piece in a page of its own, at an odd place.
            gather.push_back(a_->sge(static_cast<std::size_t>(i) * 16384 + 11, kPieces[i]));
            total += kPieces[i];
        }
        std::vector<std::uint8_t> message(total);
        fill(message.data(), total, static_cast<std::uint32_t>(count));
        std::size_t position = 0;
        for (const ibv_sge& piece : gather) {
            if (piece.length != 0) {
                std::memcpy(reinterpret_cast<void*>(piece.addr), message.data() + position, piece.length);
            }
            position += piece.length;
        }
        // The receiver takes the pieces in the opposite order of lengths.
        std::vector<ibv_sge> scatter;
        for (int i = 0; i < count; ++i) {
            scatter.push_back(b_->sge(static_cast<std::size_t>(i) * 16384 + 5, kPieces[count - 1 - i]));
        }
        b_->post_recv(7, scatter);
        ibv_send_wr wr = request(IBV_WR_SEND, 8, gather.data(), count);
        a_->post(wr);
        a_->expect_success(8, IBV_WC_SEND);
        b_->expect_success(7, IBV_WC_RECV);
        std::vector<std::uint8_t> received;
        for (const ibv_sge& piece : scatter) {
            const auto* from = reinterpret_cast<const std::uint8_t*>(piece.addr);
            received.insert(received.end(), from, from + piece.length);
        }
        EXPECT_EQ(received, message) << count << " elements";
    }
}

TEST_P(Transfer, InlineDataIsTakenWhenPosted) {
    std::vector<std::uint8_t> unregistered(256);
    for (std::size_t size = 0; size <= 256; size += (size < 8 ? 1 : 31)) {
        fill(unregistered.data(), size, static_cast<std::uint32_t>(size));
        clear(*b_, size);
        const std::size_t half = size / 2;
        ibv_sge sges[2] = {
            {reinterpret_cast<std::uint64_t>(unregistered.data()), static_cast<std::uint32_t>(half), 0},
            {reinterpret_cast<std::uint64_t>(unregistered.data() + half),
             static_cast<std::uint32_t>(size - half), 0}};
        ibv_send_wr wr =
            rdma(IBV_WR_RDMA_WRITE, size, sges, 2, *b_, kRemote, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
        a_->post(wr);
        std::memset(unregistered.data(), 0, unregistered.size());
        a_->expect_success(size, IBV_WC_RDMA_WRITE);
        expect_only(*b_, kRemote, size, static_cast<std::uint32_t>(size));
    }
}

TEST_P(Transfer, AFencedSendWaitsForTheReadBeforeIt) {
    for (std::uint32_t round = 1; round <= 20; ++round) {
        fill(b_->at(kRemote), 70'000, round);
        b_->post_recv(round, {b_->sge(1U << 20U, 70'000)});
        ibv_sge local = a_->sge(1000, 70'000);
        ibv_send_wr read = rdma(IBV_WR_RDMA_READ, 1, &local, 1, *b_, kRemote);
        ibv_send_wr send = request(IBV_WR_SEND, 2, &local, 1, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
        read.next = &send;
        a_->post(read);
        a_->expect_success(1, IBV_WC_RDMA_READ);
        a_->expect_success(2, IBV_WC_SEND);
        b_->expect_success(round, IBV_WC_RECV);
        EXPECT_EQ(first_difference(b_->at(1U << 20U), 70'000, round), -1) << "round " << round;
    }
}

TEST_P(Transfer, ManyRequestsInFlightArriveInOrder) {
    constexpr std::size_t kMessages = 100;
    constexpr std::size_t kBytes = 5000;
    for (std::uint32_t round = 0; round < 5; ++round) {
        for (std::size_t i = 0; i < kMessages; ++i) {
            b_->post_recv(i, {b_->sge(i * 8192, 8192)});
        }
        for (std::size_t i = 0; i < kMessages; ++i) {
            fill(a_->at(i * 8192), kBytes + i, static_cast<std::uint32_t>(round * 1000 + i));
            ibv_sge sge = a_->sge(i * 8192, kBytes + i);
            // One in ten asks for a completion; it stands for the nine before.
            ibv_send_wr wr = request(IBV_WR_SEND, i, &sge, 1, i % 10 == 9 ? IBV_SEND_SIGNALED : 0);
            a_->post(wr);
        }
        for (std::size_t i = 9; i < kMessages; i += 10) a_->expect_success(i, IBV_WC_SEND);
        for (std::size_t i = 0; i < kMessages; ++i) {
            const ibv_wc received = b_->poll_one();
            ASSERT_EQ(received.status, IBV_WC_SUCCESS);
            EXPECT_EQ(received.wr_id, i);
            EXPECT_EQ(received.byte_len, kBytes + i);
            EXPECT_EQ(
                first_difference(b_->at(i * 8192), kBytes + i, static_cast<std::uint32_t>(round * 1000 + i)),
                -1);
        }
    }
    EXPECT_TRUE(a_->quiet());
}

INSTANTIATE_TEST_SUITE_P(Mtus, Transfer,
                         testing::Combine(testing::Values(IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024,
                                                          IBV_MTU_2048, IBV_MTU_4096),
                                          testing::Values("urnic1", "urnic0")),
                         [](const testing::TestParamInfo<Parameters>& info) {
                             const bool same = std::string(std::get<1>(info.param)) == "urnic0";
                             return std::to_string(128U << static_cast<unsigned>(std::get<0>(info.param))) +
                                    (same ? "OwnDevice" : "OtherDevice");
                         });

TEST(TransferToItself, AQpMayBeItsOwnPeer) {
    const Endpoint a("urnic0");
    connect(a, a);
    if (testing::Test::HasFailure()) return;
    fill(a.at(0), 10'000, 1);
    ibv_sge sge = a.sge(0, 10'000);
    ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, a, 100'000);
    a.post(wr);
    a.expect_success(1, IBV_WC_RDMA_WRITE);
    EXPECT_EQ(first_difference(a.at(100'000), 10'000, 1), -1);
}

TEST(TransferOverLinkLocalGid, Works) {
    const Endpoint a("urnic0");
    const Endpoint b("urnic1");
    connect(a, b, {.gid_index = 0});
    if (testing::Test::HasFailure()) return;
    fill(a.at(0), 10'000, 1);
    ibv_sge sge = a.sge(0, 10'000);
    ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, b, 0);
    a.post(wr);
    a.expect_success(1, IBV_WC_RDMA_WRITE);
    EXPECT_EQ(first_difference(b.at(0), 10'000, 1), -1);
}

}  // namespace
}  // namespace urnic::e2e
