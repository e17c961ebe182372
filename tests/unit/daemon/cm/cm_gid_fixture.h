// One application's client of rdma_cm that has addresses of AF_IB.
#pragma once

#include <endian.h>

#include <array>
#include <initializer_list>

#include "rnic/wire/fields.h"
#include "tests/unit/daemon/cm/cm_infiniband_fixture.h"

namespace urnic::daemon {

inline constexpr std::uint64_t kSaidSpace = 0xffff'ffff'ffff'0000;
inline constexpr std::uint64_t kSaidWhole = ~std::uint64_t{0};
inline constexpr std::uint64_t kTcpService = 0x0106'0000;
inline constexpr std::uint64_t kUdpService = 0x0111'0000;
inline constexpr std::uint64_t kIbService = 0x013f'0000;
inline constexpr wire::Gid kAnyGid{};

class CmGidTest : public CmInfinibandTest {
  protected:
    static SockaddrIb gid_address(const wire::Gid& gid, std::uint64_t service = 0, std::uint64_t said = 0,
                                  std::uint16_t pkey = 0xffff) {
        SockaddrIb address{};
        address.family = AF_IB;
        address.pkey = htons(pkey);
        std::copy(gid.begin(), gid.end(), std::begin(address.gid));
        address.service_id = htobe64(service);
        address.service_mask = htobe64(said);
        return address;
    }
    [[nodiscard]] const wire::Gid& gid(std::size_t rnic) const { return devices_[rnic]->gids[0]; }

