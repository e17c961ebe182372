#include "daemon/verbs/ring_memory.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "abi/queues.h"
#include "base/check.h"

namespace urnic::daemon {

namespace {
constexpr std::size_t kRingPageBytes = 4096;
}

int RingMemory::create(std::uint64_t limit_bytes) {
    limit_bytes_ = std::min(limit_bytes, kFileBytes);
    const int error = create_memfd("urnic-rings", kFileBytes, Sharing::kWritable, file_);
    if (error == 0) {
        free_ = {{0, kFileBytes}};
    }
    return error;
}

int RingMemory::allocate(std::size_t bytes, RingPiece& piece) {
    const std::uint64_t wanted = abi::round_up(bytes, kRingPageBytes);
    if (wanted == 0 || wanted > limit_bytes_ - used_bytes_) {
        return ENOMEM;
    }
    const auto found =
        std::find_if(free_.begin(), free_.end(), [&](const auto& range) { return range.second >= wanted; });
    if (found == free_.end()) {
        return ENOMEM;
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
    return 0;
}

void RingMemory::release(const RingPiece& piece) {
    if (piece.bytes == 0) {
        return;
    }
    // The next owner expects zeros. Failing to punch the hole would hand out old entries as new ones.
    URNIC_CHECK(::fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            static_cast<off_t>(piece.offset), static_cast<off_t>(piece.bytes)) == 0);
    auto node = taken_.extract(piece.offset);
    URNIC_CHECK(!node.empty() && node.mapped() == piece.bytes);
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
    used_bytes_ -= piece.bytes;
}

}  // namespace urnic::daemon
