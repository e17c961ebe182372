// Multicast on the in-process wire: each member gets its copy, on whatever worker and device it is, and every
// frame goes back to the pool.
#include "rnic/wire/multicast.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <cstring>

#include "dataplane/port/frame_pool.h"
#include "rnic/wire/frame.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

using rig::PageMemory;
using rig::Rig;
using rig::TestCq;
using rig::TestQp;

constexpr wire::Gid kGroup = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
constexpr std::uint32_t kQkey = 0x1234;
constexpr std::uint32_t kGrhBytes = 40;
constexpr std::uint32_t kWorkers = 3;

/// A member, or only a sender.
struct Node {
    Node(Rig& rig, rig::TestClient& client, std::uint32_t device, std::uint32_t qp_num,
         std::uint32_t qkey = kQkey)
        : memory(64 * 1024),
          key(rig.register_memory(device, memory)),
          cq(rig.num_workers(), 1024),
          qp(rig, client, device, qp_num, qp_num, cq, QpType::kUd) {
        EXPECT_EQ(qp.start_datagrams(qkey), 0);
    }
    void post_recv(std::uint64_t wr_id) {
        qp.post_recv(wr_id, {sge(memory, static_cast<std::uint32_t>(wr_id % 64) * 512, 512, key)});
    }
    PageMemory memory;
    std::uint32_t key;
    TestCq cq;
    TestQp qp;
};

class MulticastTest : public testing::Test {
  protected:
    MulticastTest() : rig_({.num_workers = kWorkers, .num_devices = 3}), client_(rig_.make_client()) {}
    ~MulticastTest() override {
        for (auto& [node, member] : members_) {
            rig_.worker(node->qp.worker()).call([&m = *member] { MulticastTable::unlink(m); });
        }
        members_.clear();
        for (std::uint32_t device = 0; device < 3; ++device) {
            publish(device, true);
        }
    }
    Node& add(std::uint32_t device, std::uint32_t qp_num, std::uint32_t qkey = kQkey) {
        nodes_.push_back(std::make_unique<Node>(rig_, *client_, device, qp_num, qkey));
        return *nodes_.back();
    }
    Node& join(Node& node) {
        const std::uint32_t device = node.qp.slot().device->index;
        if (groups_[device].empty()) {
            groups_[device].resize(kWorkers);
            for (std::uint32_t w = 0; w < kWorkers; ++w) {
                groups_[device][w].gid = kGroup;
                rig_.worker(w).call([&] { rig_.worker(w).multicast(device).add(groups_[device][w]); });
            }
        }
        workers_[device] |= 1U << node.qp.worker();
        members_.emplace_back(&node, std::make_unique<GroupMember>());
        GroupMember& member = *members_.back().second;
        member.slot = &node.qp.slot();
        member.group = &groups_[device][node.qp.worker()];
        rig_.worker(node.qp.worker()).call([&] { MulticastTable::link(member); });
        publish(device, false);
        const wire::Mac mac = wire::multicast_mac(kGroup);
        rig_.device(device).port->set_multicast({&mac, 1});
        return node;
    }
    void publish(std::uint32_t device, bool remove) {
        for (std::uint32_t w = 0; w < groups_[device].size(); ++w) {
            rig_.worker(w).call([&] {
                groups_[device][w].workers = workers_[device];
                if (remove) {
                    rig_.worker(w).multicast(device).remove(groups_[device][w]);
                }
            });
        }
    }
    std::uint32_t handle(std::uint32_t device) {
        wire::PathSpec spec;
        spec.src_mac = rig_.device(device).mac;
        spec.src_gid = rig_.device(device).gids[1];
        spec.dst_gid = kGroup;
        spec.dst_mac = wire::multicast_mac(kGroup);
        return rig_.device(device).handles.add({.pd = Rig::kPd, .path = wire::make_path(spec)});
    }
    void send(Node& from, std::uint64_t wr_id, std::uint32_t handle_key) {
        from.qp.post_send({.wr_id = wr_id,
                           .sge = {sge(from.memory, 60 * 1024, 100, from.key)},
                           .address_handle = handle_key,
                           .remote_qp_num = wire::kMulticastQp,
                           .remote_qkey = kQkey});
    }
    static void expect_copy(Node& node, std::uint64_t wr_id, std::uint8_t value) {
        const auto completion = node.cq.wait();
        ASSERT_TRUE(completion.has_value());
        EXPECT_EQ(completion->status, WcStatus::kSuccess);
        EXPECT_EQ(completion->opcode, WcOpcode::kRecv);
        EXPECT_EQ(completion->wr_id, wr_id);
        EXPECT_EQ(completion->byte_len, 100 + kGrhBytes);
        const std::byte* at = node.memory.data() + (wr_id % 64) * 512;
        EXPECT_EQ(std::memcmp(at + 36, &kGroup[12], 4), 0);  // the packet's own IP header
        EXPECT_EQ(at[kGrhBytes], std::byte{value});
        EXPECT_EQ(at[kGrhBytes + 99], std::byte{value});
    }
    void wait_until_all_frames_are_back() {
        // Empty caches of the workers do not count: what matters is that no frame is held for ever.
        rte_mempool* pool = rig::frame_pool();
        EXPECT_TRUE(rig::wait_for([&] {
            for (std::uint32_t w = 0; w < kWorkers; ++w) {
                rig_.worker(w).call([] {});
            }
            return rte_mempool_in_use_count(pool) <= kWorkers * 3 * 64;
        }));
    }

