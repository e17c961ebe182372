#include "daemon/verbs/ring_memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <mutex>
#include <system_error>
#include <utility>

#include "abi/queues.h"
#include "base/check.h"
#include "os/thread.h"

namespace urnic::daemon {

namespace {

constexpr std::size_t kRingPageBytes = 4096;

/// Clears what has content, and leaves holes as they are: reading a hole makes no page of it, and reading
/// takes no lock of the file.
void clear_sparse(const Memfd& file, std::uint64_t offset, std::uint64_t bytes) {
    std::array<std::byte, kRingPageBytes> page;
    for (const std::uint64_t end = offset + bytes; offset < end; offset += page.size()) {
        const bool is_read = ::pread(file.fd.get(), page.data(), page.size(), static_cast<off_t>(offset)) ==
                             static_cast<ssize_t>(page.size());
        if (!is_read || std::any_of(page.begin(), page.end(), [](std::byte x) { return x != std::byte{}; })) {
            std::memset(file.mapping.data() + offset, 0, page.size());
        }
    }
}

}  // namespace

struct RingMemory::Clearing {
    Memfd file;
    std::mutex mutex;
    Ranges waiting;
    Ranges cleared;
    bool is_running = false;

    /// The thread: until nothing waits.
    void run() {
        for (std::unique_lock lock(mutex); !waiting.empty();) {
            Ranges::node_type node = waiting.extract(waiting.begin());
            lock.unlock();
            clear_sparse(file, node.key(), node.mapped());
            lock.lock();
            cleared.insert(std::move(node));
            is_running = !waiting.empty();
        }
    }
    /// Returns whether a thread clears what waits.
    static bool start(const std::shared_ptr<Clearing>& clearing) {
        try {
            start_thread([clearing] { clearing->run(); }).detach();
            return true;
        } catch (const std::system_error&) {
            return false;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }
};

RingMemory::RingMemory() : clearing_(std::make_shared<Clearing>()) {}
RingMemory::~RingMemory() {
    const std::lock_guard lock(clearing_->mutex);
    clearing_->waiting.clear();
}

std::byte* RingMemory::at(const RingPiece& piece) const {
    return clearing_->file.mapping.data() + piece.offset;
}

int RingMemory::fd() const { return clearing_->file.fd.get(); }

int RingMemory::create(std::uint64_t limit_bytes) {
    limit_bytes_ = std::min(limit_bytes, kFileBytes);
    const int error = create_memfd("urnic-rings", kFileBytes, Sharing::kWritable, clearing_->file);
    if (error == 0) {
        free_ = {{0, kFileBytes}};
    }
    return error;
}

int RingMemory::allocate(std::size_t bytes, std::uint64_t more_extent_bytes, RingPiece& piece) {
    take_cleared();
    URNIC_CHECK(!is_over_);
    const std::uint64_t wanted = abi::round_up(bytes, kRingPageBytes);
    if (wanted == 0 || wanted > limit_bytes_ - used_bytes_) {
        return ENOMEM;
    }
    const auto found =
        std::find_if(free_.begin(), free_.end(), [&](const auto& range) { return range.second >= wanted; });
    if (found == free_.end()) {
        return ENOMEM;
    }
    const std::uint64_t extent = std::max(extent_bytes_, found->first + wanted);
    if (extent - extent_bytes_ > more_extent_bytes) {
        return EDQUOT;
    }
    piece = {found->first, wanted};
    taken_.emplace(piece.offset, wanted);
    if (found->second > wanted) {
        auto rest = free_.extract(found);
        rest.key() += wanted;
        rest.mapped() -= wanted;
        free_.insert(std::move(rest));
    } else {
        free_.erase(found);
    }
    used_bytes_ += wanted;
    extent_bytes_ = extent;
    return 0;
}

void RingMemory::release(const RingPiece& piece) {
    if (piece.bytes == 0) {
        return;
    }
    auto node = taken_.extract(piece.offset);
    URNIC_CHECK(!node.empty() && node.mapped() == piece.bytes);
    if (is_over_) {
        insert_free(std::move(node));
        return;
    }
    // The next owner expects zeros.
    if (piece.bytes <= kClearHereBytes) {
        std::memset(at(piece), 0, piece.bytes);
        insert_free(std::move(node));
        return;
    }
    bool must_start = false;
    {
        const std::lock_guard lock(clearing_->mutex);
        clearing_->waiting.insert(std::move(node));
        must_start = !std::exchange(clearing_->is_running, true);
    }
    if (must_start && !Clearing::start(clearing_)) {
        clearing_->run();
    }
}

void RingMemory::take_cleared() {
    const std::lock_guard lock(clearing_->mutex);
    while (!clearing_->cleared.empty()) {
        insert_free(clearing_->cleared.extract(clearing_->cleared.begin()));
    }
}

void RingMemory::insert_free(Ranges::node_type node) {
    used_bytes_ -= node.mapped();
    const auto range = free_.insert(std::move(node)).position;
    if (const auto next = std::next(range);
        next != free_.end() && range->first + range->second == next->first) {
        range->second += next->second;
        free_.erase(next);
    }
    if (range != free_.begin()) {
        const auto previous = std::prev(range);
        if (previous->first + previous->second == range->first) {
            previous->second += range->second;
            free_.erase(range);
        }
    }
}

}  // namespace urnic::daemon
