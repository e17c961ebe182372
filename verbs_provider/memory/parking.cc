#include "verbs_provider/memory/parking.h"

#include <sys/mman.h>

#include "verbs_provider/memory/raw_syscall.h"

namespace urnic::memory {

Parking::Parking() : windows_(PoolAllocator<std::pair<const std::uint64_t, std::uint64_t>>(&pool_)) {}

bool Parking::reserve(Range range) {
    for (std::uint64_t window = range.start / kWindowBytes; window * kWindowBytes < range.end; ++window) {
        if (windows_.contains(window)) {
            continue;
        }
        if (!pool_.reserve(1)) {
            return false;
        }
        void* at = map_anonymous(kWindowBytes, PROT_NONE, MAP_NORESERVE);
        if (at == nullptr) {
            return false;
        }
        windows_.emplace(window, reinterpret_cast<std::uint64_t>(at));
    }
    return true;
}

std::uint64_t Parking::place_of(std::uint64_t addr) const {
    const auto at = windows_.find(addr / kWindowBytes);
    return at == windows_.end() ? 0 : at->second + addr % kWindowBytes;
}

void Parking::restore(std::uint64_t place, std::uint64_t length_bytes) {
    raw_syscall(SYS_mmap, place, length_bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void Parking::clear() {
    for (const auto& [window, at] : windows_) {
        raw_syscall(SYS_munmap, at, kWindowBytes);
    }
    windows_.clear();
}

}  // namespace urnic::memory
