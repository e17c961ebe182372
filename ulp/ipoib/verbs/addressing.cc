#include "ulp/ipoib/verbs/addressing.h"

#include <algorithm>

namespace urnic::ipoib {

namespace {

/// Every datagram has a GRH: its receiver tells neighbours by GID and QPN.
ibv_ah_attr global_vector(const RdmaPort& port, const Gid& destination) {
    ibv_ah_attr vector{};
    std::copy(destination.begin(), destination.end(), reinterpret_cast<std::byte*>(vector.grh.dgid.raw));
    vector.grh.sgid_index = port.gid_index();
    vector.is_global = 1;
    vector.port_num = port.number();
    return vector;
}

/// As the administrator's record of a group or a path says.
template <class Record>
ibv_ah_attr recorded_vector(const RdmaPort& port, const Gid& destination, std::uint16_t lid,
                            const Record& record) {
    ibv_ah_attr vector = global_vector(port, destination);
    vector.grh.flow_label = record.flow_label;
    vector.grh.hop_limit = record.hop_limit;
    vector.grh.traffic_class = record.traffic_class;
    vector.dlid = lid;
    vector.sl = record.service_level;
    return vector;
}

}  // namespace

Progress RoceAddressing::find(const Gid& destination, ibv_ah_attr& vector) {
    vector = global_vector(port_, destination);
    vector.grh.hop_limit = traffic_.hop_limit;
    vector.grh.traffic_class = traffic_.traffic_class;
    vector.sl = traffic_.service_level;
    return Progress::kDone;
}

Progress RoceAddressing::join(const Gid& /*group*/, std::uint16_t& mlid) {
    mlid = 0;
    return Progress::kDone;
}

void RoceAddressing::leave(const Gid& /*group*/) {}

Progress SubnetAddressing::find(const Gid& destination, ibv_ah_attr& vector) {
    if (is_multicast(destination)) {
        // Who sends to a group that the kernel is no member of joins it for that (RFC 4391, section 10).
        const Progress progress = client_.join(destination, JoinState::kSendOnlyNonMember);
        if (progress == Progress::kDone) {
            const GroupRecord& group = *client_.group(destination);
            vector = recorded_vector(port_, destination, group.mlid, group);
        }
        return progress;
    }
    const Progress progress = client_.find_path(destination);
    if (progress == Progress::kDone) {
        const std::optional<ibv_port_attr> port = port_.try_query();
        if (!port) {
            return Progress::kFailed;
        }
        const PathRecord& path = *client_.path(destination);
        vector = recorded_vector(port_, destination, path.dlid, path);
        // The LID that the path begins with is one of the port's 2^LMC.
        vector.src_path_bits = static_cast<std::uint8_t>(path.slid & ((1U << port->lmc) - 1));
    }
    return progress;
}

Progress SubnetAddressing::join(const Gid& group, std::uint16_t& mlid) {
    const Progress progress = client_.join(group, JoinState::kFullMember);
    if (progress == Progress::kDone) {
        mlid = client_.group(group)->mlid;
    }
    return progress;
}

void SubnetAddressing::leave(const Gid& group) { client_.leave(group); }

}  // namespace urnic::ipoib
