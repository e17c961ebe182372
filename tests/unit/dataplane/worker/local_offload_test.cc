// Packets within a worker that are no frames (docs/adr/0035): the same packets as frames would be, and memory
// of the sender that nobody reads once it is not the sender's request's any more.
#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <ostream>
#include <vector>

#include "dataplane/port/frame_pool.h"
#include "dataplane/wire/local_frame.h"
#include "dataplane/worker/mbuf_holder.h"
#include "rnic/fault/plan.h"
#include "rnic/wire/frame.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

using rig::Rig;
using rig::SendRequest;
using rig::TestCq;
using rig::TestQp;

constexpr std::uint32_t kPathMtu = 4096;
constexpr std::uint32_t kBytes = 64 * 1024;

/// What one packet says, whatever its form.
struct Seen {
    std::uint8_t opcode = 0;
    std::uint32_t dest_qp = 0;
    std::uint32_t psn = 0;
    bool ack_req = false;
    std::size_t bytes = 0;
    std::uint64_t digest = 0;
    bool operator==(const Seen&) const = default;
};
void PrintTo(const Seen& seen, std::ostream* os) {
    *os << wire::opcode_info(seen.opcode).name << " psn " << seen.psn << " to " << seen.dest_qp << ", "
        << seen.bytes << " bytes" << (seen.ack_req ? ", AckReq" : "");
}

Seen seen_of(const wire::PacketView& view) {
    std::uint64_t digest = 14695981039346656037ULL;
    for (const std::byte byte : view.payload) {
        digest = (digest ^ std::to_integer<std::uint64_t>(byte)) * 1099511628211ULL;
    }
    return {view.header.opcode,  view.header.dest_qp, view.header.psn.value(),
            view.header.ack_req, view.payload.size(), digest};
}

/// Writes down what goes into the switch, on the worker's thread.
class Recorder final : public Port {
  public:
    explicit Recorder(Port& below) : below_(below) {}
    std::uint16_t rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override {
        return below_.rx_burst(queue, frames, count);
    }
    std::uint16_t tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override {
        if (is_full) {
            return 0;
        }
        for (std::uint16_t i = 0; i < count; ++i) {
            wire::PacketView view;
            if (is_local(*frames[i])) {
                const wire::LocalPacket& packet = local_frame(*frames[i]).packet;
                ++local_frames;
                wire::view_first(packet, view);
                note(view);
                for (std::uint32_t index = 1; index < packet.packets; ++index) {
                    wire::view_next(packet, index, view);
                    note(view);
                }
            } else if (wire::parse_frame(frame_bytes(frames[i]), view) == wire::ParseError::kNone) {
                EXPECT_TRUE(wire::icrc_ok(view));
                ++wire_frames;
                note(view);
            }
        }
        const std::uint16_t taken = below_.tx_burst(queue, frames, count);
        EXPECT_EQ(taken, count) << "what is recorded is sent";
        return taken;
    }
    void set_multicast(std::span<const wire::Mac> groups) override { below_.set_multicast(groups); }
    [[nodiscard]] std::uint32_t local_waiting(std::uint32_t queue) override {
        return below_.local_waiting(queue);
    }
    [[nodiscard]] int wait_fd(std::uint32_t queue) const override { return below_.wait_fd(queue); }

    std::vector<Seen> packets;  // without acknowledgements, whose number depends on the bursts
    std::uint64_t local_frames = 0;
    std::uint64_t wire_frames = 0;
    bool is_full = false;

  private:
    void note(const wire::PacketView& view) {
        if ((wire::opcode_info(view.header.opcode).flags & wire::kIsAck) == 0) {
            packets.push_back(seen_of(view));
        }
    }
    Port& below_;
};

