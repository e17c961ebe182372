// Allocators that take memory from the kernel alone. The bookkeeping of registered memory must not use the
// application's malloc: a thread that is stopped at a write-protected page may hold its locks.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

#include "verbs_provider/memory/raw_syscall.h"

namespace urnic::memory {

inline constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t page_floor(std::uint64_t addr) { return addr & ~(kPageBytes - 1); }
constexpr std::uint64_t page_ceiling(std::uint64_t addr) { return page_floor(addr + kPageBytes - 1); }

/// Private anonymous memory, or null.
inline void* map_anonymous(std::size_t bytes, int protection = PROT_READ | PROT_WRITE, int extra_flags = 0) {
    const long at =
        raw_syscall(SYS_mmap, nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | extra_flags, -1, 0);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a system call answers in a number
    return at < 0 ? nullptr : reinterpret_cast<void*>(at);
}

/// For vectors that are kept and reused: every allocation is a mapping of its own.
template <typename T>
struct MappedAllocator {
    using value_type = T;
    MappedAllocator() = default;
    template <typename U>
    MappedAllocator(const MappedAllocator<U>& /*other*/) {}  // NOLINT(google-explicit-constructor)

    T* allocate(std::size_t count) {
        void* at = map_anonymous(page_ceiling(count * sizeof(T)));
        if (at == nullptr) {
            throw std::bad_alloc();
        }
        return static_cast<T*>(at);
    }
    void deallocate(T* at, std::size_t count) {
        raw_syscall(SYS_munmap, at, page_ceiling(count * sizeof(T)));
    }
    bool operator==(const MappedAllocator& /*other*/) const { return true; }
};

/// Fixed-size nodes on a free list, for maps. reserve() makes later node allocations unable to fail.
class NodePool {
  public:
    static constexpr std::size_t kNodeBytes = 64;

    void* take() {
        if (!reserve(1)) {
            throw std::bad_alloc();
        }
        Node* node = free_;
        free_ = node->next;
        --free_count_;
        return node;
    }
    void give(void* at) {
        auto* node = static_cast<Node*>(at);
        node->next = free_;
        free_ = node;
        ++free_count_;
    }
    /// Returns false if it is out of memory.
    [[nodiscard]] bool reserve(std::size_t nodes) {
        while (free_count_ < nodes) {
            auto* block = static_cast<std::byte*>(map_anonymous(kBlockBytes));
            if (block == nullptr) {
                return false;
            }
            for (std::size_t at = 0; at < kBlockBytes; at += kNodeBytes) {
                give(block + at);
            }
        }
        return true;
    }

  private:
    static constexpr std::size_t kBlockBytes = 64UL * 1024;
    struct Node {
        Node* next;
    };
    Node* free_ = nullptr;
    std::size_t free_count_ = 0;
};

template <typename T>
struct PoolAllocator {
    using value_type = T;
    explicit PoolAllocator(NodePool* nodes) : pool(nodes) {}
    template <typename U>
    PoolAllocator(const PoolAllocator<U>& other)  // NOLINT(google-explicit-constructor)
        : pool(other.pool) {}

    T* allocate(std::size_t count) {
        static_assert(sizeof(T) <= NodePool::kNodeBytes);
        if (count != 1) {
            throw std::bad_alloc();
        }
        return static_cast<T*>(pool->take());
    }
    void deallocate(T* at, std::size_t /*count*/) { pool->give(at); }
    bool operator==(const PoolAllocator& other) const { return pool == other.pool; }

    NodePool* pool;
};

}  // namespace urnic::memory
