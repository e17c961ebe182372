// A packet as a script writes it: every transport field that it sends, or that it expects to see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rnic/wire/frame.h"
#include "rnic/wire/headers.h"

namespace urnic::conform {

/// Whole Ethernet frame, from the destination MAC to the ICRC.
using FrameBytes = std::vector<std::byte>;

/// Makes the checksum of the frame's IPv4 header right again.
void mend_ip_checksum(FrameBytes& frame);

/// What the packet is made of, field by field. As an expectation, every byte from the BTH to the ICRC has to
/// be as given, but for the fields that are open.
class ScriptPacket {
  public:
    ScriptPacket(std::uint8_t operation, std::uint32_t psn);

    // --- Fields, with the values that most packets have as defaults --------------------------------------
    ScriptPacket& ackreq(bool set = true);
    ScriptPacket& solicited();
    ScriptPacket& pkey(std::uint16_t value);
    ScriptPacket& dest_qp(std::uint32_t qp_num);
    /// MigReq is 1 in every packet of a QP that does not migrate.
    ScriptPacket& mig_req(bool set);
    ScriptPacket& tver(std::uint8_t value);
    ScriptPacket& reth(std::uint64_t va, std::uint32_t rkey, std::uint32_t dma_length);
    ScriptPacket& rkey(std::uint32_t value);
    /// FLUSH: placement type and selectivity level.
    ScriptPacket& feth(std::uint32_t value);
    ScriptPacket& atomic(std::uint64_t swap_or_add, std::uint64_t compare = 0);
    ScriptPacket& aeth(std::uint8_t syndrome, std::uint32_t msn);
    /// AETH of an ACK: the credit code (0..30, 31 is "unlimited").
    ScriptPacket& credits(std::uint8_t code);
    ScriptPacket& msn(std::uint32_t value);
    /// AtomicAckETH.
    ScriptPacket& original(std::uint64_t value);
    /// ImmDt as it lies on the wire; also the R_Key of an IETH.
    ScriptPacket& imm(std::uint32_t value);
    /// `length` bytes from `offset` of the sender's data.
    ScriptPacket& slice(std::size_t offset, std::size_t length);
    /// These bytes instead.
    ScriptPacket& bytes(std::span<const std::byte> payload);

    // --- What only a peer that errs would send; the ICRC is right all the same ---------------------------
    /// PadCnt says `count`, whatever pad bytes there are.
    ScriptPacket& pad_count_lie(std::uint8_t count);
    /// The whole opcode, service included; fields stay those of the operation that the packet began with.
    ScriptPacket& opcode_lie(std::uint8_t opcode);
    ScriptPacket& bad_icrc();
    /// Flips bits of the byte `at` of the BTH.
    ScriptPacket& flips(std::size_t at, std::uint8_t mask);
    /// Flips bits of the byte `at` of the IPv4 packet once the ICRC is made; from UDP on, over IPv6 the same
    /// field.
    ScriptPacket& flips_on_the_way(std::size_t at, std::uint8_t mask);
    /// A router had it: TTL one less, another DSCP, ECN says congestion; the IP checksum is right.
    ScriptPacket& routed();
    ScriptPacket& source(const wire::Gid& gid);
    /// Of another transport service than RC.
    ScriptPacket& service(wire::Service service);
    /// Q_Key and source QP of a UD packet.
    ScriptPacket& deth(std::uint32_t qkey, std::uint32_t src_qp);
    /// XRCETH.
    ScriptPacket& srq(std::uint32_t number);
    ScriptPacket& becn();

    // --- What an expectation leaves open -----------------------------------------------------------------
    /// AckReq may be 0 or 1; so it is for First and Middle unless ackreq() says otherwise.
    ScriptPacket& any_ackreq();
    ScriptPacket& any_credits();
    ScriptPacket& any_msn();

    [[nodiscard]] const wire::PacketHeader& header() const { return header_; }
    [[nodiscard]] std::uint32_t psn() const { return header_.psn.value(); }
    [[nodiscard]] std::size_t payload_bytes() const { return payload_bytes_; }
    [[nodiscard]] const std::optional<wire::Gid>& source() const { return source_; }

    /// The frame that a peer sends. `data`: what payloads are slices of.
    [[nodiscard]] FrameBytes build(const wire::Path& path, std::span<const std::byte> data) const;
    /// The frame that is expected; the open fields are as `seen` has them, if there is one.
    [[nodiscard]] FrameBytes expected_for(const FrameBytes* seen, const wire::Path& path,
                                          std::span<const std::byte> data) const;

  private:
    struct Flip {
        std::size_t at;
        std::uint8_t mask;
    };
    [[nodiscard]] std::span<const std::byte> payload_of(std::span<const std::byte> data) const;

    wire::PacketHeader header_;
    std::size_t payload_offset_ = 0;
    std::size_t payload_bytes_ = 0;
    std::vector<std::byte> bytes_;  // unless empty, instead of the slice
    std::optional<std::uint8_t> pad_count_;
    std::optional<std::uint8_t> opcode_;
    std::optional<wire::Gid> source_;
    std::vector<Flip> flips_;
    std::vector<Flip> flips_on_the_way_;
    bool bad_icrc_ = false;
    bool routed_ = false;
    bool open_ackreq_ = false;
    bool open_credits_ = false;
    bool open_msn_ = false;
};

/// One packet or several: `sends(a)`, `sends({a, b})`.
class ScriptPackets : public std::vector<ScriptPacket> {
  public:
    ScriptPackets() = default;
    ScriptPackets(const ScriptPacket& packet) : vector{packet} {}
    ScriptPackets(std::initializer_list<ScriptPacket> packets) : vector(packets) {}
    ScriptPackets(std::size_t count, const ScriptPacket& packet) : vector(count, packet) {}
};

/// Where the BTH is in a frame of RoCEv2 over IPv4 without options, or over IPv6.
[[nodiscard]] std::size_t bth_offset(const FrameBytes& frame);
/// Its transport header.
[[nodiscard]] wire::PacketHeader frame_header(const FrameBytes& frame);
/// One line about a frame.
[[nodiscard]] std::string frame_line(const FrameBytes& frame);
/// Every layer and field of a frame.
[[nodiscard]] std::string frame_dump(const FrameBytes& frame);
/// Returns whether nothing differs from the BTH on; `what` gets the lines of the dump that do.
[[nodiscard]] bool same_from_bth(const FrameBytes& expected, const FrameBytes& seen, std::string& what);

}  // namespace urnic::conform