    Rig rig_;
    std::unique_ptr<rig::TestClient> client_;
    std::array<std::vector<GroupOnWorker>, 3> groups_;
    std::array<std::uint32_t, 3> workers_{};
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<std::pair<Node*, std::unique_ptr<GroupMember>>> members_;
};

TEST_F(MulticastTest, EachMemberOnEachWorkerAndDeviceGetsEachPacket) {
    std::vector<Node*> members;
    for (std::uint32_t device = 0; device < 3; ++device) {
        for (std::uint32_t i = 0; i < 4; ++i) {
            members.push_back(&join(add(device, 30 + i)));
        }
    }
    Node& sender = add(0, 100);
    Node& outsider = add(1, 101);
    outsider.post_recv(0);
    const std::uint32_t ah = handle(0);
    constexpr std::uint64_t kPackets = 100;
    for (std::uint64_t n = 0; n < kPackets; ++n) {
        std::memset(sender.memory.data() + 60 * 1024, static_cast<int>(n % 251), 100);
        for (Node* node : members) {
            node->post_recv(n);
        }
        send(sender, n, ah);
        const auto sent = sender.cq.wait();
        ASSERT_TRUE(sent.has_value());
        EXPECT_EQ(sent->status, WcStatus::kSuccess);
        for (Node* node : members) {
            expect_copy(*node, n, static_cast<std::uint8_t>(n % 251));
        }
    }
    EXPECT_FALSE(outsider.cq.poll().has_value());
    EXPECT_EQ(rig_.count(0, &Counters::drop_steering_full), 0U);
    wait_until_all_frames_are_back();
}

TEST_F(MulticastTest, FromSeveralSendersAtOnceNothingIsLost) {
    std::vector<Node*> members;
    for (std::uint32_t device = 0; device < 3; ++device) {
        for (std::uint32_t i = 0; i < kWorkers; ++i) {
            members.push_back(&join(add(device, 30 + i)));
        }
    }
    Node& a = add(0, 100);
    Node& b = add(1, 101);
    const std::uint32_t ah_a = handle(0);
    const std::uint32_t ah_b = handle(1);
    constexpr std::uint64_t kPackets = 100;  // two times that fit into no receive queue at once
    for (std::uint32_t round = 0; round < 3; ++round) {
        for (Node* node : members) {
            for (std::uint64_t n = 0; n < 120; ++n) {
                node->post_recv(n);
            }
        }
        for (std::uint64_t n = 0; n < kPackets / 2; ++n) {
            send(a, n, ah_a);
            send(b, n, ah_b);
        }
        for (Node* node : members) {
            for (std::uint64_t n = 0; n < kPackets; ++n) {
                const auto completion = node->cq.wait();
                ASSERT_TRUE(completion.has_value()) << "round " << round << " packet " << n;
                EXPECT_EQ(completion->status, WcStatus::kSuccess);
            }
        }
        // The rest of the receives, by one more burst.
        for (std::uint64_t n = 0; n < 20; ++n) {
            send(a, n, ah_a);
        }
        for (Node* node : members) {
            for (std::uint64_t n = 0; n < 20; ++n) {
                ASSERT_TRUE(node->cq.wait().has_value());
            }
        }
    }
    wait_until_all_frames_are_back();
}

TEST_F(MulticastTest, TheSenderGetsItsOwnUnlessItAskedNotTo) {
    Node& deaf = join(add(0, 30));
    Node& hears = join(add(0, 31));
    deaf.qp.slot().block_self_multicast_loopback = true;
    const std::uint32_t ah = handle(0);
    for (Node* node : {&deaf, &hears}) {
        node->post_recv(0);
        node->post_recv(1);
    }
    std::memset(deaf.memory.data() + 60 * 1024, 7, 100);
    std::memset(hears.memory.data() + 60 * 1024, 8, 100);
    send(deaf, 50, ah);
    expect_copy(hears, 0, 7);
    auto sent = deaf.cq.wait();
    ASSERT_TRUE(sent.has_value());
    EXPECT_FALSE(sent->is_recv);
    send(hears, 51, ah);
    expect_copy(deaf, 0, 8);  // the first that it received
    std::uint32_t receives = 0;
    for (int i = 0; i < 2; ++i) {
        sent = hears.cq.wait();
        ASSERT_TRUE(sent.has_value());
        receives += sent->is_recv ? 1 : 0;
    }
    EXPECT_EQ(receives, 1U);
    EXPECT_EQ(hears.memory.data()[512 + kGrhBytes], std::byte{8});
}

