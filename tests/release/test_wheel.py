"""Bytes over the RNICs of the wheel's fixture, by perftest and by pyverbs, with and without lost packets; run by wheel_in_chroot.sh."""

import os
import subprocess

import pytest

import urnic_faults

BYTES = 20000


def pingpong(rnics):
    """Both sides compare what they receive."""
    server = subprocess.Popen(["ibv_rc_pingpong", "-c", "-g", "1", "-n", "20", "-s", "9000", "-d", rnics[0]], stdout=subprocess.DEVNULL)
    while b":18515 " not in subprocess.check_output(["ss", "-ltn"]):
        assert server.poll() is None
    subprocess.run(["ibv_rc_pingpong", "-c", "-g", "1", "-n", "20", "-s", "9000", "-d", rnics[1], "127.0.0.1"], check=True)
    assert server.wait() == 0


def write_bw(rnics):
    server = subprocess.Popen(["ib_write_bw", "-F", "-n", "100", "-d", rnics[0]], stdout=subprocess.DEVNULL)
    while b":18515 " not in subprocess.check_output(["ss", "-ltn"]):
        assert server.poll() is None
    subprocess.run(["ib_write_bw", "-F", "-n", "100", "-d", rnics[1], "127.0.0.1"], check=True)
    assert server.wait() == 0


def test_two_rnics(rnics):
    assert rnics == ["urnic0", "urnic1"]
    listed = subprocess.check_output(["ibv_devinfo", "-l"], text=True)
    assert all(name in listed for name in rnics)


@pytest.mark.parametrize("move", [pingpong, write_bw])
def test_without_faults(rnics, move):
    move(rnics)
    assert not urnic_faults.faults()


def test_lost_packets_are_sent_again(rnics):
    lost = urnic_faults.drop(opcode="RC WRITE First", count=3)
    write_bw(rnics)
    assert lost.hits == 3


def test_spoilt_packets_are_sent_again(rnics):
    with urnic_faults.corrupt(offset="payload", opcode="RC SEND First", count=2) as spoilt, urnic_faults.delay(delay_us=50, count=5):
        pingpong(rnics)
        assert spoilt.hits == 2
    assert not urnic_faults.faults()


def test_faults_of_another_test_are_gone(rnics):  # pylint: disable=unused-argument
    assert not urnic_faults.faults()


def test_a_wrong_fault_says_what_is_wrong(rnics):  # pylint: disable=unused-argument
    with pytest.raises(urnic_faults.FaultError, match="probability"):
        urnic_faults.drop(probability=2)
    with pytest.raises(urnic_faults.FaultError, match="one of drop, corrupt"):
        urnic_faults.add("dorp")


@pytest.mark.parametrize("loss", [None, 0.05])
def test_pyverbs(rnics, loss):
    """RDMA writes in this process, which `urnic run` has started."""
    assert "URNIC_RUN_DIR" in os.environ
    # pylint: disable=import-outside-toplevel
    import pyverbs.enums as e
    from pyverbs.addr import AHAttr, GID, GlobalRoute
    from pyverbs.cq import CQ
    from pyverbs.device import Context
    from pyverbs.mr import MR
    from pyverbs.pd import PD
    from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
    from pyverbs.wr import SGE, SendWR
    lost = urnic_faults.drop(probability=loss, seed=1) if loss else None
    access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
    contexts = [Context(name=name) for name in rnics]
    pds = [PD(context) for context in contexts]
    cqs = [CQ(context, 10) for context in contexts]
    mrs = [MR(pd, BYTES, access) for pd in pds]
    qps = [QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=4, max_recv_wr=4), sq_sig_all=1))
           for pd, cq in zip(pds, cqs)]
    for qp, peer, context in zip(qps, reversed(qps), reversed(contexts)):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags, attr.path_mtu = access, e.IBV_MTU_1024
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 10, 7, 7
        attr.dest_qp_num = peer.qp_num
        attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=GID(str(context.query_gid(1, 1))), sgid_index=1))
        qp.to_rts(attr)
    for turn in range(20):
        text = bytes((i * 7 + turn) % 251 for i in range(BYTES))
        mrs[0].write(text, BYTES)
        request = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(mrs[0].buf, BYTES, mrs[0].lkey)])
        request.set_wr_rdma(mrs[1].rkey, mrs[1].buf)
        qps[0].post_send(request)
        done = []
        while not done:
            _, done = cqs[0].poll()
        assert done[0].status == e.IBV_WC_SUCCESS
        assert mrs[1].read(BYTES, 0) == text
    assert lost is None or lost.hits > 0
