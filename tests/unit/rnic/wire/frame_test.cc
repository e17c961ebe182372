// Frames that this implementation makes: every opcode there and back, VLAN, IPv6, pieces, limits.
#include "rnic/wire/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "conform/case/reference_icrc.h"
#include "rnic/wire/opcodes.h"
#include "rnic/wire/peek.h"
#include "rnic/wire/priority.h"
#include "tests/support/random_bytes.h"

namespace urnic::wire {
namespace {

PathSpec ipv4_spec() {
    PathSpec spec;
    spec.src_mac = {2, 0, 0, 0, 0, 1};
    spec.dst_mac = {2, 0, 0, 0, 0, 2};
    spec.src_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1};
    spec.dst_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 2};
    spec.traffic_class = 0x6a;
    spec.hop_limit = 7;
    spec.udp_src_port = 0xc123;
    return spec;
}

PathSpec ipv6_spec() {
    PathSpec spec = ipv4_spec();
    spec.src_gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1};
    spec.dst_gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 2};
    spec.flow_label = 0xabcde;
    return spec;
}

PacketHeader random_header(std::uint8_t opcode, test::Random& random) {
    const auto word = [&random] { return static_cast<std::uint32_t>(random.next()); };
    PacketHeader header;
    header.opcode = opcode;
    header.solicited = random.below(2) != 0;
    header.mig_req = random.below(2) != 0;
    header.fecn = random.below(2) != 0;
    header.becn = random.below(2) != 0;
    header.ack_req = random.below(2) != 0;
    header.pkey = static_cast<std::uint16_t>(word());
    header.dest_qp = word() & 0xffffff;
    header.psn = Psn(word());
    header.reth = {random.next(), word(), word()};
    header.atomic = {random.next(), word(), random.next(), random.next()};
    header.aeth = {static_cast<std::uint8_t>(word()), word() & 0xffffff};
    header.atomic_ack = random.next();
    header.imm = word();
    header.ieth_rkey = word();
    header.deth = {word(), word() & 0xffffff};
    header.xrc_srq = word() & 0xffffff;
    header.rd_ee_context = word() & 0xffffff;
    header.feth = word();
    return header;
}

void expect_same(const PacketHeader& got, const PacketHeader& sent) {
    const std::uint16_t mask = opcode_info(sent.opcode).headers;
    EXPECT_EQ(got.opcode, sent.opcode);
    EXPECT_EQ(got.solicited, sent.solicited);
    EXPECT_EQ(got.mig_req, sent.mig_req);
    EXPECT_EQ(got.fecn, sent.fecn);
    EXPECT_EQ(got.becn, sent.becn);
    EXPECT_EQ(got.ack_req, sent.ack_req);
    EXPECT_EQ(got.pkey, sent.pkey);
    EXPECT_EQ(got.dest_qp, sent.dest_qp);
    EXPECT_EQ(got.psn, sent.psn);
    // What is not on the wire must read as zero, whatever the view held before.
    const auto when = [mask](std::uint16_t bit, std::uint64_t value) {
        return (mask & bit) != 0 ? value : 0;
    };
    EXPECT_EQ(got.reth.va, when(kHasReth, sent.reth.va));
    EXPECT_EQ(got.reth.rkey, when(kHasReth, sent.reth.rkey));
    EXPECT_EQ(got.reth.dma_length, when(kHasReth, sent.reth.dma_length));
    EXPECT_EQ(got.atomic.va, when(kHasAtomicEth, sent.atomic.va));
    EXPECT_EQ(got.atomic.rkey, when(kHasAtomicEth, sent.atomic.rkey));
    EXPECT_EQ(got.atomic.swap_or_add, when(kHasAtomicEth, sent.atomic.swap_or_add));
    EXPECT_EQ(got.atomic.compare, when(kHasAtomicEth, sent.atomic.compare));
    EXPECT_EQ(got.aeth.syndrome, when(kHasAeth, sent.aeth.syndrome));
    EXPECT_EQ(got.aeth.msn, when(kHasAeth, sent.aeth.msn));
    EXPECT_EQ(got.atomic_ack, when(kHasAtomicAck, sent.atomic_ack));
    EXPECT_EQ(got.imm, when(kHasImm, sent.imm));
    EXPECT_EQ(got.ieth_rkey, when(kHasIeth, sent.ieth_rkey));
    EXPECT_EQ(got.deth.qkey, when(kHasDeth, sent.deth.qkey));
    EXPECT_EQ(got.deth.src_qp, when(kHasDeth, sent.deth.src_qp));
    EXPECT_EQ(got.xrc_srq, when(kHasXrceth, sent.xrc_srq));
    EXPECT_EQ(got.rd_ee_context, when(kHasRdeth, sent.rd_ee_context));
    EXPECT_EQ(got.feth, when(kHasFeth, sent.feth));
}

