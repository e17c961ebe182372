#include "ulp/ipoib/engine/neighbour_table.h"

#include <utility>

namespace urnic::ipoib {

namespace {

/// Locally administered, unicast; the last 4 octets are a number (IEEE 802c).
constexpr std::uint16_t kNeighbourPrefix = 0x0249;

}  // namespace

NeighbourTable::~NeighbourTable() { forget_handles(); }

void NeighbourTable::end_handle(Neighbour& entry) {
    if (entry.handle != 0) {
        outbox_.destroy_handle(std::exchange(entry.handle, 0));
    }
}

void NeighbourTable::forget_handle(const LinkAddress& address) {
    if (const auto found = by_address_.find(address); found != by_address_.end()) {
        end_handle(*found->second);
    }
}

void NeighbourTable::forget_handles() {
    for (List* entries : {&named_, &seen_}) {
        for (Neighbour& entry : *entries) {
            end_handle(entry);
        }
    }
}

std::uint32_t NeighbourTable::number_of(const Mac& mac) {
    return u16_at(mac, 0) == kNeighbourPrefix ? u32_at(mac, 2) : 0;
}

void NeighbourTable::touch(List::iterator entry, Evidence evidence) {
    List& from = list_of(*entry);
    entry->is_seen = entry->is_seen || evidence == Evidence::kSeen;
    List& to = list_of(*entry);
    to.splice(to.begin(), from, entry);
}

void NeighbourTable::drop_oldest() {
    List& entries = named_.empty() ? seen_ : named_;
    Neighbour& oldest = entries.back();
    end_handle(oldest);
    by_address_.erase(oldest.address);
    by_number_.erase(number_of(oldest.mac));
    entries.pop_back();
    ++evictions_;
}

Neighbour& NeighbourTable::of_address(const LinkAddress& address, Evidence evidence) {
    if (const auto found = by_address_.find(address); found != by_address_.end()) {
        touch(found->second, evidence);
        return *found->second;
    }
    if (size() >= most_) {
        drop_oldest();
    }
    List& entries = evidence == Evidence::kSeen ? seen_ : named_;
    Neighbour& entry = entries.emplace_front();
    entry.address = address;
    entry.is_seen = evidence == Evidence::kSeen;
    // 2^32 neighbours later a number may still be in use.
    while (next_number_ == 0 || by_number_.contains(next_number_)) {
        ++next_number_;
    }
    put_u16(entry.mac, 0, kNeighbourPrefix);
    put_u32(entry.mac, 2, next_number_);
    by_address_.emplace(address, entries.begin());
    by_number_.emplace(next_number_++, entries.begin());
    return entry;
}

Neighbour* NeighbourTable::of_mac(const Mac& mac) {
    const auto found = by_number_.find(number_of(mac));
    if (found == by_number_.end()) {
        return nullptr;
    }
    touch(found->second, Evidence::kNamed);
    return &*found->second;
}

}  // namespace urnic::ipoib
