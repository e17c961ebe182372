// QUERY: what QUERY_ROUTE says in parts, for addresses of any family.
#include <cerrno>
#include <cstddef>
#include <span>

#include "daemon/cm/attributes.h"
#include "daemon/cm/client.h"
#include "rnic/wire/fields.h"

namespace urnic::daemon {

namespace {

constexpr std::uint8_t kQueriedPort = 1;
constexpr std::uint32_t kPathFlags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
/// Programs of before ibdev_index have no room for it.
constexpr std::size_t kLeastAddresses = offsetof(rdma_ucm_query_addr_resp, ibdev_index);

/// rdma_ucm_query_path_resp without its paths, and with one.
struct PathCount {
    std::uint32_t num_paths;
    std::uint32_t reserved;
};
struct OnePath {
    PathCount count;
    ib_path_rec_data path;
};
static_assert(offsetof(OnePath, path) == offsetof(rdma_ucm_query_path_resp, path_data));

std::uint16_t queried_pkey(const CmId& id) { return id.device->device->pkeys.entries.at(id.pkey_index); }

rdma_ucm_query_addr_resp describe_device(const CmId& id) {
    rdma_ucm_query_addr_resp answer{};
    answer.ibdev_index = ~0U;  // devices are told apart by their GUIDs
    if (id.device != nullptr) {
        answer.node_guid = id.device->device->node_guid;
        answer.port_num = kQueriedPort;
        answer.pkey = htons(queried_pkey(id));
    }
    return answer;
}

rdma_ucm_query_addr_resp describe_addresses(const CmId& id) {
    rdma_ucm_query_addr_resp answer = describe_device(id);
    answer.src_size = write_address(id.local.at, answer.src_addr);
    answer.dst_size = write_address(id.remote, answer.dst_addr);
    return answer;
}

/// An address as one of AF_IB, with the GID that stands for it.
Endpoint with_gid(const CmId& id, const Endpoint& address, const wire::Gid& gid) {
    Endpoint endpoint = address;
    if (!address.is_ib()) {
        endpoint.family = AF_IB;
        endpoint.ib.pkey = id.device == nullptr ? std::uint16_t{0} : queried_pkey(id);
        endpoint.ib.service_id = cm::ip_service_id(id.space, address.port);
    }
    endpoint.gid = gid;
    return endpoint;
}

rdma_ucm_query_addr_resp describe_gids(const CmId& id) {
    rdma_ucm_query_addr_resp answer = describe_device(id);
    answer.src_size = write_address(with_gid(id, id.local.at, id.local_gid), answer.src_addr);
    answer.dst_size = write_address(with_gid(id, id.remote, id.remote_gid), answer.dst_addr);
    return answer;
}

OnePath describe_path(const CmId& id) {
    const wire::mad::PathRecord path = path_of(id);
    OnePath answer{};
    answer.count.num_paths = 1;
    answer.path.flags = kPathFlags;
    wire::write_fields(wire::mad::kPathRecordTable, &path,
                       std::as_writable_bytes(std::span(answer.path.path_rec)).data());
    return answer;
}

}  // namespace

int CmClient::query(const rdma_ucm_query& command, Call& call) {
    CmId* id = nullptr;
    if (const int error = find(call, command.id, id); error != 0) {
        return error;
    }
    switch (command.option) {
        case RDMA_USER_CM_QUERY_ADDR:
            return call.answer(describe_addresses(*id), kLeastAddresses);
        case RDMA_USER_CM_QUERY_GID:
            return call.answer(describe_gids(*id), kLeastAddresses);
        case RDMA_USER_CM_QUERY_PATH:
            return id->has_route ? call.answer(describe_path(*id)) : call.answer(PathCount{});
        default:
            return ENOSYS;
    }
}

}  // namespace urnic::daemon
