#include "ulp/rpcrdma/verbs/pool.h"

#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "ulp/rpcrdma/verbs/device.h"

namespace urnic::rpcrdma {
namespace {

constexpr std::size_t kLeastPool = 256UL << 20U;
constexpr std::size_t kMostPool = 64UL << 30U;

std::size_t half_of_memory() {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    const std::size_t bytes = pages > 0 && page_bytes > 0
                                  ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes)
                                  : 0;
    return std::clamp(bytes / 2, kLeastPool, kMostPool);
}

[[noreturn]] void end_program(const char* why) {
    (void)std::fprintf(stderr, "liburnic-rpcrdma: rpcrdma_free: %s\n", why);
    std::abort();
}

}  // namespace

Pool& Pool::instance() {
    static Pool* const pool = new Pool(half_of_memory());
    return *pool;
}

Pool::Pool(std::size_t limit_bytes) {
    // A limit on addresses (ulimit -v) may allow less.
    for (std::size_t bytes = limit_bytes / kUnitBytes * kUnitBytes; bytes >= kUnitBytes;
         bytes = bytes / 2 / kUnitBytes * kUnitBytes) {
        void* const range =
            mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range != MAP_FAILED) {
            base_ = static_cast<std::byte*>(range);
            unit_count_ = bytes / kUnitBytes;
            slabs_ = std::make_unique<Slab[]>(unit_count_);
            return;
        }
    }
}

Pool::~Pool() {
    for (std::size_t place = 0; place < kMaxDevices; ++place) {
        remove_device(place);
    }
    if (base_ != nullptr) (void)munmap(base_, unit_count_ * kUnitBytes);
}

std::size_t Pool::class_of(std::size_t octets) {
    return static_cast<std::size_t>(std::bit_width((std::max(octets, kLeastBlock) - 1) / kLeastBlock));
}

std::size_t Pool::unit_of(const void* address) const {
    return (reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base_)) / kUnitBytes;
}

Pool::Slab* Pool::slab_at(const void* address) const {
    const std::size_t unit = unit_of(address);
    if (unit >= unit_count_) return nullptr;
    const std::uint32_t head = slabs_[unit].head.load(std::memory_order_acquire);
    return head == 0 ? nullptr : &slabs_[head - 1];
}

std::byte* Pool::base_of(const Slab& slab) const {
    return base_ + static_cast<std::size_t>(&slab - slabs_.get()) * kUnitBytes;
}

std::span<std::byte> Pool::allocate(std::size_t octets) {
    const std::size_t size_class = class_of(octets);
    if (size_class >= kClasses) return allocate_large(octets);
    const std::span<std::byte> block = allocate_small(size_class);
    if (!block.empty()) return block;
    release_empty_slabs();
    return allocate_small(size_class);
}

std::span<std::byte> Pool::allocate_small(std::size_t size_class) {
    SizeClass& blocks = classes_[size_class];
    const std::lock_guard lock(blocks.mutex);
    if (blocks.free_blocks.empty() && !add_slab(size_class)) return {};
    std::byte* const block = blocks.free_blocks.back();
    blocks.free_blocks.pop_back();
    Slab& slab = *slab_at(block);
    ++slab.used_blocks;
    slab.is_used[static_cast<std::size_t>(block - base_of(slab)) / block_bytes(size_class)] = true;
    return {block, block_bytes(size_class)};
}

void Pool::free(void* block) {
    if (block == nullptr) return;
    Slab* const slab = slab_at(block);
    if (slab == nullptr) end_program("not memory of rpcrdma_alloc()");
    if (slab->size_class == kLargeClass) {
        if (block != base_of(*slab)) end_program("not the start of a block of rpcrdma_alloc()");
        return free_large(*slab);
    }
    const std::size_t bytes = block_bytes(slab->size_class);
    const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(block) - base_of(*slab));
    SizeClass& blocks = classes_[slab->size_class];
    const std::lock_guard lock(blocks.mutex);
    if (offset % bytes != 0) end_program("not the start of a block of rpcrdma_alloc()");
    if (!slab->is_used[offset / bytes]) end_program("the memory is free already");
    slab->is_used[offset / bytes] = false;
    --slab->used_blocks;
    blocks.free_blocks.push_back(static_cast<std::byte*>(block));
}

bool Pool::contains(const void* address, std::size_t octets) const {
    const Slab* const slab = slab_at(address);
    if (slab == nullptr) return false;
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_of(*slab));
    return octets <= slab->units * kUnitBytes - offset;
}

bool Pool::add_slab(std::size_t size_class) {
    Slab* slab = nullptr;
    {
        const std::lock_guard lock(units_mutex_);
        slab = take_units(1);
        if (slab == nullptr) return false;
        slab->size_class = static_cast<std::uint8_t>(size_class);
    }
    const std::size_t bytes = block_bytes(size_class);
    const std::size_t count = kUnitBytes / bytes;
    slab->used_blocks = 0;
    slab->is_used.assign(count, false);
    std::vector<std::byte*>& blocks = classes_[size_class].free_blocks;
    blocks.reserve(blocks.size() + count);
    for (std::size_t i = count; i-- != 0;) {
        blocks.push_back(base_of(*slab) + i * bytes);
    }
    return true;
}

std::span<std::byte> Pool::allocate_large(std::size_t octets) {
    if (octets > unit_count_ * kUnitBytes) return {};
    const auto units = static_cast<std::uint32_t>((octets + kUnitBytes - 1) / kUnitBytes);
    Slab* slab = nullptr;
    for (const bool is_last : {false, true}) {
        {
            const std::lock_guard lock(units_mutex_);
            slab = take_units(units);
            if (slab != nullptr) {
                slab->size_class = kLargeClass;
                slab->used_blocks = 1;
                break;
            }
        }
        if (is_last) return {};
        release_empty_slabs();
    }
    return {base_of(*slab), slab->units * kUnitBytes};
}