/// One piece over `payload`; none if that is empty.
std::vector<MemoryPiece> one_piece(std::vector<std::byte>& payload) {
    if (payload.empty()) {
        return {};
    }
    return {{payload.data(), nullptr, 0, static_cast<std::uint32_t>(payload.size())}};
}

TEST(Frame, EveryOpcodeThereAndBackOverEveryPath) {
    test::Random random;
    PathSpec tagged = ipv4_spec();
    tagged.vlan_tci = 0x6064;
    PathSpec tagged_ipv6 = ipv6_spec();
    tagged_ipv6.vlan_tci = 0x0fff;
    PacketView view;  // one for all: nothing of an earlier packet may stay
    for (const PathSpec& spec : {ipv4_spec(), ipv6_spec(), tagged, tagged_ipv6}) {
        const Path path = make_path(spec);
        for (unsigned opcode = 0; opcode < 256; ++opcode) {
            const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(opcode));
            if ((info.flags & kValid) == 0) {
                continue;
            }
            const bool carries = (info.flags & kHasPayload) != 0;
            for (const std::size_t length : {0U, 1U, 2U, 3U, 4U, 64U, 255U, 1024U, 4096U}) {
                if (!carries && length != 0) {
                    break;
                }
                SCOPED_TRACE(std::string(info.name) + ", " + std::to_string(length) + " bytes");
                const PacketHeader sent = random_header(static_cast<std::uint8_t>(opcode), random);
                std::vector<std::byte> payload = random.bytes(length);
                std::vector<std::byte> frame(kMaxFrameBytes);
                const std::size_t bytes = build_frame(path, sent, one_piece(payload), frame);
                ASSERT_EQ(bytes, path.length + info.header_bytes + (length + 3) / 4 * 4 + 4);
                ASSERT_EQ(parse_frame({frame.data(), bytes}, view), ParseError::kNone);
                expect_same(view.header, sent);
                EXPECT_EQ(view.header.pad_count, (4 - length % 4) % 4);
                EXPECT_TRUE(
                    std::equal(payload.begin(), payload.end(), view.payload.begin(), view.payload.end()));
                EXPECT_TRUE(icrc_ok(view));
                const std::uint32_t icrc = conform::reference_icrc(view.l3);
                for (unsigned i = 0; i < 4; ++i) {
                    EXPECT_EQ(frame[bytes - 4 + i], static_cast<std::byte>(icrc >> (8 * i)));
                }
                EXPECT_EQ(view.src_gid, spec.src_gid);
                EXPECT_EQ(view.dst_gid, spec.dst_gid);
                EXPECT_EQ(view.src_mac, spec.src_mac);
                EXPECT_EQ(view.dst_mac, spec.dst_mac);
                EXPECT_EQ(view.vlan_tci, spec.vlan_tci);
                EXPECT_EQ(view.traffic_class, spec.traffic_class);
                EXPECT_EQ(view.hop_limit, spec.hop_limit);
                EXPECT_EQ(view.udp_src_port, spec.udp_src_port);
                EXPECT_EQ(peek_dest_qp({frame.data(), bytes}), sent.dest_qp);
            }
        }
    }
}

