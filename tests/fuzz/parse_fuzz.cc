// Everything that reads bytes of unknown origin as packets: the packet path's codec, the codec of every
// header, connection manager messages, capture files and what prints them.
#include <array>
#include <sstream>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "cli/decode/capture_reader.h"
#include "cli/decode/print.h"
#include "rnic/neighbour/membership_message.h"
#include "rnic/neighbour/neighbour_message.h"
#include "rnic/wire/crc/vcrc.h"
#include "rnic/wire/dissect/describe.h"
#include "rnic/wire/dissect/dump.h"
#include "rnic/wire/dissect/ib/crc.h"
#include "rnic/wire/dissect/packet.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/frame_parser.h"
#include "rnic/wire/ib_frame.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/mad/cm.h"
#include "rnic/wire/multicast.h"
#include "tests/fuzz/frame_repair.h"
#include "tests/fuzz/input.h"
#include "tests/support/packet_build.h"

namespace urnic::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

Bytes copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

Bytes frame_of(const wire::PacketView& view) {
    wire::PathSpec spec;
    spec.src_mac = view.src_mac;
    spec.dst_mac = view.dst_mac;
    spec.src_gid = view.src_gid;
    spec.dst_gid = view.dst_gid;
    spec.vlan_tci = view.vlan_tci;
    spec.traffic_class = view.traffic_class;
    spec.hop_limit = view.hop_limit;
    spec.udp_src_port = view.udp_src_port;
    Bytes payload = copy_of(view.payload);
    const MemoryPiece piece{payload.data(), nullptr, 0, static_cast<std::uint32_t>(payload.size())};
    Bytes frame(std::size_t{65536} + 64);
    frame.resize(wire::build_frame(wire::make_path(spec), view.header,
                                   {&piece, payload.empty() ? std::size_t{0} : 1}, frame));
    return frame;
}

/// What the control thread does with ARP and neighbour discovery.
void neighbour_frame(std::span<const std::byte> frame) {
    if (const auto query = net::parse_membership_query(frame)) {
        URNIC_CHECK(net::is_membership_query(frame));
        URNIC_CHECK(query->group == wire::Gid{} || wire::is_multicast(query->group));
    }
    net::NeighbourMessage message;
    const net::NeighbourParse outcome = net::parse_neighbour(frame, message);
    URNIC_CHECK(outcome == net::NeighbourParse::kOther || net::is_neighbour_frame(frame));
    if (outcome != net::NeighbourParse::kGood || message.sender == wire::Gid{}) {
        return;
    }
    Bytes built(net::kMaxNeighbourBytes);
    built.resize(net::build_neighbour(message, built));
    net::NeighbourMessage again;
    URNIC_CHECK(net::parse_neighbour(built, again) == net::NeighbourParse::kGood);
    URNIC_CHECK(again.sender == message.sender && again.sender_mac == message.sender_mac &&
                again.op == message.op && again.vlan == message.vlan);
}

/// What the RNIC does with a frame; what it accepts has to come out the same when it is built and parsed
/// again.
void packet_path(Bytes frame, bool repair) {
    if (repair) {
        repair_ip_checksum(frame);
    }
    neighbour_frame(frame);
    wire::PacketView view;
    const wire::ParseError error = wire::parse_frame(frame, view);
    wire::FrameParser parser;
    for (int i = 0; i < 2; ++i) {  // the second time with what it remembers
        URNIC_CHECK(parser.parse(frame) == error);
        URNIC_CHECK(error != wire::ParseError::kNone ||
                    (parser.view().src_gid == view.src_gid &&
                     parser.view().payload.data() == view.payload.data() &&
                     parser.view().payload.size() == view.payload.size()));
    }
    if (error != wire::ParseError::kNone) {
        URNIC_CHECK(error != wire::ParseError::kNotRoce || wire::peek_dest_qp(frame) == ~0U);
        return;
    }
    URNIC_CHECK(wire::peek_dest_qp(frame) == view.header.dest_qp);
    const std::byte* end = frame.data() + frame.size();
    URNIC_CHECK(view.l3.data() >= frame.data() && view.l3.data() + view.l3.size() + wire::kIcrcBytes <= end);
    URNIC_CHECK(view.payload.data() >= view.l3.data() && view.payload.size() <= view.l3.size());
    URNIC_CHECK(view.payload.data() + view.payload.size() + view.header.pad_count ==
                view.l3.data() + view.l3.size());
    (void)wire::icrc_ok(view);
    constexpr std::size_t kLongestPayload = 60000;  // with which any IP packet can be built
    if (view.payload.size() > kLongestPayload) {
        return;
    }
    const Bytes built = frame_of(view);
    wire::PacketView again;
    URNIC_CHECK(!built.empty() && wire::parse_frame(built, again) == wire::ParseError::kNone);
    URNIC_CHECK(wire::icrc_ok(again));
    URNIC_CHECK(again.header.opcode == view.header.opcode && again.header.psn == view.header.psn &&
                again.header.dest_qp == view.header.dest_qp);
    URNIC_CHECK(
        std::equal(view.payload.begin(), view.payload.end(), again.payload.begin(), again.payload.end()));
    URNIC_CHECK(frame_of(again) == built);
}

