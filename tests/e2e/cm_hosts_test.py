"""Programs that find each other by TCP, or look for an interface with the RNIC's address, and then connect by librdmacm.

In a network namespace whose interfaces have the RNICs' addresses as well, under `urnic run --standalone`.
"""

import json
import os
import shlex
import sys

import cm_test
import harness
import netns

SERVER = cm_test.SERVER


def refused_by_rnr():
    out = harness.run([harness.URNIC, "status", "--json"], env=dict(os.environ)).out
    return sum(device["counters"]["retry_rnr_exceeded_err"] for device in json.loads(out)["devices"])


class Hosts(cm_test.CmCase):
    def pair(self, port, server, client, env=None):
        """The server listens on a TCP port."""
        environment = dict(os.environ, **(env or {}))
        serving = harness.start(shlex.split(server), env=environment)
        self.addCleanup(harness.end_group, serving)
        self.assertTrue(harness.wait_until(lambda: harness.listening(port, serving.pid)))
        client_result = harness.run(shlex.split(client), 60, env=environment)
        if client_result.returncode != 0:
            harness.end_group(serving)
        server_result = harness.finish(serving, 60)
        both = f"\n=== {server}\n{server_result}\n=== {client}\n{client_result}"
        self.assertEqual((client_result.returncode, server_result.returncode), (0, 0), both)

    def pingpong(self, provider, endpoint):
        command = f"fi_pingpong -p '{provider}' -e {endpoint} -d urnic0"
        self.pair(47592, command, f"{command} {SERVER}")

    def test_libfabric_msg(self):
        self.pingpong("verbs", "msg")

    def test_libfabric_rxm(self):
        self.pingpong("verbs;ofi_rxm", "rdm")

    def test_ucx(self):
        # ucx_perftest hands its addresses over by TCP and connects by UD; io_demo's endpoints are connected by rdma_cm.
        program = "io_demo -p 13555 -d 64:65536 -q"
        environment = {"UCX_SOCKADDR_TLS_PRIORITY": "rdmacm", "UCX_TLS": "rc", "UCX_NET_DEVICES": "urnic0:1,urnic1:1"}
        _, client = self.connect(program, f"{program} -i 50 -o read,write {SERVER}", server_ends=False, env=environment)
        self.assertIn("Client exit with status 'OK'", client.out + client.err)

    def fio(self, server, client):
        """fio asks for no RNR retries, and waits for ever once it has run into one. So there are receives for all messages;
        who is so slow that they are not posted after half a second, when fio's client begins, has another try."""
        common = "--ioengine=rdma --port=7654 --bs=64k"
        for _ in range(5):
            before = refused_by_rnr()
            try:
                self.connect_once(f"fio {common} --name=server --rw=read {server}",
                                  f"fio {common} --name=client --hostname={SERVER} --rw=write --iodepth=4 {client}", timeout=20)
                return
            except AssertionError:
                if refused_by_rnr() == before:
                    raise
        self.fail("receives were late five times")

    def test_fio(self):
        for verb in ("write", "read"):
            self.fio("--size=8m --iodepth=8", f"--size=8m --verb={verb}")

    def test_fio_send_verified(self):
        verified = "--size=1m --verify=crc32c"
        self.fio(f"{verified} --iodepth=32", f"{verified} --verb=send --do_verify=0 --verify_state_save=0")


if __name__ == "__main__":
    if "URNIC_RUN_DIR" not in os.environ or os.environ.get("URNIC_TEST_HOSTS") is None:
        netns.private()
        netns.ip("link", "add", "hosts0", "type", "veth", "peer", "name", "hosts1")
        for address in (SERVER, cm_test.CLIENT):
            netns.ip("addr", "add", f"{address}/32", "dev", "hosts0")
        netns.ip("link", "set", "hosts0", "up")
        netns.ip("link", "set", "hosts1", "up")
        os.environ["URNIC_TEST_HOSTS"] = "1"
        os.execv(harness.URNIC, [harness.URNIC, "run", "--standalone", "--", sys.executable, *sys.argv])
    harness.main()
