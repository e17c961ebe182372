// Captures of two Linux rxe peers with rdma_cm (tests/golden) against our manager, in both roles: every
// message of ours is the one that Linux sent, byte for byte, but for what is drawn at random.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "rnic/cm/checks.h"
#include "rnic/wire/frame.h"
#include "tests/sim/cm/cm_script.h"
#include "tests/support/pcap.h"

namespace urnic::sim::cm {
namespace {

/// The differences that are right. Each stands for a number that its sender draws: ours take the place of
/// theirs before the comparison, and what comes back has to name ours.
enum AllowedDifference : std::size_t {
    kTransaction = 8,                                    // of the exchange, in the MAD header
    kLocalId = wire::kMadHeaderBytes,                    // the sender's communication or request ID
    kRemoteId = wire::kMadHeaderBytes + sizeof(Handle),  // the receiver's
};

std::vector<ReceivedMad> mads_of(const char* name) {
    Counters counters;
    std::vector<ReceivedMad> mads;
    for (const std::vector<std::byte>& frame : test::read_pcap(std::string(URNIC_GOLDEN_DIR "/") + name)) {
        wire::PacketView view;
        ReceivedMad mad;
        if (wire::parse_frame(frame, view) == wire::ParseError::kNone && view.header.dest_qp == wire::kQp1 &&
            take_mad(view, kDefaultPkeys, counters, mad)) {
            mads.push_back(mad);
        }
    }
    return mads;
}

template <class M>
M message_of(const ReceivedMad& mad) {
    wire::MadHeader header;
    EXPECT_EQ(check_header(mad, header), HeaderCheck::kGood);
    EXPECT_EQ(header.attribute_id, M::kAttributeId);
    return msg::parse_cm<M>(msg::MessageBytes(mad.bytes.data() + wire::kMadHeaderBytes, msg::kMessageBytes));
}

std::uint64_t tid_of(const ReceivedMad& mad) { return wire::load_be64(mad.bytes.data() + kTransaction); }

class CaptureTest : public ::testing::Test {
  protected:
    /// Which end we take the place of.
    void begin(std::vector<ReceivedMad> mads, std::uint64_t ca_guid) {
        mads_ = std::move(mads);
        Config config;
        config.ca_guid = ca_guid;
        config.seed = {3, 4};
        manager_ = std::make_unique<Manager>(config);
    }
    /// The peer's message, with our numbers where it names Linux's.
    void peer(std::size_t number) {
        ReceivedMad mad = mads_[number];
        translate(mad.bytes);
        manager_->receive(mad, now_, seen_);
    }
    /// The next message that we sent is Linux's.
    void same(std::size_t number) {
        ASSERT_FALSE(seen_.mads.empty());
        const SendMad ours = seen_.mads.front();
        seen_.mads.pop_front();
        std::array<std::byte, wire::kMadBytes> theirs = mads_[number].bytes;
        translate(theirs);
        EXPECT_EQ(ours.route.local_gid, mads_[number].src_gid);
        EXPECT_EQ(ours.route.remote_gid, mads_[number].dst_gid);
        for (std::size_t i = 0; i < theirs.size(); ++i) {
            EXPECT_EQ(std::to_integer<int>(ours.bytes[i]), std::to_integer<int>(theirs[i]))
                << "message " << number << ", byte " << i;
        }
    }
    void translate(std::array<std::byte, wire::kMadBytes>& bytes) const {
        for (const std::size_t at : {kLocalId, kRemoteId}) {
            if (our_id_ != 0 && wire::load_be32(bytes.data() + at) == their_id_) {
                wire::store_be32(bytes.data() + at, our_id_);
            }
        }
        if (our_tid_ != 0 && wire::load_be64(bytes.data() + kTransaction) == their_tid_) {
            wire::store_be64(bytes.data() + kTransaction, our_tid_);
        }
    }
    SeenEvent event(EventType type) {
        EXPECT_FALSE(seen_.events.empty());
        if (seen_.events.empty()) {
            return {};
        }
        SeenEvent event = seen_.events.front();
        seen_.events.pop_front();
        EXPECT_EQ(event.type, type);
        return event;
    }
    /// Our numbers, as the message that we have just sent has them.
    void learn(Handle ours, Handle theirs, std::uint64_t their_tid) {
        our_id_ = ours;
        their_id_ = theirs;
        their_tid_ = their_tid;
        our_tid_ = wire::load_be64(seen_.mads.front().bytes.data() + kTransaction);
    }
    void nothing_left() const {
        EXPECT_TRUE(seen_.mads.empty());
        EXPECT_TRUE(seen_.events.empty());
    }

