// Memory keys of one device: L_Key/R_Key to memory region, and the checks of IBA 10.6.3 and 9.7.4.1.
//
// One writer (the control thread), any number of readers (workers). A slot is found by the key's low bits;
// the whole key is random, and a reader matches all 32 bits. remove() only unpublishes: the writer waits
// until every worker has passed a loop boundary before it releases the memory or reuses the slot (release()).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "rnic/mem/memory.h"

namespace urnic {

/// What a key stands for. Addresses in [iova, iova + length_bytes) are what work requests and packets carry.
struct MemoryRegion {
    std::uint64_t iova = 0;
    std::uint64_t length_bytes = 0;
    std::uint64_t va = 0;         // the application's address of the first byte
    std::byte* direct = nullptr;  // where the first byte is mapped here, or nullptr: use `space`
    AddressSpace* space = nullptr;
    std::uint32_t pd = 0;      // daemon-wide PD number
    std::uint32_t access = 0;  // AccessFlags
};

class KeyTable {
  public:
    static constexpr std::uint32_t kSlotBits = 18;
    static constexpr std::uint32_t kSlots = 1U << kSlotBits;
    static constexpr std::uint32_t kMaxKeys = kSlots / 2;

    KeyTable();
    KeyTable(const KeyTable&) = delete;
    KeyTable& operator=(const KeyTable&) = delete;
    ~KeyTable();

    /// Publishes `region` under a key made from `random` (a fresh random number: the low bits give the slot
    /// that is tried first). Returns the key, never 0; 0 when kMaxKeys are in use.
    [[nodiscard]] std::uint32_t add(const MemoryRegion& region, std::uint32_t random);
    /// Unpublishes; false if the key is not there. The slot stays reserved until release().
    bool remove(std::uint32_t key);
    /// Frees the slot of a removed key, once no reader can still hold it.
    void release(std::uint32_t key);

    /// The region of a published key, or nullptr. Readers may use it until their next loop boundary.
    [[nodiscard]] const MemoryRegion* find(std::uint32_t key) const;

    enum class Verdict : std::uint8_t { kOk, kBadKey, kBadPd, kBadAccess, kBadRange };
    /// Checks that `key` allows `access` (all bits of it) to [addr, addr + length_bytes) within `pd` and
    /// gives the piece. A length of 0 is allowed and looks at nothing but needs no valid key (IBA 9.7.4.1.8,
    /// o10-...): the caller skips the call then.
    [[nodiscard]] Verdict resolve(std::uint32_t key, std::uint32_t pd, std::uint32_t access,
                                  std::uint64_t addr, std::uint32_t length_bytes, MemoryPiece& piece) const;

    [[nodiscard]] std::uint32_t size() const { return size_; }

  private:
    struct Slot;
    std::unique_ptr<Slot, void (*)(Slot*)> slots_;
    std::uint32_t size_ = 0;
};

}  // namespace urnic
