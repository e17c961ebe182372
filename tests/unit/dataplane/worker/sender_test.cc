// Nobody but its peer speaks to a connected QP of the same daemon, whatever numbers he knows.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

using rig::PageMemory;
using rig::Rig;
using rig::SendRequest;
using rig::TestCq;
using rig::TestQp;

constexpr std::uint32_t kBytes = 64;

SendRequest send_of(const PageMemory& memory, std::uint32_t key) {
    SendRequest request;
    request.sge = {rig::sge(memory, 0, kBytes, key)};
    return request;
}

/// The stranger is a QP of the peer's device: it has the peer's addresses, and starts with the peer's PSN.
class SenderTest : public testing::TestWithParam<std::uint32_t> {
  protected:
    Rig rig_{{.num_workers = GetParam()}};
    TestCq cq_{GetParam(), 256};
    TestCq victim_cq_{GetParam(), 256};
    TestCq stranger_cq_{GetParam(), 256};
    std::unique_ptr<rig::TestClient> client_ = rig_.make_client();
    std::unique_ptr<rig::TestClient> stranger_client_ = rig_.make_client();
    PageMemory memory_{kBytes};
    PageMemory victim_memory_{kBytes};
    PageMemory stranger_memory_{kBytes};
    std::uint32_t key_ = rig_.register_memory(0, memory_);
    std::uint32_t victim_key_ = rig_.register_memory(1, victim_memory_);
    std::uint32_t stranger_key_ = rig_.register_memory(0, stranger_memory_);
    TestQp peer_{rig_, *client_, 0, 40, 3, cq_};
    TestQp victim_{rig_, *client_, 1, 41, 4, victim_cq_};
    TestQp stranger_{rig_, *stranger_client_, 0, 42, 3, stranger_cq_};

    SenderTest() {
        std::memset(memory_.data(), 'p', kBytes);
        std::memset(stranger_memory_.data(), 's', kBytes);
        EXPECT_EQ(peer_.connect(victim_), 0);
        EXPECT_EQ(victim_.connect(peer_), 0);
        EXPECT_EQ(stranger_.connect(victim_), 0);
    }
    void victim_receives(char from) {
        const auto received = victim_cq_.wait();
        ASSERT_TRUE(received.has_value());
        EXPECT_EQ(received->status, WcStatus::kSuccess);
        EXPECT_EQ(static_cast<char>(victim_memory_.data()[0]), from);
    }
    [[nodiscard]] std::uint64_t dropped() { return rig_.count(1, &Counters::drop_wrong_sender); }
};

TEST_P(SenderTest, AStrangersRequestIsNotThePeers) {
    victim_.post_recv(1, {rig::sge(victim_memory_, 0, kBytes, victim_key_)});
    stranger_.post_send(send_of(stranger_memory_, stranger_key_));
    EXPECT_TRUE(rig::wait_for([&] { return dropped() != 0; }));
    peer_.post_send(send_of(memory_, key_));
    victim_receives('p');
    EXPECT_EQ(cq_.wait()->status, WcStatus::kSuccess);
}

TEST_P(SenderTest, AfterResetThereIsANewPeer) {
    abi::QpAttr attr{};
    attr.mask = kQpAttrState;
    attr.state = QpState::kReset;
    ASSERT_EQ(victim_.modify(attr), 0);
    ASSERT_EQ(victim_.connect(stranger_), 0);
    victim_.post_recv(1, {rig::sge(victim_memory_, 0, kBytes, victim_key_)});
    stranger_.post_send(send_of(stranger_memory_, stranger_key_));
    victim_receives('s');
    EXPECT_EQ(dropped(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Workers, SenderTest, testing::Values(1U, 2U));

}  // namespace
}  // namespace urnic::dataplane
