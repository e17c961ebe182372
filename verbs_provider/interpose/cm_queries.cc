#include "verbs_provider/interpose/cm_queries.h"

#include <endian.h>
#include <infiniband/sa.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace urnic::provider {

namespace {

/// The part of struct sockaddr_ib (<infiniband/ib.h>) that librdmacm reads of a GID.
struct GidAddress {
    sa_family_t family;
    __be16 pkey;
    __be32 flow_info;
    std::uint8_t gid[16];
};
constexpr std::uint16_t kGidAddressBytes = 48;  // of the whole
constexpr unsigned kSelectorPlace = 6;          // in an octet of a path record (IBA 15.2.5.16)
constexpr std::size_t kPathsOffset = offsetof(rdma_ucm_query_path_resp, path_data);
static_assert(sizeof(ibv_path_data) == sizeof(ib_path_rec_data));

/// 0: of no IP address.
std::uint16_t length_of(const sockaddr_in6& address) {
    switch (address.sin6_family) {
        case AF_INET:
            return sizeof(sockaddr_in);
        case AF_INET6:
            return sizeof(sockaddr_in6);
        default:
            return 0;
    }
}

std::uint8_t selected(std::uint8_t selector, std::uint8_t value) {
    return static_cast<std::uint8_t>(selector << kSelectorPlace | value);
}

ibv_path_data path_data_of(const ib_user_path_rec& path) {
    ibv_path_data data{};
    data.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
    std::copy(std::begin(path.dgid), std::end(path.dgid), data.path.dgid.raw);
    std::copy(std::begin(path.sgid), std::end(path.sgid), data.path.sgid.raw);
    data.path.dlid = path.dlid;
    data.path.slid = path.slid;
    data.path.flowlabel_hoplimit = htobe32(be32toh(path.flow_label) << 8U | path.hop_limit);
    data.path.tclass = path.traffic_class;
    data.path.reversible_numpath = static_cast<std::uint8_t>((path.reversible != 0 ? 0x80U : 0U) | 1U);
    data.path.pkey = path.pkey;
    data.path.qosclass_sl = htobe16(path.sl);
    data.path.mtu = selected(path.mtu_selector, static_cast<std::uint8_t>(path.mtu));
    data.path.rate = selected(path.rate_selector, path.rate);
    data.path.packetlifetime = selected(path.packet_life_time_selector, path.packet_life_time);
    data.path.preference = path.preference;
    return data;
}

bool answer_paths(const rdma_ucm_query_route_resp& route, std::uint8_t* answer, std::size_t answer_bytes) {
    if (route.num_paths > std::size(route.ib_route) ||
        answer_bytes < kPathsOffset + route.num_paths * sizeof(ibv_path_data)) {
        return false;
    }
    std::memcpy(answer, &route.num_paths, sizeof route.num_paths);
    for (std::uint32_t i = 0; i < route.num_paths; ++i) {
        const ibv_path_data data = path_data_of(route.ib_route[i]);
        std::memcpy(answer + kPathsOffset + i * sizeof data, &data, sizeof data);
    }
    return true;
}

template <std::size_t N>
std::uint16_t put_gid(const __u8 (&gid)[N], __be16 pkey, __kernel_sockaddr_storage& storage) {
    GidAddress address{};
    static_assert(N == sizeof address.gid);
    address.family = AF_IB;
    address.pkey = pkey;
    std::copy(std::begin(gid), std::end(gid), address.gid);
    std::memcpy(&storage, &address, sizeof address);
    return kGidAddressBytes;
}

}  // namespace

bool answer_cm_query(std::uint32_t option, const rdma_ucm_query_route_resp& route, std::uint8_t* answer,
                     std::size_t answer_bytes) {
    const std::uint16_t src_bytes = length_of(route.src_addr);
    if (src_bytes == 0) {
        return false;
    }
    if (option == RDMA_USER_CM_QUERY_PATH) {
        return answer_paths(route, answer, answer_bytes);
    }
    rdma_ucm_query_addr_resp told{};
    if (answer_bytes != sizeof told) {
        return false;
    }
    told.node_guid = route.node_guid;
    told.port_num = route.port_num;
    told.pkey = route.ib_route[0].pkey;
    told.ibdev_index = route.ibdev_index;
    if (option == RDMA_USER_CM_QUERY_ADDR) {
        told.src_size = src_bytes;
        told.dst_size = length_of(route.dst_addr);
        std::memcpy(&told.src_addr, &route.src_addr, told.src_size);
        std::memcpy(&told.dst_addr, &route.dst_addr, told.dst_size);
    } else if (option == RDMA_USER_CM_QUERY_GID) {
        // Of service IDs, which librdmacm does not take from here, nothing is told.
        told.src_size = put_gid(route.ib_route[0].sgid, told.pkey, told.src_addr);
        told.dst_size = put_gid(route.ib_route[0].dgid, told.pkey, told.dst_addr);
    } else {
        return false;
    }
    std::memcpy(answer, &told, sizeof told);
    return true;
}

}  // namespace urnic::provider
