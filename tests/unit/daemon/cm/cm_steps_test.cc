// Channels with many ids, and ids with many requests, end in steps: others are served in between.
#include "tests/unit/daemon/cm/cm_client_fixture.h"

namespace urnic::daemon {
namespace {

TEST_F(CmClientTest, ManyIdsEndInSteps) {
    std::uint32_t channel = 0;
    UniqueFd reader;
    ASSERT_EQ(client_->open_channel(channel, reader), 0);
    constexpr std::uint32_t kIds = 60;
    for (std::uint32_t i = 0; i < kIds; ++i) {
        (void)create(RDMA_PS_TCP, channel);
    }
    const std::uint32_t own = create();
    std::size_t left = client_->num_ids();
    int steps = 0;
    int error = kUnfinished;
    for (; error == kUnfinished; ++steps) {
        error = client_->close_channel(channel);
        EXPECT_LE(left - client_->num_ids(), 16U);
        left = client_->num_ids();
    }
    EXPECT_EQ(error, 0);
    EXPECT_GE(steps, 4);
    EXPECT_EQ(client_->num_ids(), 1U);
    EXPECT_EQ(client_->close_channel(channel), ENOENT);
    EXPECT_EQ(destroy(own), 0);
}

TEST_F(CmClientTest, AListenerWithManyRequestsEndsInSteps) {
    const std::uint32_t listener = create();
    ASSERT_EQ(bind(listener, ipv4(kFirst, 7174)), 0);
    ASSERT_EQ(give(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{listener, 0}), 0);
    constexpr std::uint32_t kRequests = 40;
    for (std::uint32_t i = 0; i < kRequests; ++i) {
        request(7174, 100 + i);
    }
    ASSERT_EQ(client_->num_ids(), kRequests + 1);
    int steps = 0;
    int error = kUnfinished;
    std::size_t left = client_->num_ids();
    for (; error == kUnfinished; ++steps) {
        error = destroy(listener);
        EXPECT_LE(left - client_->num_ids(), 17U);
        left = client_->num_ids();
        request(7174, 200);  // nobody listens any more
    }
    EXPECT_EQ(error, 0);
    EXPECT_EQ(steps, 3);
    EXPECT_EQ(client_->num_ids(), 0U);
}

}  // namespace
}  // namespace urnic::daemon
