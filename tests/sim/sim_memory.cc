#include "tests/sim/sim_memory.h"

#include <cstring>

#include "base/check.h"

namespace urnic::sim {

bool SimAddressSpace::read(std::uint64_t va, std::byte* to, std::size_t length_bytes) {
    if (gone) {
        return false;
    }
    std::memcpy(to, reinterpret_cast<const void*>(va), length_bytes);
    return true;
}

bool SimAddressSpace::write(std::uint64_t va, const std::byte* from, std::size_t length_bytes) {
    if (gone) {
        return false;
    }
    std::memcpy(reinterpret_cast<void*>(va), from, length_bytes);
    return true;
}

SimRegion::SimRegion(KeyTable& keys, std::size_t size_bytes, std::uint32_t random, const Options& options)
    : keys_(keys),
      size_(size_bytes),
      bytes_(zeroed_memory(size_bytes, options.alignment)),
      iova_offset_(options.iova_offset) {
    MemoryRegion region;
    region.iova = addr();
    region.length_bytes = size_bytes;
    region.va = reinterpret_cast<std::uintptr_t>(data());
    region.direct = options.mapped ? data() : nullptr;
    region.space = options.mapped ? nullptr : &space;
    region.pd = options.pd;
    region.access = options.access;
    key_ = keys.add(region, random);
    URNIC_CHECK(key_ != 0);
}

void SimRegion::fill_pattern(std::uint8_t seed) {
    for (std::size_t i = 0; i < size_; ++i) {
        data()[i] = static_cast<std::byte>((i * 31 + (i >> 8U) * 7 + seed) & 0xffU);
    }
}

void SimRegion::fill(std::uint8_t value) { std::memset(data(), value, size_); }

}  // namespace urnic::sim