TEST(Frame, Ipv4HeaderIsAsRocev2WantsIt) {
    std::vector<std::byte> frame(kMaxFrameBytes);
    PacketHeader header;
    header.opcode = kSendOnly;
    header.psn = Psn(0xabcdef);
    const std::size_t bytes = build_frame(make_path(ipv4_spec()), header, {}, frame);
    ASSERT_EQ(bytes, 14U + 20U + 8U + 12U + 4U);
    const auto at = [&frame](std::size_t offset) { return static_cast<unsigned>(frame[offset]); };
    EXPECT_EQ(at(14), 0x45U);
    EXPECT_EQ(at(16) << 8U | at(17), 44U);             // total length
    EXPECT_EQ(at(18) << 8U | at(19), 0xcdefU);         // identification from the PSN
    EXPECT_EQ(at(20) << 8U | at(21), 0x4000U);         // don't fragment
    EXPECT_EQ(at(22), 7U);                             // TTL
    EXPECT_EQ(at(34) << 8U | at(35), 0xc123U);         // source port
    EXPECT_EQ(at(36) << 8U | at(37), kRocev2UdpPort);  // destination port
    EXPECT_EQ(at(38) << 8U | at(39), 24U);             // UDP length
    EXPECT_EQ(at(40) << 8U | at(41), 0U);              // no UDP checksum
}

TEST(Frame, EthernetPaddingIsNotPartOfThePacket) {
    std::vector<std::byte> frame(kMaxFrameBytes, std::byte{0xee});
    PacketHeader header;
    header.opcode = kAcknowledge;
    const std::size_t bytes = build_frame(make_path(ipv4_spec()), header, {}, frame);
    PacketView view;
    ASSERT_EQ(parse_frame({frame.data(), std::max<std::size_t>(bytes, 80)}, view), ParseError::kNone);
    EXPECT_TRUE(icrc_ok(view));
    EXPECT_EQ(view.l3.size(), bytes - 14 - 4);
}

/// Memory of another process, made of one vector at address 4096.
class FakeSpace final : public AddressSpace {
  public:
    explicit FakeSpace(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
    bool read(std::uint64_t va, std::byte* to, std::size_t length_bytes) override {
        if (va < 4096 || va - 4096 + length_bytes > bytes_.size()) {
            return false;
        }
        std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(va - 4096), length_bytes, to);
        return true;
    }
    bool write(std::uint64_t, const std::byte*, std::size_t) override { return false; }

  private:
    std::vector<std::byte> bytes_;
};

TEST(Frame, PiecesOfMappedAndOtherMemoryMakeTheSameFrame) {
    test::Random random;
    const Path path = make_path(ipv6_spec());
    for (int round = 0; round < 200; ++round) {
        std::vector<std::byte> payload = random.bytes(random.below(4097));
        FakeSpace space(payload);
        std::vector<MemoryPiece> pieces;
        for (std::size_t begin = 0; begin < payload.size();) {
            const std::size_t length = std::min<std::size_t>(1 + random.below(700), payload.size() - begin);
            MemoryPiece piece;
            piece.length_bytes = static_cast<std::uint32_t>(length);
            if (random.below(2) == 0) {
                piece.direct = payload.data() + begin;
            } else {
                piece.space = &space;
                piece.va = 4096 + begin;
            }
            pieces.push_back(piece);
            pieces.push_back({});  // and an empty one, which changes nothing
            begin += length;
        }
        const PacketHeader header = random_header(kWriteLast, random);
        std::vector<std::byte> whole(kMaxFrameBytes);
        std::vector<std::byte> parts(kMaxFrameBytes);
        whole.resize(build_frame(path, header, one_piece(payload), whole));
        parts.resize(build_frame(path, header, pieces, parts));
        ASSERT_EQ(whole, parts) << random;
    }
}

TEST(Frame, APieceThatCannotBeReadGivesNoFrame) {
    FakeSpace space(std::vector<std::byte>(100));
    std::vector<std::byte> frame(kMaxFrameBytes);
    PacketHeader header;
    header.opcode = kSendOnly;
    const MemoryPiece beyond{nullptr, &space, 4096 + 50, 51};
    EXPECT_EQ(build_frame(make_path(ipv4_spec()), header, {&beyond, 1}, frame), 0U);
    const MemoryPiece nowhere{nullptr, nullptr, 0, 8};
    EXPECT_EQ(build_frame(make_path(ipv4_spec()), header, {&nowhere, 1}, frame), 0U);
}

