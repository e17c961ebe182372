/// Who is on the link: 20-octet address, the Ethernet address that stands for it at the TAP device, address
/// handle. Groups that are sent to are entries, too. Bounded: the entry that was not used for the longest
/// time goes, and of those that others have only named before those that were seen: who floods a link with
/// forged addresses puts nobody out.
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
    bool is_seen = false;
};

/// What is known of an address.
enum class Evidence : std::uint8_t {
    kNamed,  ///< a message has it inside, whoever sent it
    kSeen,   ///< a datagram has come from there, which its device vouches for; or this host sends there
};

class NeighbourTable {
  public:
    NeighbourTable(Outbox& outbox, std::size_t most) : outbox_(outbox), most_(most) {}
    ~NeighbourTable();
    NeighbourTable(const NeighbourTable&) = delete;
    NeighbourTable& operator=(const NeighbourTable&) = delete;

    /// The entry of an address, made if there is none. Once seen it stays so, and so do the flags that it was
    /// made with.
    [[nodiscard]] Neighbour& of_address(const LinkAddress& address, Evidence evidence);
    /// The neighbour of a MAC that of_address() has given; nullptr: none, or no longer.
    [[nodiscard]] Neighbour* of_mac(const Mac& mac);
    /// Destroys the handle of an address, or all: the way there has changed.
    void forget_handle(const LinkAddress& address);
    void forget_handles();
    [[nodiscard]] std::size_t size() const { return named_.size() + seen_.size(); }
    /// Entries that went because others came.
    [[nodiscard]] std::uint64_t evictions() const { return evictions_; }

  private:
    using List = std::list<Neighbour>;
    [[nodiscard]] List& list_of(const Neighbour& entry) { return entry.is_seen ? seen_ : named_; }
    void touch(List::iterator entry, Evidence evidence);
    void drop_oldest();
    void end_handle(Neighbour& entry);
    [[nodiscard]] static std::uint32_t number_of(const Mac& mac);

    Outbox& outbox_;
    std::size_t most_;
    // The last used first.
    List named_;
    List seen_;
    std::unordered_map<LinkAddress, List::iterator, LinkAddressHash> by_address_;
    std::unordered_map<std::uint32_t, List::iterator> by_number_;
    std::uint32_t next_number_ = 1;
    std::uint64_t evictions_ = 0;
};

}  // namespace urnic::ipoib
