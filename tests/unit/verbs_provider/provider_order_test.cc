// What the daemon reads is whole before it is published, at whatever instruction of the application it looks.
#include <cstring>
#include <vector>

#include "tests/support/single_step.h"
#include "tests/unit/verbs_provider/provider_fixture.h"

namespace urnic::test {
namespace {

class PostingOrder : public Provider {
  protected:
    /// Runs `post`, which fills the slot, and compares what lay there when its sequence number became `seq`
    /// with what lies there in the end.
    template <typename Post>
    static void check(std::byte* slot, std::size_t stride, std::uint32_t seq, Post&& post) {
        auto& published_seq = *reinterpret_cast<std::atomic<std::uint32_t>*>(slot);
        // No field has the value that it gets.
        std::memset(slot + sizeof published_seq, 0xa5, stride - sizeof published_seq);
        std::vector<std::byte> seen(stride);
        bool published = false;
        SingleStep::through(post, [&] {
            if (!published && published_seq.load() == seq) {
                published = true;
                std::memcpy(seen.data(), slot, stride);
            }
        });
        EXPECT_EQ(published_seq.load(), seq);
        if (kSingleSteps) {
            ASSERT_TRUE(published);
            EXPECT_EQ(std::memcmp(seen.data(), slot, stride), 0) << "published before it was whole";
        }
    }
};

TEST_F(PostingOrder, Sends) {
    open_with_qp();
    const std::size_t stride = abi::send_stride(FakeDaemon::kMaxSge, FakeDaemon::kMaxInline);
    struct ibv_sge sges[] = {sge, sge};
    const char text[] = "inline";
    for (std::uint32_t i = 0; i < 3; ++i) {
        struct ibv_send_wr wr = send_request(11, sges);
        wr.num_sge = 2;
        wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr.imm_data = 0x01020304;
        wr.wr.rdma.remote_addr = 0xabcdef;
        wr.wr.rdma.rkey = 55;
        if (i == 1) {
            sges[0] = sges[1] = {reinterpret_cast<std::uintptr_t>(text), sizeof text, 0};
            wr.send_flags |= IBV_SEND_INLINE;
        }
        int error = -1;
        check(daemon.qp().memory->data() + i * stride, stride, i + 1, [&] { error = post_one(qp, wr); });
        EXPECT_EQ(error, 0);
    }
}

TEST_F(PostingOrder, Receives) {
    open_with_qp();
    const std::size_t stride = abi::recv_stride(FakeDaemon::kMaxSge);
    std::byte* ring =
        daemon.qp().memory->data() + 4 * abi::send_stride(FakeDaemon::kMaxSge, FakeDaemon::kMaxInline);
    for (std::uint32_t i = 0; i < 3; ++i) {
        int error = -1;
        check(ring + i * stride, stride, i + 1, [&] { error = post_receive(qp, 7 + i); });
        EXPECT_EQ(error, 0);
    }
}

}  // namespace
}  // namespace urnic::test