void Pool::free_large(Slab& slab) {
    const std::lock_guard lock(units_mutex_);
    if (slab.used_blocks == 0) end_program("the memory is free already");
    slab.used_blocks = 0;
    cached_[slab.units].push_back(&slab);
    cached_bytes_ += slab.units * kUnitBytes;
    release_cached(unit_count_ * kUnitBytes / 4);
}

Pool::Slab* Pool::take_units(std::uint32_t units) {
    // Registered already, and at most a quarter larger than needed.
    const auto cached = cached_.lower_bound(units);
    if (cached != cached_.end() && cached->first <= units + units / 4) {
        Slab* const slab = cached->second.back();
        cached->second.pop_back();
        if (cached->second.empty()) cached_.erase(cached);
        cached_bytes_ -= slab->units * kUnitBytes;
        return slab;
    }
    Slab* slab = find_units(units);
    if (slab == nullptr) {
        release_cached(0);
        slab = find_units(units);
    }
    if (slab == nullptr) return nullptr;
    if (mprotect(base_of(*slab), units * kUnitBytes, PROT_READ | PROT_WRITE) != 0) return nullptr;
    const auto head = static_cast<std::uint32_t>(slab - slabs_.get());
    slab->units = units;
    for (std::uint32_t i = 0; i < units; ++i) {
        slabs_[head + i].head.store(head + 1, std::memory_order_release);
    }
    used_units_ += units;
    next_unit_ = head + units;
    return slab;
}

Pool::Slab* Pool::find_units(std::uint32_t units) {
    // From where the last one was found, then from the start.
    for (const std::size_t start : {next_unit_, std::size_t{0}}) {
        std::size_t run = 0;
        for (std::size_t i = start; i < unit_count_; ++i) {
            run = slabs_[i].head.load(std::memory_order_relaxed) == 0 ? run + 1 : 0;
            if (run == units) return &slabs_[i + 1 - units];
        }
    }
    return nullptr;
}

void Pool::release_cached(std::size_t bytes_to_keep) {
    while (cached_bytes_ > bytes_to_keep) {
        const auto largest = std::prev(cached_.end());
        Slab* const slab = largest->second.back();
        largest->second.pop_back();
        if (largest->second.empty()) cached_.erase(largest);
        cached_bytes_ -= slab->units * kUnitBytes;
        release_units(*slab);
    }
}

void Pool::release_units(Slab& slab) {
    {
        const std::lock_guard lock(regions_mutex_);
        for (std::atomic<ibv_mr*>& region : slab.regions) {
            ibv_mr* const mr = region.exchange(nullptr);
            if (mr != nullptr) (void)ibv_dereg_mr(mr);
        }
    }
    // The pages go back to the system; the addresses stay reserved.
    (void)mmap(base_of(slab), slab.units * kUnitBytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    const auto head = static_cast<std::size_t>(&slab - slabs_.get());
    for (std::size_t i = 0; i < slab.units; ++i) {
        slabs_[head + i].head.store(0, std::memory_order_release);
    }
    used_units_ -= slab.units;
}

void Pool::release_empty_slabs() {
    for (std::size_t size_class = 0; size_class < kClasses; ++size_class) {
        SizeClass& blocks = classes_[size_class];
        const std::lock_guard lock(blocks.mutex);
        for (std::size_t i = 0; i < unit_count_; ++i) {
            Slab& slab = slabs_[i];
            if (slab.head.load(std::memory_order_acquire) != i + 1 || slab.size_class != size_class ||
                slab.used_blocks != 0) {
                continue;
            }
            std::erase_if(blocks.free_blocks,
                          [&](const std::byte* block) { return slab_at(block) == &slab; });
            const std::lock_guard units_lock(units_mutex_);
            release_units(slab);
        }
    }
}

ibv_mr* Pool::region(const void* address, const Device& device) {
    Slab* const slab = slab_at(address);
    if (slab == nullptr) {
        errno = EFAULT;
        return nullptr;
    }
    std::atomic<ibv_mr*>& place = slab->regions[device.pool_place()];
    ibv_mr* region = place.load(std::memory_order_acquire);
    if (region != nullptr) return region;
    const std::lock_guard lock(regions_mutex_);
    region = place.load(std::memory_order_acquire);
    if (region == nullptr) {
        const int access = IBV_ACCESS_LOCAL_WRITE | (device.has_windows() ? IBV_ACCESS_MW_BIND : 0);
        region = ibv_reg_mr(device.pd(), base_of(*slab), slab->units * kUnitBytes, access);
        place.store(region, std::memory_order_release);
    }
    return region;
}

std::size_t Pool::add_device() {
    const std::lock_guard lock(regions_mutex_);
    const auto free_place = std::find(is_device_.begin(), is_device_.end(), false);
    if (free_place == is_device_.end()) return kMaxDevices;
    *free_place = true;
    return static_cast<std::size_t>(free_place - is_device_.begin());
}

void Pool::remove_device(std::size_t place) {
    const std::lock_guard lock(regions_mutex_);
    is_device_[place] = false;
    for (std::size_t i = 0; i < unit_count_; ++i) {
        ibv_mr* const region = slabs_[i].regions[place].exchange(nullptr);
        if (region != nullptr) (void)ibv_dereg_mr(region);
    }
}

std::size_t Pool::used_bytes() const {
    const std::lock_guard lock(units_mutex_);
    return used_units_ * kUnitBytes - cached_bytes_;
}

}  // namespace urnic::rpcrdma
