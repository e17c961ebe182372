#include "conform/case/script_packet.h"

#include <algorithm>
#include <sstream>

#include "base/bytes.h"
#include "base/check.h"
#include "conform/case/reference_icrc.h"
#include "rnic/wire/dissect/dump.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"

namespace urnic::conform {

namespace {

constexpr std::size_t kL3 = wire::kEthernetBytes;
constexpr std::size_t kEtherType = 12;

bool is_ipv6(const FrameBytes& frame) {
    return wire::load_be16(frame.data() + kEtherType) == wire::kEtherTypeIpv6;
}

wire::Packet parsed(const FrameBytes& frame) {
    wire::Packet packet;
    wire::parse_packet(wire::LinkLayer::kEthernet, frame, frame.size(), packet);
    return packet;
}

FrameBytes build_valid(const wire::Path& path, const wire::PacketHeader& header,
                       std::span<const std::byte> payload) {
    FrameBytes frame(wire::kMaxFrameBytes + 4096);  // also what is longer than any path MTU allows
    std::vector<std::byte> copy(payload.begin(), payload.end());
    MemoryPiece piece;
    piece.direct = copy.data();
    piece.length_bytes = static_cast<std::uint32_t>(copy.size());
    const std::size_t length = wire::build_frame(path, header, {&piece, copy.empty() ? 0U : 1U}, frame);
    URNIC_CHECK(length != 0);
    frame.resize(length);
    return frame;
}

void mend_icrc(FrameBytes& frame) {
    const std::size_t end = frame.size() - wire::kIcrcBytes;
    wire::store_le32(frame.data() + end, reference_icrc({frame.data() + kL3, end - kL3}));
}

void route(FrameBytes& frame) {
    std::byte* ip = frame.data() + kL3;
    if (is_ipv6(frame)) {
        constexpr std::uint32_t kClass = 0x6b;
        wire::store_be32(ip, (wire::load_be32(ip) & 0xf00f'ffffU) | kClass << 20U);
        ip[wire::kIpv6HopLimit] =
            static_cast<std::byte>(std::to_integer<unsigned>(ip[wire::kIpv6HopLimit]) - 1);
        return;
    }
    ip[wire::kIpv4Ttl] = static_cast<std::byte>(std::to_integer<unsigned>(ip[wire::kIpv4Ttl]) - 1);
    ip[wire::kIpv4Tos] = std::byte{0x6b};  // DSCP 26, CE
    mend_ip_checksum(frame);
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line);
    }
    return lines;
}

// IP and UDP as `seen` has them, whose identification and ports are the sender's choice; the lengths are
// those of `frame`.
void take_ip_and_udp(const FrameBytes& seen, FrameBytes& frame) {
    const std::size_t length = kL3 + (is_ipv6(frame) ? wire::kIpv6PayloadLength : wire::kIpv4TotalLength);
    const std::size_t udp_length = bth_offset(frame) - wire::kUdpBytes + wire::kUdpLength;
    const std::uint16_t bytes = wire::load_be16(frame.data() + length);
    const std::uint16_t udp_bytes = wire::load_be16(frame.data() + udp_length);
    std::copy_n(seen.begin(), bth_offset(frame), frame.begin());
    if (seen.size() == frame.size()) {
        return;
    }
    wire::store_be16(frame.data() + length, bytes);
    wire::store_be16(frame.data() + udp_length, udp_bytes);
    if (!is_ipv6(frame)) {
        mend_ip_checksum(frame);
    }
}

}  // namespace

void mend_ip_checksum(FrameBytes& frame) {
    std::byte* ip = frame.data() + kL3;
    wire::store_be16(ip + wire::kIpv4Checksum, 0);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < wire::kIpv4Bytes; i += 2) {
        sum += wire::load_be16(ip + i);
    }
    sum = (sum & 0xffffU) + (sum >> 16U);
    wire::store_be16(ip + wire::kIpv4Checksum, static_cast<std::uint16_t>(~((sum & 0xffffU) + (sum >> 16U))));
}

ScriptPacket::ScriptPacket(std::uint8_t operation, std::uint32_t psn) {
    header_.opcode = static_cast<std::uint8_t>(wire::kServiceRc | operation);
    header_.psn = Psn(psn);
    const wire::OpcodeInfo& info = wire::opcode_info(header_.opcode);
    const bool is_request = (info.flags & wire::kIsRequest) != 0;
    header_.ack_req = is_request && (info.flags & (wire::kEnds | wire::kIsRead | wire::kIsAtomic)) != 0;
    open_ackreq_ = is_request && !header_.ack_req;
    header_.aeth.syndrome = wire::kCreditsUnlimited;
}

