"""qperf's 24 RDMA tests between urnic0 and urnic1."""

import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import verdict
import harness

TESTS = [*(f"{transport}_{what}" for transport in ("rc", "uc", "ud", "xrc") for what in ("bi_bw", "bw", "lat")),
         "rc_rdma_read_bw", "rc_rdma_read_lat", "rc_rdma_write_bw", "rc_rdma_write_lat", "rc_rdma_write_poll_lat",
         "uc_rdma_write_bw", "uc_rdma_write_lat", "uc_rdma_write_poll_lat",
         "rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add"]


def environment(shim, peer):
    preload = " ".join(filter(None, [str(shim), os.environ.get("LD_PRELOAD")]))
    return dict(os.environ, LD_PRELOAD=preload, QPERF_PEER_GID=f"::ffff:{peer}")


def start_server(shim):
    for _ in range(4):
        port = harness.free_port()
        server = harness.start(["qperf", "-lp", str(port)], env=environment(shim, "198.18.0.2"))
        harness.wait_until(lambda: harness.listening(port, server.pid) or server.poll() is not None, 30)
        if server.poll() is None:
            return server, port
    raise SystemExit(f"the server does not listen: {harness.finish(server)}")


def measure(shim, port, test):
    result = harness.run(["qperf", "127.0.0.1", "-lp", str(port), "-li", "urnic1", "-ri", "urnic0", "-t", "1",
                          "-to", "20", test], timeout=60, env=environment(shim, "198.18.0.1"))
    if result.returncode != 0 or not re.search(r"(bw|latency|msg_rate|_swap|_add).*=.*[1-9]", result.out):
        if not (test.startswith("ver_") and result.returncode == 0 and not result.err):
            raise verdict.Refused(str(result))


def main():
    suite = verdict.Verdict("qperf", __doc__)
    with tempfile.TemporaryDirectory(prefix="urnic-qperf-") as directory:
        shim = pathlib.Path(directory, "grh.so")
        subprocess.run(["cc", "-O", "-shared", "-fPIC", "-o", shim, verdict.HERE / "qperf_grh.c", "-ldl"], check=True)
        server, port = start_server(shim)
        try:
            for test in TESTS:
                suite.run(test, functools.partial(measure, shim, port, test))
        finally:
            harness.end_group(server)
    suite.end()


if __name__ == "__main__":
    sys.exit(main())
