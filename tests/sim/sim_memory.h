// Memory of a simulated application: registered regions, mapped or reached through an address space.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/queues.h"
#include "conform/case/requests.h"
#include "rnic/mem/key_table.h"
#include "tests/support/ring_memory.h"

namespace urnic::sim {

using conform::kAllAccess;

/// Stands for copying through the kernel: addresses are real, reached by copies; `gone` plays the dead
/// process.
class SimAddressSpace final : public AddressSpace {
  public:
    bool read(std::uint64_t va, std::byte* to, std::size_t length_bytes) override;
    bool write(std::uint64_t va, const std::byte* from, std::size_t length_bytes) override;
    bool gone = false;
};

/// A registered buffer. Its addresses are those of the buffer itself.
class SimRegion {
  public:
    struct Options {
        std::uint32_t access = kAllAccess;
        std::uint32_t pd = 1;
        bool mapped = true;  // false: through `space`
        std::uint64_t iova_offset = 0;
        std::size_t alignment = 1;
    };
    SimRegion(KeyTable& keys, std::size_t size_bytes, std::uint32_t random, const Options& options);

    [[nodiscard]] std::byte* data() { return bytes_.get(); }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::uint64_t addr(std::size_t offset = 0) const {
        return reinterpret_cast<std::uintptr_t>(bytes_.get()) + iova_offset_ + offset;
    }
    [[nodiscard]] std::uint32_t key() const { return key_; }
    [[nodiscard]] abi::Sge sge(std::size_t offset, std::uint32_t length) const {
        return {addr(offset), length, key_};
    }
    /// Takes the key back, as deregistration does.
    void revoke() { keys_.remove(key_); }
    /// Bytes that tell their position and `seed`.
    void fill_pattern(std::uint8_t seed);
    void fill(std::uint8_t value);

    SimAddressSpace space;

  private:
    KeyTable& keys_;
    std::size_t size_;
    RingMemory bytes_;
    std::uint64_t iova_offset_;
    std::uint32_t key_ = 0;
};

}  // namespace urnic::sim
