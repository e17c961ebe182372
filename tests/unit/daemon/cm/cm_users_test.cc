// What all processes of one user may have of rdma_cm together.
#include <gtest/gtest.h>

#include <cstring>

#include "daemon/cm/client.h"
#include "tests/unit/daemon/inline_worker.h"

namespace urnic::daemon {
namespace {

class NoQps final : public QpOwner {
  public:
    [[nodiscard]] bool has_qp(const RnicState& /*rnic*/, std::uint32_t /*qp_num*/) const override {
        return false;
    }
};

struct CmProcess {
    CmProcess(CmService& service, User& user) : client(service, owner, user) {
        error = client.open_channel(channel, channel_fd);
    }
    template <typename T>
    int give(std::uint32_t command, const T& body) {
        abi::CmCommandRequest request{};
        request.channel = channel;
        request.command = command;
        request.in_bytes = sizeof body;
        request.out_bytes = 512;
        std::memcpy(request.body, &body, sizeof body);
        reply = {};
        return client.command(request, reply);
    }
    int create() {
        rdma_ucm_create_id command{};
        command.ps = RDMA_PS_TCP;
        return give(RDMA_USER_CM_CMD_CREATE_ID, command);
    }
    /// Of the last create().
    [[nodiscard]] std::uint32_t id() const {
        rdma_ucm_create_id_resp body{};
        std::memcpy(&body, reply.body, sizeof body);
        return body.id;
    }
    /// On all addresses.
    int bind(std::uint32_t id, std::uint16_t port) {
        rdma_ucm_bind_ip command{};
        command.id = id;
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        std::memcpy(&command.addr, &address, sizeof address);
        return give(RDMA_USER_CM_CMD_BIND_IP, command);
    }
    int destroy(std::uint32_t id) {
        rdma_ucm_destroy_id command{};
        command.id = id;
        return give(RDMA_USER_CM_CMD_DESTROY_ID, command);
    }
    NoQps owner;
    CmClient client;
    std::uint32_t channel = 0;
    UniqueFd channel_fd;
    int error = 0;
    abi::CmCommandReply reply{};
};

TEST(CmUsers, ProcessesShareTheQuota) {
    ControlState control;
    control.is_privileged = [](uid_t) { return false; };
    UserLimits& limits = control.limits.per_uid;
    limits[Resource::kCmChannels] = 2;
    limits[Resource::kCmIds] = 3;
    limits[Resource::kCmPorts] = 2;
    CmService service(control);
    User& user = control.user(1000);
    CmProcess first(service, user);
    CmProcess second(service, user);
    EXPECT_EQ(second.error, 0);
    EXPECT_EQ(CmProcess(service, user).error, EMFILE);
    EXPECT_EQ(CmProcess(service, control.user(1001)).error, 0) << "another has his own";
    ASSERT_EQ(first.create(), 0);
    const std::uint32_t first_id = first.id();
    ASSERT_EQ(second.create(), 0);
    const std::uint32_t second_id = second.id();
    ASSERT_EQ(second.create(), 0);
    const std::uint32_t third_id = second.id();
    EXPECT_EQ(first.create(), ENOMEM);
    EXPECT_EQ(first.bind(first_id, 7471), 0);
    EXPECT_EQ(second.bind(second_id, 7471), EADDRNOTAVAIL) << "the first has it";
    EXPECT_EQ(second.bind(second_id, 0), 0);
    EXPECT_EQ(second.bind(third_id, 0), EADDRNOTAVAIL) << "a third port";
    EXPECT_EQ(user.count(Resource::kCmPorts), 2U);
    EXPECT_EQ(first.destroy(first_id), 0);
    EXPECT_EQ(second.bind(third_id, 0), 0);
    EXPECT_EQ(first.create(), 0);
}

}  // namespace
}  // namespace urnic::daemon
