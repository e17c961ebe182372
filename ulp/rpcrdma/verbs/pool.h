/// Memory of the library's own for messages and chunks: one reserved range of addresses, cut into slabs that
/// stay registered. Bounded: half of the machine's memory. An address tells its slab, so a block needs no
/// handle.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

struct ibv_mr;

namespace urnic::rpcrdma {

class Device;

class Pool {
  public:
    /// Most devices whose MRs a slab can have.
    static constexpr std::size_t kMaxDevices = 8;

    /// The one of this process. It is never destroyed: threads may outlive main().
    static Pool& instance();

    explicit Pool(std::size_t limit_bytes);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    /// A block of at least `octets`, all of it; empty: the limit is reached.
    [[nodiscard]] std::span<std::byte> allocate(std::size_t octets);
    /// Null is ignored. What was not allocated, or is free already, ends the program: as malloc does.
    void free(void* block);
    /// Returns whether the range lies in one slab of the pool.
    [[nodiscard]] bool contains(const void* address, std::size_t octets) const;
    /// The MR of the slab in which `address` is, registered now if it was not; null with errno.
    [[nodiscard]] ibv_mr* region(const void* address, const Device& device);
    /// Gives a device one of the MR places; kMaxDevices: none is left.
    [[nodiscard]] std::size_t add_device();
    /// Ends all MRs of that place.
    void remove_device(std::size_t place);
    [[nodiscard]] std::size_t used_bytes() const;

  private:
    static constexpr std::size_t kUnitBytes = 4UL << 20U;
    static constexpr std::size_t kLeastBlock = 256;
    /// 256 octets to 2 MiB; larger blocks are slabs of their own.
    static constexpr std::size_t kClasses = 14;
    static constexpr std::uint8_t kLargeClass = kClasses;

    /// Of one unit; but for `head`, only that of a slab's first unit counts.
    struct Slab {
        std::atomic<std::uint32_t> head{0};  ///< index of the first unit + 1; 0: no slab
        std::uint32_t units = 0;
        std::uint8_t size_class = 0;
        std::uint32_t used_blocks = 0;
        std::vector<bool> is_used;
        std::array<std::atomic<ibv_mr*>, kMaxDevices> regions{};
    };
    struct SizeClass {
        std::mutex mutex;
        std::vector<std::byte*> free_blocks;
    };

    [[nodiscard]] static std::size_t class_of(std::size_t octets);
    [[nodiscard]] static std::size_t block_bytes(std::size_t size_class) { return kLeastBlock << size_class; }
    [[nodiscard]] std::size_t unit_of(const void* address) const;
    /// The slab of an address of the pool; null: there is none.
    [[nodiscard]] Slab* slab_at(const void* address) const;
    [[nodiscard]] std::byte* base_of(const Slab& slab) const;
    [[nodiscard]] std::span<std::byte> allocate_small(std::size_t size_class);
    [[nodiscard]] std::span<std::byte> allocate_large(std::size_t octets);
    void free_large(Slab& slab);
    [[nodiscard]] bool add_slab(std::size_t size_class);
    /// A run of units, readable and writable; null: none is left. With units_mutex_.
    [[nodiscard]] Slab* take_units(std::uint32_t units);
    [[nodiscard]] Slab* find_units(std::uint32_t units);
    void release_units(Slab& slab);
    void release_cached(std::size_t bytes_to_keep);
    /// Gives slabs without used blocks back.
    void release_empty_slabs();

    std::byte* base_ = nullptr;
    std::size_t unit_count_ = 0;
    std::unique_ptr<Slab[]> slabs_;
    std::array<SizeClass, kClasses> classes_;
    mutable std::mutex units_mutex_;
    std::map<std::uint32_t, std::vector<Slab*>> cached_;  ///< free large slabs by units
    std::size_t cached_bytes_ = 0;
    std::size_t used_units_ = 0;
    std::size_t next_unit_ = 0;
    std::mutex regions_mutex_;
    std::array<bool, kMaxDevices> is_device_{};
};

}  // namespace urnic::rpcrdma
