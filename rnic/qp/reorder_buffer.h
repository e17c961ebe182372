// Packets that came before their turn: a packet before them was lost or is late. They are held until it has
// come and are then carried out in order, as if they came only then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/psn.h"
#include "rnic/wire/packet_view.h"

namespace urnic {

/// The owner of received frames: keeps the bytes of some of them.
class FrameHolder {
  public:
    virtual ~FrameHolder() = default;
    /// Keeps the payload of the packet that is being handled until release(); may move it, and then changes
    /// `payload`. Returns what release() wants; nullptr: no room, nothing is kept.
    [[nodiscard]] virtual void* hold(std::span<const std::byte>& payload) = 0;
    virtual void release(void* frame) = 0;
};

struct HeldPacket {
    wire::PacketHeader header;
    std::span<const std::byte> payload;
    void* frame = nullptr;
};

/// Packets that one QP can hold in one direction, and how far ahead of the missing one they may be.
inline constexpr std::uint32_t kMaxHeldPackets = 512;

/// Tables for those QPs of one worker that miss packets just now; all memory is taken at the start. The
/// worker's own: no other thread may use the pool or a HeldPackets that draws on it.
class HeldPacketPool {
  public:
    HeldPacketPool(FrameHolder& frames, std::uint32_t num_tables);
    HeldPacketPool(const HeldPacketPool&) = delete;
    HeldPacketPool& operator=(const HeldPacketPool&) = delete;

    [[nodiscard]] std::uint32_t free_tables() const { return num_free_; }

  private:
    friend class HeldPackets;
    struct Table {
        Table() {}
        Table* next = nullptr;
        std::array<std::uint64_t, kMaxHeldPackets / 64> used{};
        // Only those marked in `used` have a value: an idle table must not cost memory.
        union {
            std::array<HeldPacket, kMaxHeldPackets> packets;
        };
    };
    [[nodiscard]] Table* take();
    void give_back(Table* table);

    FrameHolder& frames_;
    std::unique_ptr<Table[]> tables_;
    Table* free_ = nullptr;
    std::uint32_t num_free_ = 0;
};

/// The held packets of one QP in one direction.
class HeldPackets {
  public:
    /// Without a pool nothing can be held.
    explicit HeldPackets(HeldPacketPool* pool) : pool_(pool) {}
    HeldPackets(const HeldPackets&) = delete;
    HeldPackets& operator=(const HeldPackets&) = delete;
    ~HeldPackets() { clear(); }

    [[nodiscard]] bool enabled() const { return pool_ != nullptr; }
    [[nodiscard]] bool empty() const { return table_ == nullptr; }
    [[nodiscard]] bool has(Psn psn) const;

    /// Holds the packet, which is ahead of `expected`, the next one in order. False: it is there already, is
    /// too far ahead, or there is no room; then it counts as lost.
    bool hold(const wire::PacketView& packet, Psn expected);
    /// Takes out the packet with this PSN. It has to be given back by release() once it was carried out.
    [[nodiscard]] bool take(Psn psn, HeldPacket& packet);
    void release(const HeldPacket& packet) { pool_->frames_.release(packet.frame); }
    /// Everything before `expected` has come in another way (a READ request stands for many PSNs).
    void drop_before(Psn expected);
    void clear();

  private:
    [[nodiscard]] static std::uint32_t slot_of(Psn psn) { return psn.value() % kMaxHeldPackets; }
    [[nodiscard]] bool is_used(std::uint32_t slot) const {
        return ((table_->used[slot / 64] >> (slot % 64)) & 1U) != 0;
    }
    void set_unused(std::uint32_t slot);

    HeldPacketPool* pool_;
    HeldPacketPool::Table* table_ = nullptr;
    std::uint32_t count_ = 0;
    Psn first_;  // no packet before it is held
};

}  // namespace urnic
