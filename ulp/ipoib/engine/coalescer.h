/// Merges consecutive TCP segments of one connection that arrived together into one frame, as Linux's GRO
/// does, so that the kernel takes them in one step. What a GSO of that frame makes are the segments that
/// came. Bounded, without allocation.
#pragma once

#include <array>
#include <cstdint>

#include "ulp/ipoib/codec/frame.h"
#include "ulp/ipoib/codec/offload.h"
#include "ulp/ipoib/codec/transport.h"

namespace urnic::ipoib {

class FrameSink {
  public:
    virtual ~FrameSink() = default;
    FrameSink() = default;
    FrameSink(const FrameSink&) = delete;
    FrameSink& operator=(const FrameSink&) = delete;
    /// One Ethernet frame in several pieces.
    virtual void write(const Offload& offload, std::span<const ConstOctets> pieces) = 0;
};

class Coalescer {
  public:
    static constexpr std::size_t kMostConnections = 8;
    static constexpr std::size_t kMostSegments = 64;

    explicit Coalescer(FrameSink& sink) : sink_(sink) {}
    /// A frame: Ethernet header and packet. A TCP packet stays where it is until flush(); others are written
    /// at once.
    void take(ConstOctets ethernet, ConstOctets packet);
    /// Writes what is held.
    void flush();
    /// Frames that were made of several.
    [[nodiscard]] std::uint64_t merged() const { return merged_; }

  private:
    struct Held {
        std::array<std::byte, kEthernetHeaderOctets> ethernet{};
        Transport transport;
        ConstOctets first;  ///< the first segment, whole
        std::array<ConstOctets, kMostSegments> data;
        std::size_t segments = 0;  ///< 0: this entry is free
        std::size_t octets = 0;    ///< of the merged packet
        std::uint32_t next_sequence = 0;
        std::uint8_t last_flags = 0;
    };
    [[nodiscard]] Held* find(ConstOctets ethernet, ConstOctets packet, const Transport& transport);
    [[nodiscard]] static bool can_append(const Held& held, ConstOctets packet, const Transport& transport);
    void hold(ConstOctets ethernet, ConstOctets packet, const Transport& transport);
    void write(Held& held);
    void write_alone(ConstOctets ethernet, ConstOctets packet);

    FrameSink& sink_;
    std::array<Held, kMostConnections> held_;
    std::uint64_t merged_ = 0;
    std::size_t next_ = 0;  ///< the entry that goes when there is no free one
};

}  // namespace urnic::ipoib
