// What differs between the QP types: operations, work requests of datagrams, address handles.
#include <arpa/inet.h>

#include <cerrno>

#include "tests/unit/verbs_provider/provider_fixture.h"

namespace urnic::test {
namespace {

class ProviderTypes : public Provider {
  protected:
    void open_type(enum ibv_qp_type type) {
        open();
        cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
        ASSERT_NE(cq, nullptr);
        struct ibv_qp_init_attr_ex attr {};
        attr.send_cq = attr.recv_cq = cq;
        attr.qp_type = type;
        attr.cap = {16, 4, 2, 2, 64};
        attr.pd = pd;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
        qp = ibv_create_qp_ex(context, &attr);
        ASSERT_NE(qp, nullptr) << std::strerror(errno);
        to_state(IBV_QPS_RTS);
    }
    SendWork fetched(std::uint32_t index) {
        SendWork work;
        EXPECT_EQ(daemon.qp().sq.fetch(index, work), Fetch::kOk);
        return work;
    }
};

TEST_F(ProviderTypes, AnAddressHandleIsAskedForWithAllItsAttributes) {
    open();
    struct ibv_ah_attr attr {};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.sl = 3;
    attr.dlid = 0x1234;
    attr.static_rate = 5;
    attr.src_path_bits = 6;
    attr.grh.flow_label = 0x12345;
    attr.grh.sgid_index = 2;
    attr.grh.hop_limit = 9;
    attr.grh.traffic_class = 0x28;
    for (std::size_t i = 0; i < 16; ++i) {
        attr.grh.dgid.raw[i] = static_cast<std::uint8_t>(i + 1);
    }
    struct ibv_ah* ah = ibv_create_ah(pd, &attr);
    ASSERT_NE(ah, nullptr);
    EXPECT_EQ(ah->pd, pd);
    EXPECT_EQ(ah->context, context);
    const abi::CreateAhRequest& asked = daemon.last_create_ah;
    EXPECT_EQ(asked.pd, pd->handle);
    EXPECT_EQ(std::memcmp(asked.av.dgid, attr.grh.dgid.raw, 16), 0);
    EXPECT_EQ(asked.av.flow_label, 0x12345U);
    EXPECT_EQ(asked.av.sgid_index, 2);
    EXPECT_EQ(asked.av.hop_limit, 9);
    EXPECT_EQ(asked.av.traffic_class, 0x28);
    EXPECT_EQ(asked.av.sl, 3);
    EXPECT_EQ(asked.av.is_global, 1);
    EXPECT_EQ(asked.av.port_num, 1);
    EXPECT_EQ(asked.av.static_rate, 5);
    EXPECT_EQ(asked.av.src_path_bits, 6);
    EXPECT_EQ(asked.av.dlid, 0x1234);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    daemon.next_error = ENETUNREACH;
    EXPECT_EQ(ibv_create_ah(pd, &attr), nullptr);
    EXPECT_EQ(errno, ENETUNREACH);
}

TEST_F(ProviderTypes, ADatagramNamesItsDestination) {
    open_type(IBV_QPT_UD);
    struct ibv_ah_attr attr {};
    struct ibv_ah* ah = ibv_create_ah(pd, &attr);
    ASSERT_NE(ah, nullptr);
    struct ibv_send_wr wr = send_request(1, &sge);
    EXPECT_EQ(post_one(qp, wr), EINVAL) << "no address handle";
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = 0x123456;
    wr.wr.ud.remote_qkey = 0x87654321;
    ASSERT_EQ(post_one(qp, wr), 0);
    struct ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
    ASSERT_NE(ex, nullptr);
    ibv_wr_start(ex);
    ex->wr_id = 2;
    ibv_wr_send_imm(ex, htonl(7));
    ibv_wr_set_sge(ex, 9, 0x1000, 64);
    ibv_wr_set_ud_addr(ex, ah, 0x654321, 0x11);
    ex->wr_id = 3;
    ibv_wr_send(ex);
    ASSERT_EQ(ibv_wr_complete(ex), 0);
    EXPECT_EQ(fetched(0).wr.ud.address_handle, 0xabcdU);
    EXPECT_EQ(fetched(0).wr.ud.remote_qp_num, 0x123456U);
    EXPECT_EQ(fetched(0).wr.ud.remote_qkey, 0x87654321U);
    EXPECT_EQ(fetched(1).wr.ud.address_handle, 0xabcdU);
    EXPECT_EQ(fetched(1).wr.ud.remote_qp_num, 0x654321U);
    EXPECT_EQ(fetched(1).wr.ud.remote_qkey, 0x11U);
    EXPECT_EQ(fetched(2).wr.ud.address_handle, 0U);
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, nullptr, 1, 1);
    EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(ProviderTypes, ADatagramsCompletionIsReadInFull) {
    open_type(IBV_QPT_UD);
    ASSERT_EQ(post_receive(qp, 5), 0);
    Completion done = completion(5, 0, true);
    done.src_qp = 0x77;
    done.link.sl = 6;
    done.byte_len = 44;
    done.wc_flags = kWcGrh;
    daemon.complete(done);
    struct ibv_wc wc {};
    ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
    EXPECT_EQ(wc.src_qp, 0x77U);
    EXPECT_EQ(wc.sl, 6);
    EXPECT_EQ(wc.byte_len, 44U);
    EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_GRH));
}

TEST_F(ProviderTypes, EachTypeRefusesWhatItDoesNotHave) {
    const struct {
        enum ibv_wr_opcode opcode;
        bool uc;
        bool ud;
    } rows[] = {{IBV_WR_SEND, true, true},
                {IBV_WR_SEND_WITH_IMM, true, true},
                {IBV_WR_RDMA_WRITE, true, false},
                {IBV_WR_RDMA_WRITE_WITH_IMM, true, false},
                {IBV_WR_RDMA_READ, false, false},
                {IBV_WR_ATOMIC_CMP_AND_SWP, false, false},
                {IBV_WR_ATOMIC_FETCH_AND_ADD, false, false},
                {IBV_WR_SEND_WITH_INV, false, false},
                {IBV_WR_LOCAL_INV, true, false},
                {IBV_WR_TSO, false, false}};
    for (const enum ibv_qp_type type : {IBV_QPT_UC, IBV_QPT_UD}) {
        open_type(type);
        struct ibv_ah_attr attr {};
        struct ibv_ah* ah = ibv_create_ah(pd, &attr);
        for (const auto& row : rows) {
            struct ibv_send_wr wr = send_request(1, &sge);
            wr.opcode = row.opcode;
            if (type == IBV_QPT_UD) {
                wr.wr.ud.ah = ah;
            }
            EXPECT_EQ(post_one(qp, wr), (type == IBV_QPT_UC ? row.uc : row.ud) ? 0 : EINVAL) << row.opcode;
        }
        EXPECT_EQ(ibv_destroy_ah(ah), 0);
        close_all();
    }
}

}  // namespace
}  // namespace urnic::test
