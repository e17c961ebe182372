// Synchronous ids of the stock librdmacm: each call waits for what it began. Under `urnic run --standalone`.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "tests/e2e/verbs/connection_parts.h"

namespace urnic::e2e {
namespace {

struct AddrinfoDeleter {
    void operator()(rdma_addrinfo* info) const { rdma_freeaddrinfo(info); }
};
std::unique_ptr<rdma_addrinfo, AddrinfoDeleter> look_up(const char* node, const std::string& service,
                                                        int flags) {
    rdma_addrinfo hints{};
    hints.ai_flags = flags;
    hints.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo* found = nullptr;
    EXPECT_EQ(rdma_getaddrinfo(node, service.c_str(), &hints, &found), 0) << std::strerror(errno);
    return std::unique_ptr<rdma_addrinfo, AddrinfoDeleter>(found);
}

struct EndpointDeleter {
    void operator()(rdma_cm_id* id) const { rdma_destroy_ep(id); }
};
using Ep = std::unique_ptr<rdma_cm_id, EndpointDeleter>;

/// These calls wait by themselves, and for ever: when what they wait for does not come, nothing but the end
/// of the program is left.
class SynchronousIds : public testing::Test {
  protected:
    void SetUp() override {
        (void)std::signal(SIGALRM, [](int) {
            static constexpr char kWhy[] =
                "a synchronous call of librdmacm waited 60 seconds for what did not come\n";
            (void)!::write(STDERR_FILENO, kWhy, sizeof kWhy - 1);
            ::_exit(1);
        });
        (void)::alarm(60);
    }
    void TearDown() override { (void)::alarm(0); }
};

/// Endpoints of rdma_create_ep: each call waits for what it began.
TEST_F(SynchronousIds, EndpointsCarryAMessage) {
    constexpr std::size_t kMessage = 1000;
    const auto here = look_up(kServer, "7471", RAI_PASSIVE | RAI_NUMERICHOST);
    ibv_qp_init_attr init = queues();
    rdma_cm_id* made = nullptr;
    ASSERT_EQ(rdma_create_ep(&made, here.get(), nullptr, &init), 0) << std::strerror(errno);
    const Ep listener(made);
    ASSERT_EQ(rdma_listen(listener.get(), 1), 0) << std::strerror(errno);

    const Bytes sent = pattern(kMessage);
    Bytes got(kMessage);
    std::jthread server([&] {  // an ASSERT below leaves, and the alarm ends its waiting
        rdma_cm_id* request = nullptr;
        ASSERT_EQ(rdma_get_request(listener.get(), &request), 0) << std::strerror(errno);
        const Ep passive(request);
        ibv_mr* mr = rdma_reg_msgs(passive.get(), got.data(), got.size());
        ASSERT_NE(mr, nullptr);
        EXPECT_EQ(rdma_post_recv(passive.get(), nullptr, got.data(), got.size(), mr), 0);
        EXPECT_EQ(rdma_accept(passive.get(), nullptr), 0) << std::strerror(errno);
        ibv_wc completion{};
        EXPECT_EQ(rdma_get_recv_comp(passive.get(), &completion), 1);
        EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
        EXPECT_EQ(completion.byte_len, kMessage);
        rdma_disconnect(passive.get());
        rdma_dereg_mr(mr);
    });
    const auto there = look_up(kServer, "7471", RAI_NUMERICHOST);
    init = queues();
    ASSERT_EQ(rdma_create_ep(&made, there.get(), nullptr, &init), 0) << std::strerror(errno);
    const Ep active(made);
    ibv_mr* mr = rdma_reg_msgs(active.get(), const_cast<std::uint8_t*>(sent.data()), sent.size());
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(rdma_connect(active.get(), nullptr), 0) << std::strerror(errno);
    EXPECT_EQ(
        rdma_post_send(active.get(), nullptr, const_cast<std::uint8_t*>(sent.data()), sent.size(), mr, 0), 0);
    ibv_wc completion{};
    EXPECT_EQ(rdma_get_send_comp(active.get(), &completion), 1);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(rdma_disconnect(active.get()), 0);
    server.join();
    rdma_dereg_mr(mr);
    EXPECT_EQ(got, sent);
}

/// What a call waited for and did not come is its error.
TEST_F(SynchronousIds, RefusalsAreErrors) {
    const auto there = look_up(kServer, "7472", RAI_NUMERICHOST);
    ibv_qp_init_attr init = queues();
    rdma_cm_id* made = nullptr;
    ASSERT_EQ(rdma_create_ep(&made, there.get(), nullptr, &init), 0) << std::strerror(errno);
    const Ep active(made);
    EXPECT_EQ(rdma_connect(active.get(), nullptr), -1);
    EXPECT_EQ(errno, ECONNREFUSED) << "nobody listens there";
    // Where nobody has the address nothing is made.
    const auto nobody = look_up("203.0.113.9", "7472", RAI_NUMERICHOST);
    init = queues();
    EXPECT_EQ(rdma_create_ep(&made, nobody.get(), nullptr, &init), -1);
    EXPECT_EQ(errno, ENETUNREACH);
}

}  // namespace
}  // namespace urnic::e2e
