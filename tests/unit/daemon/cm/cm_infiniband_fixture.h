// One application's client of rdma_cm on two ports of InfiniBand, with a subnet administrator that answers as
// the test wants it.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "daemon/cm/infiniband.h"
#include "daemon/state/subnet_gsi.h"
#include "rnic/subnet/sa_components.h"
#include "tests/unit/daemon/cm/cm_client_fixture.h"

namespace urnic::daemon {

namespace mad = wire::mad;

inline constexpr std::uint16_t kAdministratorLid = 9;
inline constexpr std::uint32_t kGroup = 0xef010203;  // 239.1.2.3
inline constexpr std::uint16_t kMlid = 0xc005;

/// What has been sent, and is not delivered unless the test does it.
class RecordedGsi final : public SubnetGsi {
  public:
    explicit RecordedGsi(ControlState& control) : control_(control) {}
    [[nodiscard]] bool share_subnet(const RnicState& a, const RnicState& b) const override {
        return is_managed && (&a == &b || is_one_subnet);
    }
    [[nodiscard]] RnicState* find_lid(const RnicState& /*on*/, std::uint16_t lid) const override {
        const auto found = std::find_if(control_.devices.begin(), control_.devices.end(),
                                        [&](const auto& rnic) { return rnic->device->subnet.has_lid(lid); });
        return found == control_.devices.end() ? nullptr : found->get();
    }
    void send(const RnicState& from, const subnet::MadPacket& packet) override {
        sent.push_back(packet);
        sent.back().slid = from.device->subnet.lid;
    }

    bool is_managed = true;
    bool is_one_subnet = true;
    std::vector<subnet::MadPacket> sent;

  private:
    ControlState& control_;
};

class CmInfinibandTest : public CmClientTest {
  protected:
    CmInfinibandTest() : CmClientTest(true) {
        for (const auto& device : devices_) {
            device->subnet.lid = static_cast<std::uint16_t>(device->index + 1);
            device->subnet.sm_lid = kAdministratorLid;
            device->subnet.sm_sl = 2;
        }
        control_.gsi = &gsi_;
    }
    ~CmInfinibandTest() override { client_.reset(); }

    [[nodiscard]] static subnet::MadPacket answer_to(subnet::MadPacket packet, std::uint16_t status = 0) {
        std::swap(packet.slid, packet.dlid);
        subnet::make_response(subnet::MadRef(packet.mad), status);
        return packet;
    }
    /// To the last request, by a path that `change` may spoil. Returns whether it was taken.
    bool answer_path(const std::function<void(mad::PathRecord&)>& change = {}, std::uint16_t status = 0) {
        subnet::MadPacket packet = answer_to(gsi_.sent.back(), status);
        const subnet::MadRef ref(packet.mad);
        auto path = ref.read<mad::PathRecord>(mad::kPathRecordTable, mad::kSaDataOffset);
        path.slid = packet.dlid;
        path.dlid = static_cast<std::uint16_t>(path.dgid[15]);
        path.mtu = 4;
        path.rate = 3;
        path.sl = 5;
        path.pkey = 0xffff;
        path.packet_life_time = 14;
        if (change) {
            change(path);
        }
        subnet::MadRef(packet.mad).write(mad::kPathRecordTable, mad::kSaDataOffset, path);
        return service_->receive(*gsi_.find_lid(*control_.devices[0], packet.dlid), packet);
    }
    std::uint32_t resolved(std::uint32_t address = kSecond) {
        const std::uint32_t id = create();
        EXPECT_EQ(resolve(id, ipv4(address, 7174)), 0);
        EXPECT_EQ(next_event(), kAddrResolved);
        return id;
    }
    int ask_route(std::uint32_t id, std::uint32_t timeout_ms = 1'000'000) {
        return give(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, timeout_ms});
    }
    std::uint32_t next_event() {
        EXPECT_EQ(get_event(), 0);
        return answer<rdma_ucm_event_resp>().event;
    }
    [[nodiscard]] int event_error() const { return -static_cast<int>(answer<rdma_ucm_event_resp>().status); }
    int connect(std::uint32_t id) {
        rdma_ucm_connect command{};
        command.id = id;
        command.conn_param.valid = 1;
        command.conn_param.qp_num = 17;
        return give(RDMA_USER_CM_CMD_CONNECT, command);
    }
    int join(std::uint32_t id, std::uint32_t& group) {
        rdma_ucm_join_ip_mcast command{};
        command.id = id;
        command.addr = ipv4(kGroup, 0);
        const int error = give(RDMA_USER_CM_CMD_JOIN_IP_MCAST, command);
        group = answer<rdma_ucm_create_id_resp>().id;
        return error;
    }
    bool answer_join(std::uint16_t status = 0, std::uint16_t mlid = kMlid) {
        subnet::MadPacket packet = answer_to(gsi_.sent.back(), status);
        const subnet::MadRef ref(packet.mad);
        auto record = ref.read<mad::McMemberRecord>(mad::kMcMemberRecordTable, mad::kSaDataOffset);
        record.mlid = mlid;
        record.sl = 5;
        record.rate = 3;
        subnet::MadRef(packet.mad).write(mad::kMcMemberRecordTable, mad::kSaDataOffset, record);
        return service_->receive(*gsi_.find_lid(*control_.devices[0], packet.dlid), packet);
    }
    int leave(std::uint32_t group) {
        rdma_ucm_destroy_id command{};
        command.id = group;
        return give(RDMA_USER_CM_CMD_LEAVE_MCAST, command);
    }
    [[nodiscard]] std::size_t memberships() { return service_->memberships(*control_.devices[0]).size(); }
    [[nodiscard]] std::uint8_t method_sent() { return subnet::MadRef(gsi_.sent.back().mad).method(); }
    std::uint32_t datagram_id() {
        rdma_ucm_create_id command{};
        command.uid = ++uid_;
        command.ps = RDMA_PS_UDP;
        command.qp_type = 4;
        EXPECT_EQ(give(RDMA_USER_CM_CMD_CREATE_ID, command), 0);
        const std::uint32_t id = answer<rdma_ucm_create_id_resp>().id;
        EXPECT_EQ(bind(id, ipv4(kFirst, 0)), 0);
        return id;
    }
    /// Until an event is there: time-outs are the service's timer's.
    void wait_for_event() {
        for (int rounds = 0; !readable() && rounds < 3000; ++rounds) {
            control_.event_loop.run_once(10);
        }
    }

    RecordedGsi gsi_{control_};
};

}  // namespace urnic::daemon