ScriptPacket& ScriptPacket::ackreq(bool set) {
    header_.ack_req = set;
    open_ackreq_ = false;
    return *this;
}
ScriptPacket& ScriptPacket::solicited() {
    header_.solicited = true;
    return *this;
}
ScriptPacket& ScriptPacket::pkey(std::uint16_t value) {
    header_.pkey = value;
    return *this;
}
ScriptPacket& ScriptPacket::dest_qp(std::uint32_t qp_num) {
    header_.dest_qp = qp_num;
    return *this;
}
ScriptPacket& ScriptPacket::mig_req(bool set) {
    header_.mig_req = set;
    return *this;
}
ScriptPacket& ScriptPacket::tver(std::uint8_t value) {
    header_.tver = value;
    return *this;
}
ScriptPacket& ScriptPacket::reth(std::uint64_t va, std::uint32_t rkey, std::uint32_t dma_length) {
    header_.reth = {.va = va, .rkey = rkey, .dma_length = dma_length};
    header_.atomic.va = va;
    header_.atomic.rkey = rkey;
    return *this;
}
ScriptPacket& ScriptPacket::rkey(std::uint32_t value) {
    header_.reth.rkey = value;
    header_.atomic.rkey = value;
    return *this;
}
ScriptPacket& ScriptPacket::feth(std::uint32_t value) {
    header_.feth = value;
    return *this;
}
ScriptPacket& ScriptPacket::atomic(std::uint64_t swap_or_add, std::uint64_t compare) {
    header_.atomic.swap_or_add = swap_or_add;
    header_.atomic.compare = compare;
    return *this;
}
ScriptPacket& ScriptPacket::aeth(std::uint8_t syndrome, std::uint32_t msn) {
    header_.aeth = {.syndrome = syndrome, .msn = msn & Psn::kMask};
    return *this;
}
ScriptPacket& ScriptPacket::credits(std::uint8_t code) {
    header_.aeth.syndrome = static_cast<std::uint8_t>(wire::kSyndromeAck | code);
    open_credits_ = false;
    return *this;
}
ScriptPacket& ScriptPacket::msn(std::uint32_t value) {
    header_.aeth.msn = value & Psn::kMask;
    open_msn_ = false;
    return *this;
}
ScriptPacket& ScriptPacket::original(std::uint64_t value) {
    header_.atomic_ack = value;
    return *this;
}
ScriptPacket& ScriptPacket::imm(std::uint32_t value) {
    header_.imm = value;
    header_.ieth_rkey = value;
    return *this;
}
ScriptPacket& ScriptPacket::slice(std::size_t offset, std::size_t length) {
    payload_offset_ = offset;
    payload_bytes_ = length;
    return *this;
}
ScriptPacket& ScriptPacket::pad_count_lie(std::uint8_t count) {
    pad_count_ = count;
    return *this;
}
ScriptPacket& ScriptPacket::opcode_lie(std::uint8_t opcode) {
    opcode_ = opcode;
    return *this;
}
ScriptPacket& ScriptPacket::bad_icrc() {
    bad_icrc_ = true;
    return *this;
}
ScriptPacket& ScriptPacket::source(const wire::Gid& gid) {
    source_ = gid;
    return *this;
}
ScriptPacket& ScriptPacket::bytes(std::span<const std::byte> payload) {
    bytes_.assign(payload.begin(), payload.end());
    return *this;
}
ScriptPacket& ScriptPacket::flips(std::size_t at, std::uint8_t mask) {
    flips_.push_back({at, mask});
    return *this;
}
ScriptPacket& ScriptPacket::flips_on_the_way(std::size_t at, std::uint8_t mask) {
    flips_on_the_way_.push_back({at, mask});
    return *this;
}
ScriptPacket& ScriptPacket::routed() {
    routed_ = true;
    return *this;
}
ScriptPacket& ScriptPacket::service(wire::Service service) {
    header_.opcode =
        static_cast<std::uint8_t>(unsigned{service} | (unsigned{header_.opcode} & wire::kOperationMask));
    return *this;
}
ScriptPacket& ScriptPacket::deth(std::uint32_t qkey, std::uint32_t src_qp) {
    header_.deth = {.qkey = qkey, .src_qp = src_qp};
    return *this;
}
ScriptPacket& ScriptPacket::srq(std::uint32_t number) {
    header_.xrc_srq = number;
    return *this;
}
ScriptPacket& ScriptPacket::becn() {
    header_.becn = true;
    return *this;
}
ScriptPacket& ScriptPacket::any_ackreq() {
    open_ackreq_ = true;
    return *this;
}
ScriptPacket& ScriptPacket::any_credits() {
    open_credits_ = true;
    return *this;
}
ScriptPacket& ScriptPacket::any_msn() {
    open_msn_ = true;
    return *this;
}

