// Address handles of one device (IBA 11.2.2): the way to a destination of UD packets, worked out when the
// handle is created, so that a worker only looks it up.
//
// One writer (the control thread), any number of readers (workers), as in KeyTable: remove() unpublishes, and
// the slot is used again after release_removed(), once every worker has passed a loop boundary.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "rnic/wire/packet_view.h"

namespace urnic {

struct AddressHandle {
    std::uint32_t pd = 0;  // daemon-wide PD number
    /// The path's UDP source port comes from the application's flow label, or there is none (InfiniBand).
    /// Otherwise each pair of QPs is a flow of its own.
    bool has_flow_label = false;
    wire::Path path;
};

class AddressHandles {
  public:
    static constexpr std::uint32_t kSlotBits = 17;
    static constexpr std::uint32_t kSlots = 1U << kSlotBits;

    AddressHandles();
    AddressHandles(const AddressHandles&) = delete;
    AddressHandles& operator=(const AddressHandles&) = delete;
    ~AddressHandles();

    /// Publishes a handle. Returns its key, never 0; 0 when kSlots are in use. The key of a destroyed handle
    /// is not given to another one before all slots, and 2^15 owners of its slot, have had their turn.
    [[nodiscard]] std::uint32_t add(const AddressHandle& handle);
    /// Unpublishes; false if the key is not there. The slot stays reserved until release_removed().
    bool remove(std::uint32_t key);
    /// Frees the slots of all removed keys, once no reader can still hold one.
    void release_removed();

    /// The handle of a published key, or nullptr. Readers may use it until their next loop boundary. Any
    /// value may be asked for: keys come from applications.
    [[nodiscard]] const AddressHandle* find(std::uint32_t key) const;

    /// Published handles; any thread may ask.
    [[nodiscard]] std::uint32_t size() const { return size_; }
    /// Removed and not released yet; any thread may ask.
    [[nodiscard]] std::uint32_t removed() const { return removed_.size; }

  private:
    struct Slot;
    /// Slots in a row, linked through themselves: no operation allocates.
    struct Queue {
        std::uint32_t first = 0;
        std::uint32_t last = 0;
        std::atomic<std::uint32_t> size = 0;
    };
    void append(Queue& queue, std::uint32_t index);
    std::uint32_t take_first(Queue& queue);

    std::unique_ptr<Slot, void (*)(Slot*)> slots_;
    std::atomic<std::uint32_t> size_ = 0;
    std::uint32_t unused_ = 0;  // slots from here on were never in use
    Queue removed_;
    Queue free_;  // released, longest ago first
};

}  // namespace urnic