/// Memory that can be taken away.
class MappedMemory {
  public:
    MappedMemory()
        : data_(static_cast<std::byte*>(
              ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
    ~MappedMemory() { unmap(); }
    MappedMemory(const MappedMemory&) = delete;
    MappedMemory& operator=(const MappedMemory&) = delete;
    void unmap() {
        if (data_ != nullptr) {
            ::munmap(data_, kBytes);
        }
        data_ = nullptr;
    }
    [[nodiscard]] std::byte* data() const { return data_; }

  private:
    std::byte* data_;
};

std::byte pattern(std::uint32_t at) { return static_cast<std::byte>(at * 131 + (at >> 8U) * 7 + 1); }

/// A on device 0 and B on device 1, on one worker.
class LocalOffloadTest : public testing::Test {
  protected:
    explicit LocalOffloadTest(bool offload = true)
        : rig_({.offload = offload, .port = [this](std::uint32_t /*device*/, Port& port) {
                    recorders_.push_back(std::make_unique<Recorder>(port));
                    return recorders_.back().get();
                }}) {
        for (std::uint32_t i = 0; i < kBytes; ++i) {
            from_.data()[i] = pattern(i);
        }
        EXPECT_EQ(a_.connect(b_), 0);
        EXPECT_EQ(b_.connect(a_), 0);
    }
    [[nodiscard]] SendRequest write_of(std::uint32_t length_bytes, std::uint64_t wr_id = 1) const {
        SendRequest request;
        request.opcode = WrOpcode::kWrite;
        request.wr_id = wr_id;
        request.sge = {{reinterpret_cast<std::uint64_t>(from_.data()), length_bytes, from_key_}};
        request.remote_addr = reinterpret_cast<std::uint64_t>(to_.data());
        request.rkey = to_key_;
        return request;
    }
    /// Has it sent, and nothing received. Inside of a call.
    void send_alone(TestQp& qp, const SendRequest& request) {
        qp.post_send(request);
        rig_.worker(0).catch_up();
    }
    void expect(TestCq& cq, std::uint64_t wr_id, WcStatus status) {
        const std::optional<Completion> completion = cq.wait();
        ASSERT_TRUE(completion.has_value()) << "nothing came, but should have: " << wr_id;
        EXPECT_EQ(completion->wr_id, wr_id);
        EXPECT_EQ(completion->status, status);
    }
    [[nodiscard]] bool has_arrived(std::uint32_t bytes) const {
        for (std::uint32_t i = 0; i < bytes; ++i) {
            if (to_.data()[i] != pattern(i)) {
                return false;
            }
        }
        return true;
    }
    [[nodiscard]] std::uint64_t dropped() const { return rig_.count(1, &Counters::drop_local_payload); }
    void loop_boundary() {
        rig_.call(0, [] {});
    }

    std::vector<std::unique_ptr<Recorder>> recorders_;
    MappedMemory from_;
    MappedMemory to_;
    Rig rig_;
    TestCq cq_a_{1, 512};
    TestCq cq_b_{1, 512};
    std::unique_ptr<rig::TestClient> client_ = rig_.make_client();
    std::uint32_t from_key_ = rig_.register_memory(0, from_.data(), kBytes);
    std::uint32_t to_key_ = rig_.register_memory(1, to_.data(), kBytes);
    TestQp a_{rig_, *client_, 0, 31, 3, cq_a_};
    TestQp b_{rig_, *client_, 1, 32, 70, cq_b_};
};

/// The same messages of all kinds in one form.
class Conversation : public LocalOffloadTest {
  public:
    explicit Conversation(bool offload) : LocalOffloadTest(offload) { play(); }
    void TestBody() override {}
    void play() {
        const std::uint32_t sizes[] = {0, 1, 63, 64, 511, 512, 513, 4095, 4096, 4097, 12288, 30001, kBytes};
        for (const std::uint32_t size : sizes) {
            // One after the other: what is outstanding changes which packet asks for an acknowledgement.
            for (const WrOpcode opcode :
                 {WrOpcode::kWrite, WrOpcode::kSend, WrOpcode::kRead, WrOpcode::kFetchAdd}) {
                play(opcode, size);
            }
        }
    }
    void play(WrOpcode opcode, std::uint32_t size) {
        SendRequest request = write_of(size);
        request.opcode = opcode;
        if (opcode == WrOpcode::kSend) {
            b_.post_recv(9, {{reinterpret_cast<std::uint64_t>(to_.data()), kBytes, to_key_}});
        }
        if (opcode == WrOpcode::kFetchAdd) {
            request.sge[0].length = 8;
        }
        a_.post_send(request);
        expect(cq_a_, 1, WcStatus::kSuccess);
        if (opcode == WrOpcode::kSend) {
            expect(cq_b_, 9, WcStatus::kSuccess);
        }
        if (opcode == WrOpcode::kFetchAdd) {
            std::memcpy(from_.data(), to_.data(), 8);
        } else {
            EXPECT_EQ(std::memcmp(from_.data(), to_.data(), size), 0)
                << static_cast<int>(opcode) << ' ' << size;
        }
        for (std::uint32_t i = 0; i < kBytes; ++i) {
            from_.data()[i] = pattern(i + size);
        }
    }
    [[nodiscard]] const Recorder& sent_by(std::uint32_t device) const { return *recorders_[device]; }
    [[nodiscard]] std::uint64_t bytes(std::uint32_t device, Counter Counters::*counter) const {
        return rig_.count(device, counter);
    }
    void stop() { loop_boundary(); }
};

TEST(LocalOffload, DecidesWhatFramesWouldHaveSaid) {
    Conversation wire(false);
    Conversation local(true);
    wire.stop();
    local.stop();
    for (const std::uint32_t device : {0U, 1U}) {
        EXPECT_EQ(wire.sent_by(device).local_frames, 0U);
        EXPECT_EQ(local.sent_by(device).wire_frames, 0U);
        EXPECT_LT(local.sent_by(device).local_frames, wire.sent_by(device).wire_frames)
            << "some stand for several packets";
        EXPECT_EQ(wire.sent_by(device).packets, local.sent_by(device).packets);
        EXPECT_EQ(wire.bytes(device, &Counters::sent_pkts), local.bytes(device, &Counters::sent_pkts));
        EXPECT_EQ(wire.bytes(device, &Counters::sent_bytes), local.bytes(device, &Counters::sent_bytes));
        EXPECT_EQ(wire.bytes(device, &Counters::rcvd_pkts), local.bytes(device, &Counters::rcvd_pkts));
        EXPECT_EQ(wire.bytes(device, &Counters::rcvd_bytes), local.bytes(device, &Counters::rcvd_bytes));
        EXPECT_EQ(wire.bytes(device, &Counters::rcvd_local_pkts), 0U);
        EXPECT_EQ(local.bytes(device, &Counters::rcvd_local_pkts), local.bytes(device, &Counters::rcvd_pkts));
    }
}

TEST_F(LocalOffloadTest, OneStandsForARunOfPackets) {
    a_.post_send(write_of(kBytes));
    expect(cq_a_, 1, WcStatus::kSuccess);
    loop_boundary();
    EXPECT_TRUE(has_arrived(kBytes));
    EXPECT_EQ(recorders_[0]->packets.size(), kBytes / kPathMtu);
    EXPECT_EQ(recorders_[0]->local_frames, 2U) << "first and middle ones; the last";
}

// The receiver copies it, in a turn that is not the sender's.
TEST_F(LocalOffloadTest, TheCopyIsChargedToTheSender) {
    const std::unique_ptr<rig::TestClient> sender = rig_.make_client();
    TestQp from(rig_, *sender, 0, 33, 3, cq_a_);
    TestQp to(rig_, *client_, 1, 34, 71, cq_b_);
    ASSERT_EQ(from.connect(to), 0);
    ASSERT_EQ(to.connect(from), 0);
    // The sender has no further turn while no acknowledgement comes.
    const auto keep_answers = [&](bool keep) { rig_.call(0, [&] { recorders_[1]->is_full = keep; }); };
    const auto copied = [&](rig::TestClient& client) {
        std::int64_t ticks = 0;
        rig_.call(0, [&] { ticks = client.on_worker(0).share().copied; });
        return ticks;
    };
    keep_answers(true);
    from.post_send(write_of(kBytes));
    EXPECT_TRUE(rig::wait_for([&] { return copied(*sender) > 0; }));
    EXPECT_TRUE(has_arrived(kBytes));
    EXPECT_EQ(copied(*client_), 0);
    keep_answers(false);
    expect(cq_a_, 1, WcStatus::kSuccess);
    EXPECT_EQ(copied(*sender), 0) << "it had a turn, and nobody else waited";

    SendRequest read = write_of(kBytes, 2);
    read.opcode = WrOpcode::kRead;
    from.post_send(read);
    expect(cq_a_, 2, WcStatus::kSuccess);
    EXPECT_GT(copied(*client_), 0) << "of a READ the responder is the sender";
    EXPECT_EQ(copied(*sender), 0);
}

// A full port keeps packets of several QPs, and one of these goes.
TEST_F(LocalOffloadTest, AQpThatEndsTakesNoPacketsOfOthersAlong) {
    auto doomed = std::make_unique<TestQp>(rig_, *client_, 0, 33, 5, cq_a_);
    TestQp to(rig_, *client_, 1, 34, 71, cq_b_);
    ASSERT_EQ(doomed->connect(to), 0);
    ASSERT_EQ(to.connect(*doomed), 0);
    rig_.call(0, [&] {
        recorders_[0]->is_full = true;
        send_alone(*doomed, write_of(kBytes, 2));
        send_alone(a_, write_of(kBytes, 1));
    });
    doomed.reset();
    EXPECT_EQ(rig_.count(0, &Counters::drop_tx_full), kBytes / kPathMtu);
    rig_.call(0, [&] { recorders_[0]->is_full = false; });
    expect(cq_a_, 1, WcStatus::kSuccess);
    EXPECT_TRUE(has_arrived(kBytes));
    EXPECT_EQ(rig_.count(0, &Counters::retrans_pkts), 0U) << "nothing of it was lost";
}

TEST_F(LocalOffloadTest, ADeregisteredPayloadIsNotRead) {
    rig_.call(0, [&] {
        send_alone(a_, write_of(kBytes));
        ASSERT_TRUE(rig_.device(0).keys.remove(from_key_));
    });
    // As the control thread does: nobody has the key, and every worker has passed a loop boundary.
    loop_boundary();
    from_.unmap();
    EXPECT_TRUE(rig::wait_for([&] { return dropped() == kBytes / kPathMtu; }));
    for (std::uint32_t i = 0; i < kBytes; ++i) {
        ASSERT_EQ(to_.data()[i], std::byte{0});
    }
}

// With its completion in error, the application has its memory back: what is still on its way must not carry
// what it writes there then. B's bad request reaches A before A's packets reach B.
TEST_F(LocalOffloadTest, AnErrorTakesThePayloadBack) {
    rig_.call(0, [&] {
        SendRequest bad = write_of(8, 2);
        bad.sge = {{reinterpret_cast<std::uint64_t>(to_.data()), 8, to_key_}};
        bad.rkey = 0x7777'7700;
        b_.post_send(bad);
        send_alone(a_, write_of(kBytes));
    });
    expect(cq_a_, 1, WcStatus::kWrFlushErr);
    std::memset(from_.data(), 0xee, kBytes);
    EXPECT_TRUE(rig::wait_for([&] { return dropped() == kBytes / kPathMtu; }));
    expect(cq_b_, 2, WcStatus::kRemAccessErr);
    EXPECT_EQ(to_.data()[0], std::byte{0});
}

// What was posted before a QP stops arrives, as it was then.
TEST_F(LocalOffloadTest, WhatIsOnItsWayArrivesBeforeTheQpIsInError) {
    abi::QpAttr attr{};
    attr.mask = kQpAttrState;
    attr.state = QpState::kErr;
    rig_.call(0, [&] {
        send_alone(a_, write_of(kBytes));
        EXPECT_EQ(rig_.worker(0).modify_qp(a_.slot(), attr, {}), 0);
        std::memset(from_.data(), 0xee, kBytes);
    });
    loop_boundary();
    EXPECT_TRUE(has_arrived(kBytes));
    EXPECT_EQ(dropped(), 0U);
}

TEST_F(LocalOffloadTest, NothingOfAQpThatIsGoneIsOnItsWay) {
    QpTablePages room;
    rig_.call(0, [&] {
        send_alone(a_, write_of(kBytes));
        rig_.worker(0).remove_qp(a_.slot());
        EXPECT_EQ(recorders_[0]->local_waiting(0) + recorders_[1]->local_waiting(0), 0U);
        EXPECT_TRUE(has_arrived(kBytes));
        rig_.worker(0).add_qp(a_.slot(), room);
    });
}

// An early packet waits in a buffer of its own: whoever keeps it does not know how long.
TEST_F(LocalOffloadTest, WhatIsHeldIsACopy) {
    rte_mbuf* frame = nullptr;
    ASSERT_TRUE(alloc_frames(rig::frame_pool(), {&frame, 1}));
    std::vector<std::byte> source(kPathMtu, std::byte{0x11});
    frame->ol_flags |= kLocalFrameFlag;
    auto& local = *new (rte_pktmbuf_mtod(frame, void*)) LocalFrame{};
    local.packet.key = 1;
    MbufHolder holder;
    std::span<const std::byte> payload = source;
    void* const held = holder.retain(frame, payload);
    ASSERT_NE(held, nullptr);
    EXPECT_NE(payload.data(), source.data());
    std::fill(source.begin(), source.end(), std::byte{0x22});
    EXPECT_EQ(payload.size(), kPathMtu);
    EXPECT_TRUE(
        std::all_of(payload.begin(), payload.end(), [](std::byte byte) { return byte == std::byte{0x11}; }));
    holder.release(held);
    free_frames({&frame, 1});
}

TEST_F(LocalOffloadTest, APacketThatIsNotThereYetIsSentAgain) {
    for (std::uint64_t i = 0; i < 3; ++i) {
        SendRequest request = write_of(8 * 1024, i);
        request.opcode = WrOpcode::kSend;
        request.sge[0].addr += i * 8 * 1024;
        a_.post_send(request, i == 2);
    }
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::out_of_buffer) != 0; }));
    for (std::uint64_t i = 0; i < 3; ++i) {
        b_.post_recv(10 + i, {{reinterpret_cast<std::uint64_t>(to_.data()) + i * 8192, 8192, to_key_}});
    }
    for (std::uint64_t i = 0; i < 3; ++i) {
        expect(cq_b_, 10 + i, WcStatus::kSuccess);
        expect(cq_a_, i, WcStatus::kSuccess);
    }
    EXPECT_TRUE(has_arrived(3 * 8192));
}