std::span<const std::byte> ScriptPacket::payload_of(std::span<const std::byte> data) const {
    return bytes_.empty() ? data.subspan(payload_offset_, payload_bytes_) : std::span(bytes_);
}

FrameBytes ScriptPacket::build(const wire::Path& path, std::span<const std::byte> data) const {
    FrameBytes frame = build_valid(path, header_, payload_of(data));
    const std::size_t bth = bth_offset(frame);
    if (pad_count_) {
        std::byte& flags = frame[bth + wire::kBthFlags];
        flags = (flags & std::byte{0xcf}) | static_cast<std::byte>(*pad_count_ << 4U);
    }
    if (opcode_) {
        frame[bth] = static_cast<std::byte>(*opcode_);
    }
    for (const Flip& flip : flips_) {
        frame[bth + flip.at] ^= static_cast<std::byte>(flip.mask);
    }
    if (pad_count_ || opcode_ || !flips_.empty()) {
        mend_icrc(frame);
    }
    if (routed_) {
        route(frame);
    }
    for (const Flip& flip : flips_on_the_way_) {
        frame[bth - wire::kIpv4Bytes - wire::kUdpBytes + flip.at] ^= static_cast<std::byte>(flip.mask);
    }
    if (bad_icrc_) {
        frame.back() ^= std::byte{1};
    }
    return frame;
}

FrameBytes ScriptPacket::expected_for(const FrameBytes* seen, const wire::Path& path,
                                      std::span<const std::byte> data) const {
    wire::PacketHeader header = header_;
    if (seen != nullptr) {
        const wire::PacketHeader was = frame_header(*seen);
        if (open_ackreq_) {
            header.ack_req = was.ack_req;
        }
        if (open_credits_ && (was.aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck) {
            header.aeth.syndrome = was.aeth.syndrome;
        }
        if (open_msn_) {
            header.aeth.msn = was.aeth.msn;
        }
    }
    FrameBytes frame = build_valid(path, header, payload_of(data));
    const std::size_t bth = bth_offset(frame);
    if (seen != nullptr && seen->size() >= bth && frame.size() >= bth + wire::kIcrcBytes) {
        take_ip_and_udp(*seen, frame);
        mend_icrc(frame);  // which covers IP and UDP
    }
    return frame;
}

std::size_t bth_offset(const FrameBytes& frame) {
    return kL3 + (is_ipv6(frame) ? wire::kIpv6Bytes : wire::kIpv4Bytes) + wire::kUdpBytes;
}

wire::PacketHeader frame_header(const FrameBytes& frame) { return parsed(frame).transport; }
std::string frame_line(const FrameBytes& frame) { return wire::summary(parsed(frame)); }
std::string frame_dump(const FrameBytes& frame) { return wire::dump(parsed(frame), "    "); }

bool same_from_bth(const FrameBytes& expected, const FrameBytes& seen, std::string& what) {
    const auto bth = static_cast<std::ptrdiff_t>(bth_offset(expected));
    if (std::equal(expected.begin() + bth, expected.end(), seen.begin() + bth, seen.end())) {
        return true;
    }
    const std::vector<std::string> wanted = lines_of(frame_dump(expected));
    const std::vector<std::string> got = lines_of(frame_dump(seen));
    for (std::size_t i = 0; i < std::max(wanted.size(), got.size()); ++i) {
        const std::string want = i < wanted.size() ? wanted[i] : "";
        const std::string have = i < got.size() ? got[i] : "";
        if (want != have) {
            what.append("  expected").append(want).append("\n      seen").append(have).append("\n");
        }
    }
    return false;
}

}  // namespace urnic::conform
