#include "ulp/ipoib/engine/neighbour_table.h"

namespace urnic::ipoib {

namespace {

/// Locally administered, unicast; the last 4 octets are a number (IEEE 802c).
constexpr std::uint16_t kNeighbourPrefix = 0x0249;

}  // namespace

std::size_t NeighbourTable::AddressHash::operator()(const LinkAddress& address) const {
    std::uint64_t hash = address.qpn;
    for (std::size_t at = 0; at < address.gid.size(); at += 4) {
        hash = (hash ^ u32_at(address.gid, at)) * 0x9E3779B97F4A7C15ULL;
        hash ^= hash >> 29U;
    }
    return hash;
}

NeighbourTable::~NeighbourTable() {
    for (const Neighbour& entry : entries_) {
        if (entry.handle != 0) {
            outbox_.destroy_handle(entry.handle);
        }
    }
}

std::uint32_t NeighbourTable::number_of(const Mac& mac) {
    return u16_at(mac, 0) == kNeighbourPrefix ? u32_at(mac, 2) : 0;
}

void NeighbourTable::touch(List::iterator entry) { entries_.splice(entries_.begin(), entries_, entry); }

Neighbour& NeighbourTable::of_address(const LinkAddress& address) {
    if (const auto found = by_address_.find(address); found != by_address_.end()) {
        touch(found->second);
        found->second->address.flags = address.flags;
        return *found->second;
    }
    if (entries_.size() >= most_) {
        const Neighbour& oldest = entries_.back();
        if (oldest.handle != 0) {
            outbox_.destroy_handle(oldest.handle);
        }
        by_address_.erase(oldest.address);
        by_number_.erase(number_of(oldest.mac));
        entries_.pop_back();
    }
    Neighbour& entry = entries_.emplace_front();
    entry.address = address;
    // 2^32 neighbours later a number may still be in use.
    while (next_number_ == 0 || by_number_.contains(next_number_)) {
        ++next_number_;
    }
    put_u16(entry.mac, 0, kNeighbourPrefix);
    put_u32(entry.mac, 2, next_number_);
    by_address_.emplace(address, entries_.begin());
    by_number_.emplace(next_number_++, entries_.begin());
    return entry;
}

Neighbour* NeighbourTable::of_mac(const Mac& mac) {
    const auto found = by_number_.find(number_of(mac));
    if (found == by_number_.end()) {
        return nullptr;
    }
    touch(found->second);
    return &*found->second;
}

}  // namespace urnic::ipoib
