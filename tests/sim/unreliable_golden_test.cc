// Captured UC and UD traffic of Linux rxe (tests/golden): our responders take it, and our requesters make the
// same packets of the same messages.
#include <array>

#include "rnic/qp/unreliable/ud_qp.h"
#include "rnic/wire/opcodes.h"
#include "tests/sim/rc_fixture.h"
#include "tests/support/pcap.h"

namespace urnic::sim {
namespace {

constexpr std::size_t kMessageRoom = 8192;

struct Packet {
    wire::PacketView view;
    const wire::OpcodeInfo* info = nullptr;
};

class UnreliableGolden : public RcPair {
  protected:
    // The packets of one direction: those from the sender of the first.
    void load(const std::string& name, wire::Service service) {
        frames_ = test::read_pcap(std::string(URNIC_GOLDEN_DIR) + "/" + name);
        for (const std::vector<std::byte>& frame : frames_) {
            Packet packet;
            if (wire::parse_frame(frame, packet.view) != wire::ParseError::kNone ||
                (packet.view.header.opcode & wire::kServiceMask) != service ||
                (!packets_.empty() && packet.view.src_gid != packets_[0].view.src_gid)) {
                continue;
            }
            packet.info = &wire::opcode_info(packet.view.header.opcode);
            packets_.push_back(packet);
            if ((packet.info->flags & wire::kStarts) != 0) {
                messages_.emplace_back();
            }
            const auto& payload = packet.view.payload;
            messages_.back().insert(messages_.back().end(), payload.begin(), payload.end());
        }
        ASSERT_GT(packets_.size(), 3U);
        ASSERT_LT(messages_.size(), 250U);
    }
    // A host in RTS with the QP number and the PSN of the capture.
    std::unique_ptr<SimHost> host(const char* name, QpType type) {
        const wire::PacketHeader& first = packets_[0].view.header;
        auto made = std::make_unique<SimHost>(net_, name, first.dest_qp, SimHost::Options{.type = type});
        made->to_init(kAllAccess, kQkey);
        abi::QpAttr attr{};
        attr.mask = kQpAttrState;
        attr.state = QpState::kRtr;
        if (type == QpType::kUc) {
            attr.mask |= kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn;
            std::copy_n(packets_[0].view.src_gid.begin(), 16, attr.av.dgid);
            attr.path_mtu = 3;
            attr.dest_qp_num = first.dest_qp;
            attr.rq_psn = first.psn.value();
        }
        EXPECT_EQ(made->modify(attr), 0);
        made->to_rts({}, first.psn.value());
        return made;
    }
    void receive_all(QpType type) {
        const auto b = host("B", type);
        SimRegion& memory = b->add_region(messages_.size() * kMessageRoom);
        for (std::size_t i = 0; i < messages_.size(); ++i) {
            b->post_recv(i, {memory.sge(i * kMessageRoom, kMessageRoom)});
        }
        for (const Packet& packet : packets_) {
            b->deliver(packet.view);
        }
        const auto received = b->poll_raw(true);
        ASSERT_EQ(received.size(), messages_.size());
        const std::size_t front = type == QpType::kUd ? kGrhBytes : 0;
        for (std::size_t i = 0; i < messages_.size(); ++i) {
            EXPECT_EQ(received[i]->status, static_cast<std::uint8_t>(WcStatus::kSuccess));
            EXPECT_EQ(received[i]->byte_len, messages_[i].size() + front);
            EXPECT_TRUE(std::equal(messages_[i].begin(), messages_[i].end(),
                                   memory.data() + i * kMessageRoom + front));
        }
    }
    void send_all(QpType type) {
        const auto a = host("A", type);
        const std::uint32_t to_peer = a->address(*a);
        SimRegion& memory = a->add_region(messages_.size() * kMessageRoom);
        net_.lose = [](const SentPacket&) { return true; };
        for (std::size_t i = 0; i < messages_.size(); ++i) {
            std::copy(messages_[i].begin(), messages_[i].end(), memory.data() + i * kMessageRoom);
            a->post_send(
                {.wr_id = i,
                 .sge = {memory.sge(i * kMessageRoom, static_cast<std::uint32_t>(messages_[i].size()))},
                 .address_handle = to_peer,
                 .remote_qp_num = packets_[0].view.header.dest_qp,
                 .remote_qkey = packets_[0].view.header.deth.qkey});
        }
        ASSERT_TRUE(net_.run());
        const std::vector<SentPacket> sent = net_.take_packets();
        ASSERT_EQ(sent.size(), packets_.size());
        for (std::size_t i = 0; i < sent.size(); ++i) {
            const wire::PacketHeader& theirs = packets_[i].view.header;
            EXPECT_EQ(sent[i].header.opcode, theirs.opcode) << i;
            EXPECT_EQ(sent[i].header.psn, theirs.psn) << i;
            EXPECT_EQ(sent[i].header.dest_qp, theirs.dest_qp) << i;
            EXPECT_EQ(sent[i].header.pkey, theirs.pkey) << i;
            EXPECT_EQ(sent[i].header.solicited, theirs.solicited) << i;
            EXPECT_EQ(sent[i].payload_bytes, packets_[i].view.payload.size()) << i;
            if (type == QpType::kUd) {
                EXPECT_EQ(sent[i].header.deth.qkey, theirs.deth.qkey) << i;
                EXPECT_EQ(sent[i].header.deth.src_qp, theirs.deth.src_qp) << i;
            }
        }
    }

    std::vector<std::vector<std::byte>> frames_;
    std::vector<Packet> packets_;
    std::vector<std::vector<std::byte>> messages_;
};

TEST_F(UnreliableGolden, UcReceives) {
    load("uc_send.pcap", wire::kServiceUc);
    receive_all(QpType::kUc);
}

TEST_F(UnreliableGolden, UcSends) {
    load("uc_send.pcap", wire::kServiceUc);
    send_all(QpType::kUc);
}

TEST_F(UnreliableGolden, UdReceives) {
    load("ud_send.pcap", wire::kServiceUd);
    receive_all(QpType::kUd);
}

TEST_F(UnreliableGolden, UdSends) {
    load("ud_send.pcap", wire::kServiceUd);
    send_all(QpType::kUd);
}

}  // namespace
}  // namespace urnic::sim
