// Whose IP addresses are which, for the RDMA IP CM service (IBA annex A11): its messages name IP addresses,
// the packets that they come in name ports.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "rnic/wire/packet_view.h"

namespace urnic::cm {

class IpOwners {
  public:
    struct Entry {
        wire::Gid ip{};  // IPv4-mapped or IPv6
        wire::Gid gid{};
    };

    /// Over RoCE a GID is an IP address.
    IpOwners() = default;
    /// Over InfiniBand it is not: these ports have these addresses.
    explicit IpOwners(std::vector<Entry> entries) : are_gids_(false), entries_(std::move(entries)) {}

    [[nodiscard]] bool are_gids() const { return are_gids_; }
    /// The GID of the port that has the address; zeros: nobody has it.
    [[nodiscard]] wire::Gid gid_of(const wire::Gid& ip) const {
        if (are_gids_) {
            return ip;
        }
        const auto entry =
            std::find_if(entries_.begin(), entries_.end(), [&](const Entry& each) { return each.ip == ip; });
        return entry == entries_.end() ? wire::Gid{} : entry->gid;
    }

  private:
    bool are_gids_ = true;
    std::vector<Entry> entries_;
};

}  // namespace urnic::cm
