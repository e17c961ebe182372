// QPs that clients make, change and ask for.
#include <rdma/rdma_user_cm.h>

#include <cstring>
#include <set>
#include <vector>

#include "rnic/wire/frame.h"
#include "tests/unit/daemon/control_objects.h"

namespace urnic::daemon {
namespace {

using abi::Op;

TEST_F(Control, QpSizes) {
    const auto error_of = [&](auto change) {
        abi::CreateQpRequest request = qp_request(pd_, cq_);
        change(request);
        return client_.ask(Op::kCreateQp, request).error();
    };
    EXPECT_EQ(error_of([](auto& r) { r.max_send_wr = abi::kMaxQueueEntries + 1; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.max_recv_wr = ~0U; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.max_send_sge = abi::kMaxSge + 1; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.max_recv_sge = abi::kMaxSge + 1; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.max_inline = abi::kMaxInlineBytes + 1; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.type = static_cast<std::uint8_t>(QpType::kRawPacket); }), EOPNOTSUPP);
    EXPECT_EQ(error_of([](auto& r) { r.type = 0; }), EOPNOTSUPP);
    EXPECT_EQ(error_of([](auto& r) { r.srq = 1; }), ENOENT);
    EXPECT_EQ(error_of([](auto& r) { r.send_cq = 0; }), ENOENT);
    EXPECT_EQ(error_of([](auto& r) { r.recv_cq += 50; }), ENOENT);
    EXPECT_EQ(error_of([](auto& r) { r.pd = 0; }), ENOENT);
    EXPECT_EQ(error_of([](auto& r) { r.max_send_wr = r.max_recv_wr = 0; }), 0);
}

TEST_F(Control, TheLargestQpThatTheDeviceReportsIsMade) {
    abi::CreateQpRequest request = qp_request(pd_, cq_);
    request.max_send_wr = request.max_recv_wr = abi::kMaxQueueEntries;
    request.max_send_sge = request.max_recv_sge = abi::kMaxSge;
    request.max_inline = abi::kMaxInlineBytes;
    const Answer answer = client_.ask(Op::kCreateQp, request);
    ASSERT_EQ(answer.error(), 0);
    const auto reply = answer.as<abi::CreateQpReply>();
    EXPECT_EQ(reply.sq_entries, abi::kMaxQueueEntries);
    EXPECT_GE(reply.max_inline, abi::kMaxInlineBytes);
    EXPECT_EQ(reply.memory_bytes % 4096, 0U);
    void* rings = mmap(nullptr, reply.memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                       answer.fds.at(0).get(), static_cast<off_t>(reply.memory_offset));
    ASSERT_NE(rings, MAP_FAILED);
    static_cast<volatile char*>(rings)[reply.memory_bytes - 1] = 1;
    munmap(rings, reply.memory_bytes);
}

TEST_F(Control, QpNumbersAreSpreadAndNotReusedSoon) {
    std::set<std::uint32_t> numbers;
    for (int i = 0; i < 200; ++i) {
        const auto qp = client_.qp(pd_, cq_);
        EXPECT_TRUE(numbers.insert(qp.qp_num).second) << "a number came twice";
        EXPECT_EQ(qp.qp_num % kWorkers, qp.worker);
        EXPECT_EQ(client_.on_handle(Op::kDestroyQp, qp.handle), 0);
    }
    std::vector<int> on_worker(kWorkers);
    std::set<std::pair<std::uint32_t, std::uint32_t>> slots;
    for (int i = 0; i < 30; ++i) {
        const auto qp = client_.qp(pd_, cq_);
        ++on_worker[qp.worker];
        EXPECT_TRUE(slots.insert({qp.worker, qp.doorbell_slot}).second);
    }
    EXPECT_EQ(on_worker, std::vector<int>(kWorkers, 10));
}

TEST_F(Control, ModifyAndQuery) {
    const auto qp = client_.qp(pd_, cq_);
    EXPECT_EQ(client_.ask(Op::kModifyQp, rtr_request(qp.handle)).error(), 0);
    EXPECT_TRUE(dataplane::worker_record().last_path_is_ipv4);
    EXPECT_EQ(dataplane::worker_record().last_path_mac_end, 2) << "to the second device's MAC";
    abi::HandleRequest query{};
    query.handle = qp.handle;
    const auto attr = client_.ask(Op::kQueryQp, query).as<abi::QueryQpReply>().attr;
    EXPECT_EQ(attr.state, QpState::kRtr);
    EXPECT_EQ(attr.dest_qp_num, 0x123456U);
}

/// Changes that travel with ACCEPT: in their order, as far as the first that fails, and with no other
/// command.
TEST_F(Control, ChangesTravelWithAccept) {
    const auto qp = client_.qp(pd_, cq_);
    const auto state = [&] {
        abi::HandleRequest query{};
        query.handle = qp.handle;
        return client_.ask(Op::kQueryQp, query).as<abi::QueryQpReply>().attr.state;
    };
    abi::CmAcceptRequest request{};
    request.command.command = RDMA_USER_CM_CMD_ACCEPT;
    request.modifies[0] = {qp.handle, 0, rtr_request(qp.handle).attr};
    request.num_modifies = 1;
    request.command.command = RDMA_USER_CM_CMD_DESTROY_ID;
    EXPECT_EQ(client_.ask(Op::kCmAccept, request).error(), EINVAL);
    request.command.command = RDMA_USER_CM_CMD_ACCEPT;
    request.num_modifies = abi::CmAcceptRequest::kMaxModifies + 1;
    EXPECT_EQ(client_.ask(Op::kCmAccept, request).error(), EINVAL);
    EXPECT_NE(state(), QpState::kRtr) << "nothing was done";

    request.num_modifies = 3;
    request.modifies[1] = {qp.handle + 1000, 0, {}};
    request.modifies[2] = request.modifies[0];
    request.modifies[2].attr.state = QpState::kErr;
    EXPECT_EQ(client_.ask(Op::kCmAccept, request).error(), ENOENT) << "the QP of the second";
    EXPECT_EQ(state(), QpState::kRtr) << "after the first, before the third";
    request.num_modifies = 0;
    EXPECT_EQ(client_.ask(Op::kCmAccept, request).error(), EINVAL) << "the command's own: no channel";
}

/// Routers spread flows by the port: packets of one flow keep their order as long as it stays.
TEST_F(Control, ANewAddressVectorKeepsTheUdpSourcePort) {
    const auto qp = client_.qp(pd_, cq_);
    abi::ModifyQpRequest request = rtr_request(qp.handle);
    ASSERT_EQ(client_.ask(Op::kModifyQp, request).error(), 0);
    const std::uint16_t port = dataplane::worker_record().last_path_udp_port;
    EXPECT_EQ(port, wire::udp_source_port(0, qp.qp_num, 0x123456));
    request.attr.mask = kQpAttrState | kQpAttrAv;
    request.attr.state = QpState::kSqd;
    request.attr.dest_qp_num = 0;  // not in the mask: whatever the program left there
    request.attr.av.traffic_class = 32;
    ASSERT_EQ(client_.ask(Op::kModifyQp, request).error(), 0);
    EXPECT_EQ(dataplane::worker_record().last_path_udp_port, port);
    // A flow label that the program gives decides, as at first (IBA A17.5.2.2).
    request.attr.av.flow_label = 0x12345;
    ASSERT_EQ(client_.ask(Op::kModifyQp, request).error(), 0);
    EXPECT_EQ(dataplane::worker_record().last_path_udp_port, wire::udp_source_port(0x12345, 0, 0));
}

TEST_F(Control, ModifyIsChecked) {
    const auto qp = client_.qp(pd_, cq_);
    const auto error_of = [&](auto change) {
        abi::ModifyQpRequest request = rtr_request(qp.handle);
        change(request.attr);
        return client_.ask(Op::kModifyQp, request).error();
    };
    EXPECT_EQ(error_of([](auto& a) { a.state = static_cast<QpState>(77); }), EINVAL) << "the QP's own answer";
    EXPECT_EQ(error_of([](auto& a) { a.mask |= 1U << 31U; }), EINVAL);
    EXPECT_EQ(error_of([](auto& a) { a.path_mtu = 0; }), EINVAL);
    EXPECT_EQ(error_of([](auto& a) { a.path_mtu = 6; }), EINVAL);
    EXPECT_EQ(error_of([](auto& a) { a.av.is_global = 0; }), EINVAL);
    EXPECT_EQ(error_of([](auto& a) { a.av.sgid_index = 2; }), EINVAL) << "a free entry";
    EXPECT_EQ(error_of([](auto& a) { a.av.sgid_index = 16; }), EINVAL) << "behind the table";
    EXPECT_EQ(error_of([](auto& a) { a.av.sgid_index = 0; }), EINVAL) << "IPv6 to IPv4";
    EXPECT_EQ(error_of([](auto& a) { std::memset(a.av.dgid, 0, sizeof a.av.dgid); }), EINVAL);
    EXPECT_EQ(error_of([](auto& a) { a.av.dgid[15] = 99; }), ENETUNREACH);
    EXPECT_EQ(error_of([](auto& a) { a.av.port_num = 2; }), EINVAL);
    EXPECT_EQ(error_of([](auto& a) {
                  a.mask |= kQpAttrPort;
                  a.port_num = 2;
              }),
              EINVAL);
    EXPECT_EQ(error_of([](auto& a) {
                  a.mask |= kQpAttrPkeyIndex;
                  a.pkey_index = 1;
              }),
              EINVAL);
    EXPECT_EQ(error_of([](auto&) {}), 0);
}

}  // namespace
}  // namespace urnic::daemon
