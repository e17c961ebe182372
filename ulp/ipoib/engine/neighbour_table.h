/// Who is on the link: 20-octet address, the Ethernet address that stands for it at the TAP device, address
/// handle. Groups that are sent to are entries, too. Bounded: the entry that was not used for the longest
/// time goes.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>

#include "ulp/ipoib/codec/translation.h"
#include "ulp/ipoib/engine/outbox.h"

namespace urnic::ipoib {

struct Neighbour {
    LinkAddress address;
    Mac mac{};
    AddressHandle handle = 0;
};

class NeighbourTable {
  public:
    NeighbourTable(Outbox& outbox, std::size_t most) : outbox_(outbox), most_(most) {}
    ~NeighbourTable();
    NeighbourTable(const NeighbourTable&) = delete;
    NeighbourTable& operator=(const NeighbourTable&) = delete;

    /// The entry of an address, made if there is none.
    [[nodiscard]] Neighbour& of_address(const LinkAddress& address);
    /// The neighbour of a MAC that of_address() has given; nullptr: none, or no longer.
    [[nodiscard]] Neighbour* of_mac(const Mac& mac);
    [[nodiscard]] std::size_t size() const { return entries_.size(); }

  private:
    struct AddressHash {
        std::size_t operator()(const LinkAddress& address) const;
    };
    using List = std::list<Neighbour>;
    void touch(List::iterator entry);
    [[nodiscard]] static std::uint32_t number_of(const Mac& mac);

    Outbox& outbox_;
    std::size_t most_;
    List entries_;  // the last used first
    std::unordered_map<LinkAddress, List::iterator, AddressHash> by_address_;
    std::unordered_map<std::uint32_t, List::iterator> by_number_;
    std::uint32_t next_number_ = 1;
};

}  // namespace urnic::ipoib