TEST_F(LocalOffloadTest, WhoeverLooksSeesFrames) {
    rig_.call(0, [&] {
        send_alone(a_, write_of(kBytes));
        EXPECT_NE(recorders_[0]->local_waiting(0) + recorders_[1]->local_waiting(0), 0U);
        EXPECT_EQ(recorders_[0]->wire_frames, 0U);
        rig_.worker(0).begin_observation();
        EXPECT_EQ(recorders_[0]->local_waiting(0) + recorders_[1]->local_waiting(0), 0U);
        EXPECT_TRUE(has_arrived(kBytes));
        recorders_[0]->local_frames = 0;
    });
    EXPECT_TRUE(rig_.worker(0).is_observed());
    expect(cq_a_, 1, WcStatus::kSuccess);
    a_.post_send(write_of(kBytes));
    expect(cq_a_, 1, WcStatus::kSuccess);
    rig_.call(0, [&] {
        EXPECT_EQ(recorders_[0]->local_frames, 0U);
        EXPECT_EQ(recorders_[0]->wire_frames, kBytes / kPathMtu);
        rig_.worker(0).end_observation();
    });
    a_.post_send(write_of(kBytes));
    expect(cq_a_, 1, WcStatus::kSuccess);
    rig_.call(0, [&] {
        EXPECT_EQ(recorders_[0]->local_frames, 2U);
        EXPECT_EQ(recorders_[0]->wire_frames, kBytes / kPathMtu);
    });
}

