#include "ulp/ipoib/verbs/rdma_port.h"

#include <algorithm>
#include <cstring>

#include "ulp/ipoib/tap/setup_error.h"

namespace urnic::ipoib {

namespace {

constexpr int kMaxGids = 256;

}  // namespace

RdmaPort::RdmaPort(const PortSelection& selection)
    : number_(selection.port), pkey_index_(selection.pkey_index) {
    open_device(selection.device);
    is_infiniband_ = query().link_layer == IBV_LINK_LAYER_INFINIBAND;
    find_gid(selection.gid_index);
    pkey_ = query_pkey();
    // Base value 0 is no P_Key (IBA 10.9).
    if ((pkey_ & 0x7FFFU) == 0) {
        throw SetupError(device_name_ + " has no P_Key at index " + std::to_string(pkey_index_));
    }
}

std::uint16_t RdmaPort::query_pkey() const {
    __be16 pkey = 0;
    return ibv_query_pkey(context_.get(), number_, pkey_index_, &pkey) == 0 ? be16toh(pkey) : 0;
}

void RdmaPort::check_unchanged() const {
    union ibv_gid gid {};
    if (query_pkey() != pkey_ || ibv_query_gid(context_.get(), number_, gid_index_, &gid) != 0 ||
        std::memcmp(gid.raw, gid_.data(), gid_.size()) != 0) {
        throw SetupError("the GID or the P_Key of " + text() + " has changed: start again");
    }
}

void RdmaPort::open_device(const std::string& wanted) {
    int count = 0;
    const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(ibv_get_device_list(&count),
                                                                    ibv_free_device_list);
    if (list == nullptr || count == 0) {
        throw SetupError("no RDMA device: for urnic's run this program by `urnic run`, see ibv_devices");
    }
    std::string names;
    ibv_device* found = nullptr;
    for (int i = 0; i < count && found == nullptr; ++i) {
        ibv_device* device = list.get()[i];
        const std::string name = ibv_get_device_name(device);
        names += (names.empty() ? "" : ", ") + name;
        found = wanted.empty() || wanted == name ? device : nullptr;
    }
    if (found == nullptr) {
        throw SetupError("no RDMA device " + wanted + "; there are " + names);
    }
    device_name_ = ibv_get_device_name(found);
    context_.reset(ibv_open_device(found));
    if (context_ == nullptr) {
        throw errno_error("cannot open RDMA device " + device_name_, "");
    }
}

std::optional<ibv_port_attr> RdmaPort::try_query() const {
    ibv_port_attr port{};
    return ibv_query_port(context_.get(), number_, &port) == 0 ? std::optional(port) : std::nullopt;
}

ibv_port_attr RdmaPort::query() const {
    const std::optional<ibv_port_attr> port = try_query();
    if (!port) {
        throw SetupError(text() + " cannot be queried: `ibv_devinfo` says which ports there are");
    }
    return *port;
}

/// A link needs GIDs of IPv6: its groups are IPv6 addresses, and source and destination are of one family.
bool RdmaPort::is_gid_of_link(const ibv_gid_entry& entry, bool is_wanted) const {
    const bool is_link_local = entry.gid.raw[0] == 0xFE && (entry.gid.raw[1] & 0xC0U) == 0x80;
    return entry.gid_type != IBV_GID_TYPE_ROCE_V1 && (is_wanted || is_infiniband_ || is_link_local);
}

void RdmaPort::find_gid(int wanted) {
    const int first = std::max(wanted, 0);
    const int last = wanted < 0 ? kMaxGids - 1 : wanted;
    for (int index = first; index <= last; ++index) {
        ibv_gid_entry entry{};
        if (ibv_query_gid_ex(context_.get(), number_, static_cast<std::uint32_t>(index), &entry, 0) != 0 ||
            !is_gid_of_link(entry, wanted >= 0)) {
            continue;
        }
        std::memcpy(gid_.data(), entry.gid.raw, gid_.size());
        gid_index_ = static_cast<std::uint8_t>(index);
        interface_index_ = entry.ndev_ifindex;
        return;
    }
    throw SetupError(
        text() + (wanted < 0 ? " has no link-local GID" : " has no RoCE v2 or InfiniBand GID at that index") +
        ": see ibv_devinfo -v, and --gid-index");
}

}  // namespace urnic::ipoib