TEST(Frame, NothingIsWrittenBeyondASmallFrame) {
    const Path path = make_path(ipv4_spec());
    std::vector<std::byte> payload(101);
    PacketHeader header;
    header.opcode = kWriteOnly;
    std::vector<std::byte> room(kMaxFrameBytes);
    const std::size_t needed = build_frame(path, header, one_piece(payload), room);
    for (std::size_t size = 0; size <= needed; ++size) {
        std::vector<std::byte> frame(size);  // on the heap, so that AddressSanitizer sees a write past it
        EXPECT_EQ(build_frame(path, header, one_piece(payload), frame), size == needed ? needed : 0U);
    }
}

TEST(Frame, PiecesWhoseLengthsWouldWrapAreRefused) {
    std::vector<std::byte> frame(kMaxFrameBytes);
    std::vector<MemoryPiece> pieces(4, MemoryPiece{frame.data(), nullptr, 0, 0xffff'ffffU});
    pieces.push_back({frame.data(), nullptr, 0, 8});
    PacketHeader header;
    header.opcode = kSendOnly;
    EXPECT_EQ(build_frame(make_path(ipv4_spec()), header, pieces, frame), 0U);
}

std::vector<std::byte> frame_of(const PathSpec& spec) {
    std::vector<std::byte> frame(kMaxFrameBytes);
    PacketHeader header;
    header.opcode = kSendOnly;
    header.dest_qp = 7;
    frame.resize(build_frame(make_path(spec), header, {}, frame));
    return frame;
}

TEST(Peek, FindsWhatSwitchesGoBy) {
    for (PathSpec spec : {ipv4_spec(), ipv6_spec()}) {
        for (const std::uint16_t tci : {0, 0xa005}) {
            spec.vlan_tci = tci;
            const std::vector<std::byte> frame = frame_of(spec);
            const Peek seen = peek(frame);
            const bool is_ipv4 = spec.src_gid[0] == 0;
            EXPECT_EQ(seen.ether_type, is_ipv4 ? kEtherTypeIpv4 : kEtherTypeIpv6);
            EXPECT_EQ(seen.vlan_tci, tci);
            EXPECT_EQ(seen.is_tagged(), tci != 0);
            EXPECT_EQ(seen.l3_offset, tci == 0 ? 14U : 18U);
            EXPECT_TRUE(seen.is_ip);
            EXPECT_EQ(seen.is_ipv4, is_ipv4);
            EXPECT_EQ(seen.traffic_class, 0x6a);
            EXPECT_EQ(seen.priority(), tci == 0 ? 3 : 5);
            EXPECT_EQ(seen.priority(), priority_of(reinterpret_cast<const std::uint8_t*>(frame.data())));
        }
    }
}

TEST(Peek, SaysNothingOfWhatIsCutOff) {
    PathSpec spec = ipv4_spec();
    spec.vlan_tci = 0xa005;
    const std::vector<std::byte> frame = frame_of(spec);
    for (std::size_t bytes = 0; bytes < 60; ++bytes) {
        const std::vector<std::byte> cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(bytes));
        const Peek seen = peek(cut);
        EXPECT_EQ(seen.ether_type, bytes < 18 ? 0 : kEtherTypeIpv4) << bytes;
        EXPECT_EQ(seen.is_ip, bytes >= 38) << bytes;
        EXPECT_LE(seen.l3_offset, std::max<std::size_t>(bytes, 14)) << bytes;
    }
}

TEST(SetCe, MarksIpAndNothingElse) {
    for (PathSpec spec : {ipv4_spec(), ipv6_spec()}) {
        for (const std::uint16_t tci : {0, 0xa005}) {
            spec.vlan_tci = tci;
            std::vector<std::byte> frame = frame_of(spec);
            set_ce(frame);
            PacketView view;
            ASSERT_EQ(parse_frame(frame, view), ParseError::kNone) << "its checksum is right";
            EXPECT_TRUE(icrc_ok(view));
            EXPECT_EQ(view.traffic_class, 0x6b);
            EXPECT_EQ(view.header.dest_qp, 7U);
            PathSpec marked = spec;
            marked.traffic_class = 0x6b;
            EXPECT_EQ(frame, frame_of(marked));
        }
    }
    std::vector<std::byte> arp(60);
    arp[12] = std::byte{0x08};
    arp[13] = std::byte{0x06};
    const std::vector<std::byte> before = arp;
    set_ce(arp);
    EXPECT_EQ(arp, before);
}

}  // namespace
}  // namespace urnic::wire