/// The same over native InfiniBand, with the CRCs as they came and with right ones: then the fields count.
void native_packet(Bytes frame) {
    wire::PacketView view;
    (void)wire::parse_ib_frame(frame, view);
    const std::uint32_t dest_qp = wire::peek_ib_dest_qp(frame);
    if (dest_qp == ~0U) {
        URNIC_CHECK(wire::parse_ib_frame(frame, view) != wire::ParseError::kNone);
        return;
    }
    const bool has_grh = (std::to_integer<unsigned>(frame[wire::kLrhSlLnh]) & 3U) == wire::kLnhGlobal;
    const std::size_t vcrc = frame.size() - wire::kVcrcBytes;
    const std::size_t icrc = vcrc - wire::kIcrcBytes;
    const auto scope = has_grh ? wire::IcrcScope::kLrhAndGrh : wire::IcrcScope::kLrh;
    wire::store_le32(&frame[icrc], wire::invariant_crc(scope, std::span(frame).first(icrc)));
    wire::store_le16(&frame[vcrc], wire::variant_crc(std::span(frame).first(vcrc)));
    const wire::ParseError error = wire::parse_ib_frame(frame, view);
    URNIC_CHECK(error == wire::ParseError::kNone || error == wire::ParseError::kMalformed);
    if (error == wire::ParseError::kNone) {
        URNIC_CHECK(view.header.dest_qp == dest_qp && view.has_grh == has_grh);
        URNIC_CHECK(view.l3.data() == frame.data() + wire::kLrhBytes &&
                    view.l3.data() + view.l3.size() == frame.data() + icrc);
        URNIC_CHECK(view.payload.data() + view.payload.size() + view.header.pad_count == frame.data() + icrc);
    }
}

/// Any packet as text; what was understood in full can be built, and then stays what it is.
void any_packet(wire::LinkLayer link, std::span<const std::byte> captured, std::size_t wire_bytes) {
    const Bytes bytes = copy_of(captured);  // of its own, so that one byte too far is seen
    wire::Packet packet;
    wire::parse_packet(link, bytes, wire_bytes, packet);
    (void)wire::summary(packet);
    (void)wire::dump(packet, "  ");
    (void)wire::describe_payload(packet);
    if (packet.outcome != wire::Outcome::kComplete || packet.captured_bytes != packet.wire_bytes) {
        return;
    }
    Bytes built(bytes.size() + wire::kMaxPacketBytes);
    built.resize(wire::build_packet(packet, built));
    if (built.empty()) {
        return;
    }
    wire::Packet again;
    wire::parse_packet(link, built, built.size(), again);
    URNIC_CHECK(again.outcome == wire::Outcome::kComplete);
    Bytes rebuilt(built.size());
    rebuilt.resize(wire::build_packet(again, rebuilt));
    URNIC_CHECK(rebuilt == built);
}

void capture_file(std::span<const std::byte> bytes) {
    std::istringstream file(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    try {
        const std::unique_ptr<decode::CaptureReader> reader = decode::open_capture(file, "fuzz");
        std::uint64_t number = 0;
        decode::RpcrdmaDecoder rpcrdma;
        while (const std::optional<decode::Record> record = reader->next()) {
            ++number;
            for (const auto style : {decode::Style::kLines, decode::Style::kFull, decode::Style::kJson}) {
                URNIC_CHECK(!decode::print_record(*record, number, 0, style, &rpcrdma).empty());
            }
        }
    } catch (const decode::CaptureError&) {
        // A damaged file is refused in so many words.
    }
}

void cm_message(Input& input) {
    namespace cm = wire::cm;
    const auto attribute = static_cast<std::uint16_t>(0x10 + input.below(11));
    std::array<std::byte, cm::kMessageBytes> bytes{};
    const std::span<const std::byte> given = input.bytes(bytes.size());
    std::copy(given.begin(), given.end(), bytes.begin());
    const auto message = cm::parse_message(attribute, bytes);
    URNIC_CHECK(message.has_value() && cm::attribute_id(*message) == attribute);
    std::array<std::byte, cm::kMessageBytes> built{};
    std::visit([&built](const auto& one) { cm::build_cm(one, built); }, *message);
    URNIC_CHECK(cm::parse_message(attribute, built) == message);
}

}  // namespace
}  // namespace urnic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace urnic;
    fuzz::Input input(data, size);
    const std::uint8_t what = input.byte();
    switch (what % 5) {
        case 0:
            fuzz::packet_path(fuzz::copy_of(input.all()), (what & 0x80U) != 0);
            break;
        case 1:
        case 2: {
            const std::size_t cut = (what & 0x80U) != 0 ? input.number<std::uint16_t>() : 0;
            const std::span<const std::byte> bytes = input.all();
            if (what % 5 == 2) {
                fuzz::native_packet(fuzz::copy_of(bytes));
            }
            fuzz::any_packet(what % 5 == 1 ? wire::LinkLayer::kEthernet : wire::LinkLayer::kInfiniBand, bytes,
                             bytes.size() + cut);
            break;
        }
        case 3:
            fuzz::capture_file(input.all());
            break;
        default:
            fuzz::cm_message(input);
    }
    return 0;
}
