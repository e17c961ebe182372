// Who listens for which service ID and address, and how many requests wait for each.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "rnic/cm/checks.h"
#include "rnic/cm/types.h"

namespace urnic::cm {

struct Listener {
    ListenerId id = 0;
    ListenParams params;
    std::uint32_t backlog = 0;
    std::uint32_t waiting = 0;                   // requests that the owner has not taken
    std::map<wire::Gid, std::uint32_t> sources;  // of those
};

class Listeners {
  public:
    /// params.backlog as it counts. `id` is 0 unless kOk.
    [[nodiscard]] Status add(const ListenParams& params, ListenerId& id);
    void remove(ListenerId id);

    /// Who takes requests for the service that came to the address; nullptr: nobody.
    [[nodiscard]] Listener* find(std::uint64_t service_id, const RequestedAddress& requested);
    [[nodiscard]] Listener* find(ListenerId id);
    [[nodiscard]] std::size_t size() const { return by_id_.size(); }

    /// Takes a request of this source into the backlog. Returns whether there was room, and memory.
    [[nodiscard]] static bool enter(Listener& listener, const wire::Gid& source);
    /// And leaves it. Nothing happens when the listener is destroyed.
    void leave(ListenerId id, const wire::Gid& source);

  private:
    using ByService = std::multimap<std::uint64_t, Listener>;
    ByService by_service_;
    std::unordered_map<ListenerId, ByService::iterator> by_id_;
    ListenerId last_id_ = 0;
};

}  // namespace urnic::cm