    std::vector<ReceivedMad> mads_;
    std::unique_ptr<Manager> manager_;
    Recorder seen_;
    TimeNs now_ = kSecond;
    Handle our_id_ = 0;
    Handle their_id_ = 0;
    std::uint64_t our_tid_ = 0;
    std::uint64_t their_tid_ = 0;
};

TEST_F(CaptureTest, RpingServer) {
    begin(mads_of("rping.pcap"), 0);
    ASSERT_EQ(mads_.size(), 5U);
    const auto theirs = message_of<msg::Rep>(mads_[1]);
    begin(mads_, theirs.local_ca_guid);
    ListenParams listen;
    listen.service_id = ip_service_id(0x0106, 7174);
    ASSERT_EQ(manager_->listen(listen).status, Status::kOk);
    peer(0);
    const SeenEvent asked = event(EventType::kRequest);
    ASSERT_TRUE(asked.ip.has_value());
    EXPECT_EQ(asked.ip->src_port, 59160);
    AcceptParams accept;
    accept.local_qpn = theirs.local_qpn;
    accept.starting_psn = theirs.starting_psn;
    accept.responder_resources = theirs.responder_resources;
    accept.initiator_depth = theirs.initiator_depth;
    ASSERT_EQ(manager_->accept(asked.handle, accept, now_, seen_), Status::kOk);
    our_id_ = asked.handle;
    their_id_ = theirs.local_comm_id;
    same(1);
    peer(2);
    event(EventType::kEstablished);
    peer(3);
    event(EventType::kDisconnectRequest);
    ASSERT_EQ(manager_->disconnect(asked.handle, {}, now_, seen_), Status::kOk);
    same(4);
    nothing_left();
}

TEST_F(CaptureTest, RpingClient) {
    begin(mads_of("rping.pcap"), 0);
    ASSERT_EQ(mads_.size(), 5U);
    const auto theirs = message_of<msg::Req>(mads_[0]);
    begin(mads_, theirs.local_ca_guid);
    ConnectParams connect;
    connect.route.local_gid = theirs.primary.local_gid;
    connect.route.remote_gid = theirs.primary.remote_gid;
    connect.route.flow_label = theirs.primary.flow_label;
    connect.service_id = ip_service_id(0x0106, 7174);
    connect.local_qpn = theirs.local_qpn;
    connect.starting_psn = theirs.starting_psn;
    connect.responder_resources = 1;
    connect.initiator_depth = 1;
    connect.ip = ip_header(theirs.private_data);
    const Manager::Opened opened = manager_->connect(connect, now_, seen_);
    ASSERT_EQ(opened.status, Status::kOk);
    learn(opened.handle, theirs.local_comm_id, tid_of(mads_[0]));
    same(0);
    peer(1);
    event(EventType::kReply);
    const ConnectionInfo info = *manager_->info(opened.handle);
    EXPECT_EQ(info.send_psn, 2053085U);     // the client's first packet in the capture
    EXPECT_EQ(info.receive_psn, 4263611U);  // the server's
    ASSERT_EQ(manager_->send_rtu(opened.handle, {}, now_, seen_), Status::kOk);
    same(2);
    ASSERT_EQ(manager_->disconnect(opened.handle, {}, now_, seen_), Status::kOk);
    same(3);
    peer(4);
    event(EventType::kDisconnected);
    nothing_left();
}

TEST_F(CaptureTest, UdaddyServer) {
    begin(mads_of("udaddy_sidr.pcap"), 0);
    ASSERT_EQ(mads_.size(), 2U);
    const auto theirs = message_of<msg::SidrRep>(mads_[1]);
    ListenParams listen;
    listen.service_id = ip_service_id(0x0111, 7174);
    listen.allow_sidr = true;
    ASSERT_EQ(manager_->listen(listen).status, Status::kOk);
    peer(0);
    const SeenEvent asked = event(EventType::kSidrRequest);
    EXPECT_EQ(asked.ip->src_port, 48608);
    SidrRepParams answer;
    answer.qpn = theirs.qpn;
    answer.qkey = theirs.qkey;
    ASSERT_EQ(manager_->send_sidr_rep(asked.handle, answer, now_, seen_), Status::kOk);
    same(1);
    nothing_left();
}

TEST_F(CaptureTest, UdaddyClient) {
    begin(mads_of("udaddy_sidr.pcap"), 0);
    ASSERT_EQ(mads_.size(), 2U);
    const auto theirs = message_of<msg::SidrReq>(mads_[0]);
    SidrReqParams resolve;
    resolve.route.local_gid = mads_[0].src_gid;
    resolve.route.remote_gid = mads_[0].dst_gid;
    resolve.service_id = ip_service_id(0x0111, 7174);
    resolve.ip = ip_header(theirs.private_data);
    const Manager::Opened opened = manager_->send_sidr_req(resolve, now_, seen_);
    ASSERT_EQ(opened.status, Status::kOk);
    learn(opened.handle, theirs.request_id, tid_of(mads_[0]));
    same(0);
    peer(1);
    const SeenEvent found = event(EventType::kSidrReply);
    EXPECT_EQ(std::get<msg::SidrRep>(*found.message).qpn, 0x20U);
    nothing_left();
}

}  // namespace
}  // namespace urnic::sim::cm
