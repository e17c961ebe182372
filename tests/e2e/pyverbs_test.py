"""pyverbs, unmodified: device, CQ with a channel, QPs, verified transfers. Under `urnic run --standalone`."""

from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context, get_device_list
import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import RecvWR, SendWR, SGE

import harness

ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
          | e.IBV_ACCESS_REMOTE_ATOMIC)
BYTES = 9000


class Side:
    def __init__(self, name):
        self.context = Context(name=name)
        self.pd = PD(self.context)
        self.channel = CompChannel(self.context)
        self.cq = CQ(self.context, 100, None, self.channel, 0)
        self.mr = MR(self.pd, BYTES, ACCESS)
        cap = QPCap(max_send_wr=16, max_recv_wr=16, max_send_sge=2, max_recv_sge=2)
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=1)
        self.qp = QP(self.pd, init)
        self.gid = self.context.query_gid(1, 1)

    def connect(self, peer):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        attr.path_mtu = e.IBV_MTU_2048
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        attr.rq_psn, attr.sq_psn = 0x111, 0x111
        attr.dest_qp_num = peer.qp.qp_num
        route = GlobalRoute(dgid=GID(str(peer.gid)), sgid_index=1)
        attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
        self.qp.to_rts(attr)

    def sge(self, length=BYTES):
        return SGE(self.mr.buf, length, self.mr.lkey)

    def wait(self, count=1):
        """Completions by way of the channel: arm, look, sleep."""
        found = []
        while len(found) < count:
            self.cq.req_notify()
            polled, completions = self.cq.poll(count - len(found))
            if polled == 0:
                self.channel.get_cq_event(self.cq)
                self.cq.ack_events(1)
            found += completions
        return found


class Pyverbs(harness.TestCase):
    def setUp(self):
        self.a, self.b = Side("urnic0"), Side("urnic1")
        self.a.connect(self.b)
        self.b.connect(self.a)

    def test_devices(self):
        names = sorted(device.name.decode() for device in get_device_list())
        self.assertEqual(names, ["urnic0", "urnic1"])
        device = self.a.context.query_device()
        self.assertGreaterEqual(device.max_qp, 4096)
        self.assertEqual(self.a.context.query_port(1).state, e.IBV_PORT_ACTIVE)
        self.assertTrue(str(self.a.gid).endswith("ffff:c612:0001"), str(self.a.gid))
        # query_gid_table and query_gid_ex first ask the kernel by ioctl.
        self.assertEqual(len([entry for entry in self.a.context.query_gid_table(16)]), 2)
        self.assertEqual(self.a.context.query_gid_ex(1, 1).gid_type, e.IBV_GID_TYPE_ROCE_V2)

    def test_send_through_the_channel(self):
        text = bytes(i * 11 % 251 for i in range(BYTES))
        for _ in range(20):
            self.b.mr.write(b"\0" * BYTES, BYTES)
            self.b.qp.post_recv(RecvWR(wr_id=5, sg=[self.b.sge()], num_sge=1))
            self.a.mr.write(text, BYTES)
            self.a.qp.post_send(SendWR(wr_id=6, sg=[self.a.sge()], num_sge=1, opcode=e.IBV_WR_SEND))
            sent, received = self.a.wait()[0], self.b.wait()[0]
            self.assertEqual((sent.status, sent.wr_id), (e.IBV_WC_SUCCESS, 6))
            self.assertEqual((received.status, received.wr_id, received.byte_len), (e.IBV_WC_SUCCESS, 5, BYTES))
            self.assertEqual(self.b.mr.read(BYTES, 0), text)
            text = text[1:] + text[:1]

    def test_write_read_and_atomics(self):
        self.a.mr.write(b"from a" * 1500, BYTES)
        write = SendWR(wr_id=1, sg=[self.a.sge()], num_sge=1, opcode=e.IBV_WR_RDMA_WRITE)
        write.set_wr_rdma(self.b.mr.rkey, self.b.mr.buf)
        self.a.qp.post_send(write)
        self.assertEqual(self.a.wait()[0].status, e.IBV_WC_SUCCESS)
        self.assertEqual(self.b.mr.read(BYTES, 0), b"from a" * 1500)
        self.b.mr.write(b"from b" * 1500, BYTES)
        read = SendWR(wr_id=2, sg=[self.a.sge()], num_sge=1, opcode=e.IBV_WR_RDMA_READ)
        read.set_wr_rdma(self.b.mr.rkey, self.b.mr.buf)
        self.a.qp.post_send(read)
        self.assertEqual(self.a.wait()[0].status, e.IBV_WC_SUCCESS)
        self.assertEqual(self.a.mr.read(BYTES, 0), b"from b" * 1500)
        self.b.mr.write((7).to_bytes(8, "little"), 8)
        add = SendWR(wr_id=3, sg=[self.a.sge(8)], num_sge=1, opcode=e.IBV_WR_ATOMIC_FETCH_AND_ADD)
        add.set_wr_atomic(self.b.mr.rkey, self.b.mr.buf, 5)
        self.a.qp.post_send(add)
        self.assertEqual(self.a.wait()[0].status, e.IBV_WC_SUCCESS)
        self.assertEqual(int.from_bytes(self.a.mr.read(8, 0), "little"), 7)
        self.assertEqual(int.from_bytes(self.b.mr.read(8, 0), "little"), 12)

    def test_a_wrong_key_is_an_error_completion(self):
        write = SendWR(wr_id=1, sg=[self.a.sge()], num_sge=1, opcode=e.IBV_WR_RDMA_WRITE)
        write.set_wr_rdma(self.b.mr.rkey ^ 0x55, self.b.mr.buf)
        self.a.qp.post_send(write)
        self.assertEqual(self.a.wait()[0].status, e.IBV_WC_REM_ACCESS_ERR)


if __name__ == "__main__":
    harness.main()
