// Memory keys of one device: L_Key/R_Key to memory region, R_Key to memory window, and the checks of IBA
// 10.6.3 and 9.7.4.1.
//
// The control thread adds and removes, workers look up. A slot is found by bits in the middle of the key; the
// whole key is random, and a reader matches all 32 bits. remove() only unpublishes: the control thread waits
// until every worker has passed a loop boundary before it releases the memory or reuses the slot (release()).
// A window's slot stays its own from add_window() to release(); which key it has, and for which memory, is
// changed by the workers that execute binds and invalidations (memory_window.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "rnic/mem/address_space.h"
#include "rnic/mem/memory_window.h"

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
    /// The low bits of a window's key, which change from bind to bind (ibv_inc_rkey(3)). They name no slot.
    static constexpr std::uint32_t kConsumerBits = 8;

    KeyTable();
    KeyTable(const KeyTable&) = delete;
    KeyTable& operator=(const KeyTable&) = delete;
    ~KeyTable();

    // --- The control thread ------------------------------------------------------------------------------
    /// Publishes `region` under a key made from `random` (a fresh random number: bits of it give the slot
    /// that is tried first). Returns the key, never 0; 0 when kMaxKeys are in use.
    [[nodiscard]] std::uint32_t add(const MemoryRegion& region, std::uint32_t random);
    /// From now on no window can be bound to the region. Returns whether none is; else nothing changed.
    [[nodiscard]] bool close(std::uint32_t key);
    /// Unpublishes a region. Returns whether the key was there. The slot stays reserved until release().
    bool remove(std::uint32_t key);
    /// Publishes another region under a removed key, once no reader can still hold the old one.
    void replace(std::uint32_t key, const MemoryRegion& region);
    /// Frees the slot of a removed region or window, once no reader can still hold it.
    void release(std::uint32_t key);

    /// Reserves a slot for a window that is not bound; `window` outlives its release(). Returns its first
    /// key, never 0; 0 when kMaxKeys are in use.
    [[nodiscard]] std::uint32_t add_window(MemoryWindow& window, std::uint32_t random);
    /// From now on no worker finds the window to bind or to invalidate it.
    void remove_window(const MemoryWindow& window);
    /// After remove_window() and a loop boundary of every worker: gives up what the window is bound to.
    /// release(first key) ends it then.
    void unbind(MemoryWindow& window);
    /// When close() of a region failed and it has to go all the same, before remove().
    void force_close(std::uint32_t key);
    /// After remove() of such regions and a loop boundary of every worker: takes away the windows that are
    /// bound to them, whoever they belong to. After another boundary nobody uses them. Looks at all windows.
    void unbind_closed();

    // --- Workers -----------------------------------------------------------------------------------------
    /// Executes a bind (IBA 10.6.6.2, 10.6.7.2.3). Returns whether it is allowed; else nothing changed.
    [[nodiscard]] bool bind(const WindowBind& request);
    /// Executes an invalidation, local or remote: of a type 2 window that is bound to this QP (IBA
    /// 10.6.7.2.6). Returns whether the key is one of those.
    [[nodiscard]] bool invalidate(std::uint32_t key, const KeyUser& user);

    /// The region of a published key, or nullptr. Readers may use it until their next loop boundary.
    [[nodiscard]] const MemoryRegion* find(std::uint32_t key) const;

    enum class Verdict : std::uint8_t { kOk, kBadKey, kBadPd, kBadAccess, kBadRange };
    /// Checks that the L_Key `key` allows `access` (all bits of it) to [addr, addr + length_bytes) within
    /// `pd` and gives the piece. A length of 0 is allowed and looks at nothing but needs no valid key (IBA
    /// 9.7.4.1.8, o10-...): the caller skips the call then. Windows have no L_Key.
    [[nodiscard]] Verdict resolve(std::uint32_t key, std::uint32_t pd, std::uint32_t access,
                                  std::uint64_t addr, std::uint32_t length_bytes, MemoryPiece& piece) const;
    /// The same for the R_Key of a packet that came for the QP `user`.
    [[nodiscard]] Verdict resolve_remote(std::uint32_t key, const KeyUser& user, std::uint32_t access,
                                         std::uint64_t addr, std::uint32_t length_bytes,
                                         MemoryPiece& piece) const;

    [[nodiscard]] std::uint32_t size() const { return size_; }

  private:
    struct Slot;
    using WindowPlace = std::atomic<MemoryWindow*>;
    template <typename T>
    using Array = std::unique_ptr<T, void (*)(T*)>;

    [[nodiscard]] Slot& slot_of(std::uint32_t key) const;
    [[nodiscard]] WindowPlace& window_of(std::uint32_t key) const;
    [[nodiscard]] std::uint32_t reserve(std::uint32_t random);
    [[nodiscard]] Verdict resolve_window(const Slot& slot, std::uint32_t key, const KeyUser& user,
                                         std::uint32_t access, std::uint64_t addr, std::uint32_t length_bytes,
                                         MemoryPiece& piece) const;
    [[nodiscard]] Slot* take_region(const WindowBind& request);
    void publish(MemoryWindow& window, const WindowBind& request, const MemoryRegion* region);

    Array<Slot> slots_;
    Array<WindowPlace> windows_;  // by slot; workers find a window that is not bound here
    std::uint32_t size_ = 0;
};

}  // namespace urnic
