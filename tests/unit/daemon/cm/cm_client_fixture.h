// One application's client of rdma_cm on two devices, without a server.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "daemon/cm/client.h"
#include "daemon/control/control_server.h"
#include "tests/unit/daemon/inline_worker.h"
#include "tests/unit/daemon/own_neighbours.h"

namespace urnic::daemon {

class OneQp final : public QpOwner {
  public:
    [[nodiscard]] bool has_qp(const RnicState&, std::uint32_t number) const override { return number == 17; }
};

class CmClientTest : public testing::Test {
  protected:
    explicit CmClientTest(bool is_infiniband = false) {
        for (std::uint32_t i = 0; i < 2; ++i) {
            auto device = std::make_unique<dataplane::Device>();
            device->name = "urnic" + std::to_string(i);
            device->index = i;
            device->node_guid = i + 1;
            device->mac = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(i + 1)};
            device->gids[0] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0,
                               0,    0,    0, 0, 0, 0, 0, static_cast<std::uint8_t>(i + 1)};
            const wire::Gid ip = {0, 0, 0,    0,    0,   0,  0, 0,
                                  0, 0, 0xff, 0xff, 198, 18, 0, static_cast<std::uint8_t>(i + 1)};
            device->has_infiniband_link = is_infiniband;
            (is_infiniband ? device->ipoib_addresses[0] : device->gids[1]) = ip;
            device->neighbours = &neighbours_;
            control_.devices.push_back(std::make_unique<RnicState>(*device, 1));
            devices_.push_back(std::move(device));
        }
        control_.workers.push_back(std::make_unique<dataplane::Worker>(dataplane::WorkerConfig{}));
        control_.limits.max_cm_ids = 100;
        control_.limits.max_cm_channels = 4;
        service_ = std::make_unique<CmService>(control_);
        client_ = std::make_unique<CmClient>(*service_, owner_, control_.user(1000));
        EXPECT_EQ(client_->open_channel(channel_, reader_), 0);
    }

    template <typename T>
    int give(std::uint32_t command, const T& body, std::size_t bytes = sizeof(T), std::uint32_t out = 512,
             std::uint32_t channel = 0) {
        abi::CmCommandRequest request{};
        request.channel = channel == 0 ? channel_ : channel;
        request.command = command;
        request.in_bytes = static_cast<std::uint32_t>(bytes);
        request.out_bytes = out;
        std::memcpy(request.body, &body, std::min(bytes, sizeof body));
        reply_ = {};
        const int error = client_->command(request, reply_);
        // As the provider does.
        const abi::CmChannelFill& fill = channel == 0 ? reply_.own : reply_.other;
        for (; static_cast<std::int32_t>(fill.announced - taken_ - fill.waiting) > 0; ++taken_) {
            char byte = 0;
            EXPECT_EQ(::recv(reader_.get(), &byte, sizeof byte, MSG_DONTWAIT), 1);
        }
        return error;
    }
    template <typename T>
    [[nodiscard]] T answer() const {
        T body{};
        std::memcpy(&body, reply_.body, sizeof body);
        return body;
    }
    std::uint32_t create(std::uint16_t space = RDMA_PS_TCP, std::uint32_t channel = 0) {
        rdma_ucm_create_id command{};
        command.uid = ++uid_;
        command.ps = space;
        command.qp_type = 2;
        EXPECT_EQ(give(RDMA_USER_CM_CMD_CREATE_ID, command, sizeof command, 512, channel), 0);
        return answer<rdma_ucm_create_id_resp>().id;
    }
    static sockaddr_in6 ipv4(std::uint32_t address, std::uint16_t port) {
        sockaddr_in short_one{};
        short_one.sin_family = AF_INET;
        short_one.sin_addr.s_addr = htonl(address);
        short_one.sin_port = htons(port);
        sockaddr_in6 whole{};
        std::memcpy(&whole, &short_one, sizeof short_one);
        return whole;
    }
    int bind(std::uint32_t id, const sockaddr_in6& address) {
        rdma_ucm_bind_ip command{};
        command.id = id;
        command.addr = address;
        return give(RDMA_USER_CM_CMD_BIND_IP, command);
    }
    int listen(std::uint32_t id) { return give(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, 5}); }
    int resolve(std::uint32_t id, const sockaddr_in6& to, const sockaddr_in6& from = {}) {
        rdma_ucm_resolve_ip command{};
        command.id = id;
        command.src_addr = from;
        command.dst_addr = to;
        return give(RDMA_USER_CM_CMD_RESOLVE_IP, command);
    }
    int option(std::uint32_t id, std::uint32_t name, std::uint32_t value, std::uint32_t length) {
        struct {
            rdma_ucm_set_option head;
            std::uint32_t value;
        } command{{0, id, RDMA_OPTION_ID, name, length}, value};
        return give(RDMA_USER_CM_CMD_SET_OPTION, command, sizeof command.head + length);
    }
    int destroy(std::uint32_t id) {
        rdma_ucm_destroy_id command{};
        command.id = id;
        return give(RDMA_USER_CM_CMD_DESTROY_ID, command);
    }
    int get_event() { return give(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}); }
    [[nodiscard]] bool readable() const {
        pollfd entry{reader_.get(), POLLIN, 0};
        return ::poll(&entry, 1, 0) == 1;
    }

    /// A REQ of the second device's address comes to the first.
    void request(std::uint16_t port, std::uint32_t qp_num = 17) {
        struct Sent final : cm::Outbox {
            void send(const cm::SendMad& mad) override { bytes = mad.bytes; }
            void event(const cm::Event& /*event*/) override {}
            std::array<std::byte, kMadBytes> bytes{};
        } sent;
        cm::Config config;
        config.seed[0] = qp_num;
        cm::Manager peer(config);
        cm::ConnectParams params;
        params.route.local_gid = devices_[1]->gids[1];
        params.route.remote_gid = devices_[0]->gids[1];
        params.service_id = cm::ip_service_id(RDMA_PS_TCP, port);
        params.local_qpn = qp_num;
        params.ip = {.ip_version = 4,
                     .src_port = 40000,
                     .src_address = ip_cm_address(params.route.local_gid),
                     .dst_address = ip_cm_address(params.route.remote_gid)};
        ASSERT_EQ(peer.connect(params, 0, sent).status, cm::Status::kOk);
        const ReceivedMad mad{.src_gid = params.route.local_gid,
                              .dst_gid = params.route.remote_gid,
                              .src_mac = devices_[1]->mac,
                              .pkey = 0xffff,
                              .src_qp = 1,
                              .bytes = sent.bytes};
        service_->use(*control_.devices[0], [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) {
            manager.receive(mad, now, out);
        });
    }

    static constexpr std::uint32_t kFirst = 0xc6120001;   // 198.18.0.1
    static constexpr std::uint32_t kSecond = 0xc6120002;  // 198.18.0.2

    std::vector<std::unique_ptr<dataplane::Device>> devices_;
    OwnNeighbours neighbours_{devices_};
    ControlState control_;
    std::unique_ptr<CmService> service_;
    OneQp owner_;
    std::unique_ptr<CmClient> client_;
    std::uint32_t channel_ = 0;
    UniqueFd reader_;
    std::uint32_t taken_ = 0;  // messages
    abi::CmCommandReply reply_{};
    std::uint64_t uid_ = 1000;
};

}  // namespace urnic::daemon