TEST_F(LocalOffloadTest, APlanOfFaultsSeesFrames) {
    fault::Rule what;
    what.opcode = 0xff;  // no packet is hit
    auto rule = std::make_shared<fault::ActiveRule>(what, 1, 1);
    auto plan = std::make_shared<const fault::Plan>(std::vector<std::shared_ptr<fault::ActiveRule>>{rule});
    rig_.call(0, [&] { rig_.worker(0).swap_faults(1, plan); });
    EXPECT_TRUE(rig_.worker(0).is_observed());
    a_.post_send(write_of(kBytes));
    rig_.call(0, [&] {
        EXPECT_EQ(recorders_[0]->local_frames, 0U);
        plan = nullptr;
        rig_.worker(0).swap_faults(1, plan);
    });
    expect(cq_a_, 1, WcStatus::kSuccess);
    EXPECT_TRUE(rig::wait_for([&] { return !rig_.worker(0).is_observed(); }));
}

// From a buffer to itself, 100 bytes on: the receiver reads and writes the same memory.
TEST_F(LocalOffloadTest, SourceAndDestinationMayOverlap) {
    const std::uint32_t same_key = rig_.register_memory(1, from_.data(), kBytes);
    for (const std::uint32_t to : {100U, 0U}) {
        SendRequest request = write_of(kPathMtu);
        request.sge[0].addr += 100 - to;
        request.remote_addr = reinterpret_cast<std::uint64_t>(from_.data()) + to;
        request.rkey = same_key;
        std::vector<std::byte> sent(from_.data() + 100 - to, from_.data() + 100 - to + kPathMtu);
        a_.post_send(request);
        expect(cq_a_, 1, WcStatus::kSuccess);
        EXPECT_EQ(std::memcmp(from_.data() + to, sent.data(), kPathMtu), 0) << to;
    }
}

TEST_F(LocalOffloadTest, SeveralPiecesAreGathered) {
    SendRequest request = write_of(1000);
    request.sge.push_back({request.sge[0].addr + 1000, 5000, from_key_});
    request.sge.push_back({request.sge[0].addr + 6000, 1001, from_key_});
    a_.post_send(request);
    expect(cq_a_, 1, WcStatus::kSuccess);
    EXPECT_TRUE(has_arrived(7001));
}

}  // namespace
}  // namespace urnic::dataplane