TEST_F(MulticastTest, KeysAreCheckedForEachMember) {
    Node& good = join(add(1, 30));
    Node& other_qkey = join(add(1, 31, kQkey + 1));
    Node& sender = add(0, 100);
    std::memset(sender.memory.data() + 60 * 1024, 9, 100);
    good.post_recv(0);
    other_qkey.post_recv(0);
    send(sender, 1, handle(0));
    expect_copy(good, 0, 9);
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::drop_qkey) == 1; }));
    EXPECT_FALSE(other_qkey.cq.poll().has_value());
}

/// Frames made by hand.
class MulticastFrame : public MulticastTest {
  protected:
    MulticastFrame() : member_(join(add(1, 30))) {
        member_.post_recv(0);
        spec_.src_mac = rig_.device(0).mac;
        spec_.dst_mac = wire::multicast_mac(kGroup);
        spec_.src_gid = rig_.device(0).gids[1];
        spec_.dst_gid = kGroup;
        header_.opcode = std::uint8_t{wire::kServiceUd} + std::uint8_t{wire::kSendOnly};
        header_.dest_qp = wire::kMulticastQp;
        header_.deth = {.qkey = kQkey, .src_qp = 77};
    }
    void inject(bool spoil = false) {
        rte_mbuf* frame = nullptr;
        ASSERT_TRUE(alloc_frames(rig::frame_pool(), {&frame, 1}));
        const std::span<std::byte> room = {rte_pktmbuf_mtod(frame, std::byte*), kFrameRoomBytes};
        const std::size_t length = wire::build_frame(wire::make_path(spec_), header_, {}, room);
        frame->data_len = static_cast<std::uint16_t>(length);
        frame->pkt_len = static_cast<std::uint32_t>(length);
        room[length - 1] ^= spoil ? std::byte{1} : std::byte{0};
        rig_.worker(0).call([&] { ASSERT_EQ(rig_.local_switch().port(0).tx_burst(0, &frame, 1), 1); });
        rig_.handoff().wakeup().wake(0);  // it is the receiver, too
    }
    void expect_dropped(Counter Counters::*counter) {
        EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, counter) == 1; }));
        EXPECT_FALSE(member_.cq.poll().has_value());
    }

    Node& member_;
    wire::PathSpec spec_;
    wire::PacketHeader header_;
};

TEST_F(MulticastFrame, GoodOnesArrive) {
    inject();
    const auto completion = member_.cq.wait();
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->byte_len, kGrhBytes);
}

TEST_F(MulticastFrame, AnotherGroupOfTheSameEthernetAddress) {
    spec_.dst_gid[13] ^= 0x80;
    inject();
    expect_dropped(&Counters::drop_not_for_us);
}

TEST_F(MulticastFrame, AnEthernetAddressThatIsNotTheGroups) {
    // Passes the port's filter, which is a hash, when the last byte alone differs often enough: so let all
    // in.
    std::vector<wire::Mac> all;
    for (std::uint32_t i = 0; i < 256; ++i) {
        all.push_back({1, 0, 0x5e, 1, 2, static_cast<std::uint8_t>(i)});
    }
    rig_.device(1).port->set_multicast(all);
    spec_.dst_mac[5] ^= 1;
    inject();
    expect_dropped(&Counters::drop_not_for_us);
}

TEST_F(MulticastFrame, AQpOfItsOwn) {
    header_.dest_qp = 30;
    inject();
    expect_dropped(&Counters::drop_unknown_qp);
}

TEST_F(MulticastFrame, Damaged) {
    inject(true);
    expect_dropped(&Counters::rx_icrc_encapsulated);
}

TEST_F(MulticastFrame, AnotherService) {
    header_.opcode = std::uint8_t{wire::kServiceUc} + std::uint8_t{wire::kSendOnly};
    inject();
    expect_dropped(&Counters::drop_opcode);
}

TEST_F(MulticastFrame, AnotherPartition) {
    header_.pkey = 0x7ffe;
    inject();
    expect_dropped(&Counters::drop_pkey);
}

TEST(MulticastAddress, OfIpv4AndIpv6) {
    EXPECT_EQ(wire::multicast_mac(kGroup), (wire::Mac{1, 0, 0x5e, 1, 2, 3}));
    wire::Gid high = kGroup;
    high[13] = 0xff;
    EXPECT_EQ(wire::multicast_mac(high), (wire::Mac{1, 0, 0x5e, 0x7f, 2, 3}));
    wire::Gid six{0xff, 2};
    six[12] = 0xaa;
    six[15] = 0xbb;
    EXPECT_TRUE(wire::is_multicast(six));
    EXPECT_EQ(wire::multicast_mac(six), (wire::Mac{0x33, 0x33, 0xaa, 0, 0, 0xbb}));
    EXPECT_FALSE(wire::is_multicast(wire::Gid{0xfe, 0x80}));
}

}  // namespace
}  // namespace urnic::dataplane
