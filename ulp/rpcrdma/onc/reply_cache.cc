#include "ulp/rpcrdma/onc/reply_cache.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

namespace urnic::rpcrdma::onc {

namespace {

constexpr std::size_t kMostEntries = 256;
constexpr std::size_t kMostCacheOctets = std::size_t{256} << 20U;
/// The header of the RPC Call with its credentials, and first words of the arguments.
constexpr std::size_t kHeadOctets = 512;

std::span<const std::byte> octets_of(const void* memory, std::size_t octets) {
    return {static_cast<const std::byte*>(memory), octets};
}

CallIdentity identify(const rpcrdma_request* request) {
    CallIdentity identity;
    const void* const stream = rpcrdma_request_stream(request, &identity.octets);
    const auto head = octets_of(stream, std::min(identity.octets, kHeadOctets));
    identity.head.assign(head.begin(), head.end());
    identity.connection = rpcrdma_request_connection(request);
    return identity;
}

bool is_of(const CallIdentity& identity, const rpcrdma_request* request) {
    std::size_t octets = 0;
    const void* const stream = rpcrdma_request_stream(request, &octets);
    // The XID, which comes first, tells nearly all of them apart.
    return identity.connection == rpcrdma_request_connection(request) && identity.octets == octets &&
           std::memcmp(identity.head.data(), stream, identity.head.size()) == 0;
}

StoredReply copy_message(const rpcrdma_message& message) {
    StoredReply copy;
    const auto stream = octets_of(message.stream, message.stream_octets);
    copy.stream.assign(stream.begin(), stream.end());
    for (const rpcrdma_item& item : std::span(message.items, message.item_count)) {
        const auto data = octets_of(item.data, item.octets);
        copy.data.insert(copy.data.end(), data.begin(), data.end());
        copy.items.push_back(item);
    }
    std::size_t at = 0;
    for (rpcrdma_item& item : copy.items) {
        item.data = copy.data.data() + at;
        at += item.octets;
    }
    return copy;
}

}  // namespace

void ReplyCache::clear() {
    const std::scoped_lock lock(mutex_);
    while (!entries_.empty()) {
        erase(entries_.begin());
    }
}

void ReplyCache::erase(Entries::iterator entry) {
    rpcrdma_connection_release(entry->identity.connection);
    octets_ -= entry->octets;
    entries_.erase(entry);
}

void ReplyCache::make_room(std::size_t octets) {
    auto entry = entries_.begin();
    while (entry != entries_.end() &&
           (entries_.size() >= kMostEntries || octets_ + octets > kMostCacheOctets)) {
        const auto next = std::next(entry);
        if (!entry->is_pending) {
            erase(entry);
        }
        entry = next;
    }
}

ReplyCache::Entries::iterator ReplyCache::find(const rpcrdma_request* request) {
    return std::find_if(entries_.begin(), entries_.end(),
                        [&](const Entry& entry) { return is_of(entry.identity, request); });
}

ReplyCache::Pending ReplyCache::begin(const rpcrdma_request* request) {
    Entry entry;
    entry.identity = identify(request);
    rpcrdma_connection_hold(entry.identity.connection);
    const std::scoped_lock lock(mutex_);
    return {*this, entries_.insert(entries_.end(), std::move(entry))};
}

bool ReplyCache::take(const rpcrdma_request* request, StoredReply& reply) {
    std::unique_lock lock(mutex_);
    auto found = find(request);
    while (found != entries_.end() && found->is_pending) {
        finished_.wait(lock);
        found = find(request);
    }
    if (found == entries_.end()) {
        return false;
    }
    reply = std::move(found->reply);
    erase(found);
    return true;
}

ReplyCache::Pending::~Pending() {
    {
        const std::scoped_lock lock(cache_.mutex_);
        if (!is_kept_) {
            cache_.erase(entry_);
        }
    }
    cache_.finished_.notify_all();
}

void ReplyCache::Pending::keep(const rpcrdma_message& message) {
    std::size_t octets = message.stream_octets;
    for (const rpcrdma_item& item : std::span(message.items, message.item_count)) {
        octets += item.octets;
    }
    if (octets > kMostCacheOctets) {
        return;
    }
    StoredReply reply = copy_message(message);
    const std::scoped_lock lock(cache_.mutex_);
    cache_.make_room(octets);
    cache_.octets_ += octets;
    entry_->octets = octets;
    entry_->reply = std::move(reply);
    entry_->is_pending = false;
    is_kept_ = true;
}

}  // namespace urnic::rpcrdma::onc