    template <typename Address>
    int bind_long(std::uint32_t id, const Address& address, std::uint16_t bytes = sizeof(Address)) {
        rdma_ucm_bind command{};
        command.id = id;
        command.addr_size = bytes;
        std::memcpy(&command.addr, &address, sizeof address);
        return give(RDMA_USER_CM_CMD_BIND, command);
    }
    template <typename To, typename From = SockaddrIb>
    int resolve_long(std::uint32_t id, const To& to, std::uint16_t to_bytes = sizeof(To),
                     const From* from = nullptr, std::uint16_t from_bytes = sizeof(From)) {
        rdma_ucm_resolve_addr command{};
        command.id = id;
        command.dst_size = to_bytes;
        std::memcpy(&command.dst_addr, &to, sizeof to);
        if (from != nullptr) {
            command.src_size = from_bytes;
            std::memcpy(&command.src_addr, from, sizeof *from);
        }
        return give(RDMA_USER_CM_CMD_RESOLVE_ADDR, command);
    }
    int query(std::uint32_t id, std::uint32_t option, std::uint32_t room = 512) {
        rdma_ucm_query command{};
        command.id = id;
        command.option = option;
        return give(RDMA_USER_CM_CMD_QUERY, command, sizeof command, room);
    }
    [[nodiscard]] rdma_ucm_query_addr_resp addresses(std::uint32_t id,
                                                     std::uint32_t option = RDMA_USER_CM_QUERY_ADDR) {
        EXPECT_EQ(query(id, option), 0);
        return answer<rdma_ucm_query_addr_resp>();
    }
    [[nodiscard]] static SockaddrIb ib(const __kernel_sockaddr_storage& storage) {
        SockaddrIb address{};
        std::memcpy(&address, &storage, sizeof address);
        return address;
    }
    [[nodiscard]] static wire::Gid gid_of(const SockaddrIb& address) {
        wire::Gid gid{};
        std::copy(std::begin(address.gid), std::end(address.gid), gid.begin());
        return gid;
    }
    /// To the second RNIC's port, by its GID.
    std::uint32_t resolved_gid(std::uint64_t service = kTcpService | 7174) {
        const std::uint32_t id = create();
        EXPECT_EQ(resolve_long(id, gid_address(gid(1), service, kSaidWhole)), 0);
        EXPECT_EQ(next_event(), kAddrResolved);
        return id;
    }
    [[nodiscard]] wire::cm::Req req_sent() const {
        const auto message = wire::cm::parse_message(
            wire::cm::Req::kAttributeId,
            wire::cm::MessageBytes(gsi_.sent.back().mad.data() + wire::kMadHeaderBytes,
                                   wire::cm::kMessageBytes));
        const auto* req = message ? std::get_if<wire::cm::Req>(&*message) : nullptr;
        EXPECT_NE(req, nullptr);
        return req == nullptr ? wire::cm::Req{} : *req;
    }
    [[nodiscard]] wire::cm::Rej rej_sent() const {
        EXPECT_FALSE(gsi_.sent.empty());
        if (gsi_.sent.empty()) {
            return {};
        }
        return wire::cm::parse_cm<wire::cm::Rej>(wire::cm::MessageBytes(
            gsi_.sent.back().mad.data() + wire::kMadHeaderBytes, wire::cm::kMessageBytes));
    }
    /// A REQ of the second RNIC's port comes to the first's: by GIDs, or with an IP CM header.
    void request_over_infiniband(std::uint64_t service, bool is_by_gid, std::uint32_t qp_num = 17) {
        struct Sent final : cm::Outbox {
            void send(const cm::SendMad& mad) override { bytes = mad.bytes; }
            void event(const cm::Event& /*event*/) override {}
            std::array<std::byte, kMadBytes> bytes{};
        } sent;
        cm::Config config;
        config.seed[0] = qp_num;
        cm::Manager peer(config);
        cm::ConnectParams params;
        params.route.local_gid = gid(1);
        params.route.remote_gid = gid(0);
        params.route.local_lid = 2;
        params.route.remote_lid = 1;
        params.service_id = service;
        params.local_qpn = qp_num;
        params.path_mtu = 1;
        params.private_data = kPrivateData;
        if (!is_by_gid) {
            params.ip = {.ip_version = 4,
                         .src_port = 40000,
                         .src_address = ip_cm_address(devices_[1]->ipoib_addresses[0]),
                         .dst_address = ip_cm_address(devices_[0]->ipoib_addresses[0])};
        }
        ASSERT_EQ(peer.connect(params, 0, sent).status, cm::Status::kOk);
        subnet::MadPacket packet;
        packet.slid = 2;
        packet.dlid = 1;
        packet.src_qp = packet.dest_qp = 1;
        packet.pkey = 0xffff;
        packet.mad = sent.bytes;
        ASSERT_TRUE(service_->receive(*control_.devices[0], packet));
    }
    /// A record of librdmacm's RDMA_OPTION_IB_PATH: a good path to the second RNIC's port.
    [[nodiscard]] mad::PathRecord good_path() const {
        mad::PathRecord path;
        path.sgid = gid(0);
        path.dgid = gid(1);
        path.slid = 1;
        path.dlid = 2;
        path.reversible = true;
        path.numb_path = 1;
        path.pkey = 0xffff;
        path.sl = 6;
        path.mtu = 1;
        path.rate = 3;
        path.packet_life_time = 14;
        return path;
    }
    [[nodiscard]] static ib_path_rec_data record_of(const mad::PathRecord& path,
                                                    std::uint32_t flags = IB_PATH_GMP | IB_PATH_PRIMARY |
                                                                          IB_PATH_BIDIRECTIONAL) {
        ib_path_rec_data record{};
        record.flags = flags;
        wire::write_fields(mad::kPathRecordTable, &path,
                           std::as_writable_bytes(std::span(record.path_rec)).data());
        return record;
    }
    int set_paths(std::uint32_t id, std::initializer_list<ib_path_rec_data> records, std::size_t extra = 0) {
        struct {
            rdma_ucm_set_option head;
            ib_path_rec_data records[3];
        } command{};
        const std::size_t bytes = records.size() * sizeof(ib_path_rec_data) + extra;
        command.head.id = id;
        command.head.level = RDMA_OPTION_IB;
        command.head.optname = RDMA_OPTION_IB_PATH;
        command.head.optlen = static_cast<std::uint32_t>(bytes);
        std::copy(records.begin(), records.end(), std::begin(command.records));
        return give(RDMA_USER_CM_CMD_SET_OPTION, command, sizeof command.head + bytes);
    }
    int join_long(std::uint32_t id, const SockaddrIb& group, std::uint16_t bytes = sizeof(SockaddrIb),
                  std::uint16_t flags = RDMA_MC_JOIN_FLAG_FULLMEMBER) {
        rdma_ucm_join_mcast command{};
        command.id = id;
        command.addr_size = bytes;
        command.join_flags = flags;
        std::memcpy(&command.addr, &group, sizeof group);
        return give(RDMA_USER_CM_CMD_JOIN_MCAST, command);
    }

    static constexpr std::array<std::uint8_t, 5> kPrivateData{0, 0x81, 2, 3, 4};
};

}  // namespace urnic::daemon
