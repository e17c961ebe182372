"""Open MPI over UCX on our devices: a ring of four ranks that checks all its data, and NetPIPE."""

import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import verdict
import counters
import harness

TRANSPORTS = {"rc": "rc_verbs,ud_verbs:aux", "ud": "ud_verbs"}


def mpirun(transport, ranks, program, timeout):
    """Runs a program on so many ranks that can talk through our devices alone; returns its output."""
    # Every rank on this host, more of them than cores; nothing but UCX between ranks, and no shared memory in it.
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(ranks),
               "--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "self", "--mca", "coll", "^hcoll",
               "--mca", "oob_tcp_if_include", "lo", "--mca", "plm", "isolated",
               "-x", f"UCX_TLS=self,{TRANSPORTS[transport]}", "-x", "UCX_NET_DEVICES=urnic0:1,urnic1:1",
               # On a busy machine a rank may wait long for a processor, and a peer that it does not answer for UCX's 30 s would be given up.
               "--mca", "mpi_yield_when_idle", "1", "-x", "UCX_UD_TIMEOUT=10m",
               "-x", "LD_PRELOAD", "-x", "RDMAV_DRIVERS", "-x", "URNIC_RUN_DIR", *program]
    before = counters.sent_bytes()
    result = harness.run(command, timeout, env=dict(os.environ, OMPI_MCA_rmaps_base_oversubscribe="1"))
    if result.returncode != 0:
        raise verdict.Refused(str(result))
    return result, counters.sent_bytes() - before


def ring(program, transport, arguments):
    result, sent = mpirun(transport, 4, [program, *arguments], 300)
    # What the ring sends between ranks, all sizes together.
    if "ring of 4 ranks: all data right" not in result.out or sent < 100 << 20:
        raise verdict.Refused(f"{sent} bytes went through our devices: {result}")


def netpipe(directory, transport, largest):
    result, sent = mpirun(transport, 2, ["NPopenmpi", "-i", "-n", "3", "-u", str(largest), "-o", str(directory / "np.out")], 300)
    sizes = re.findall(r"^\s*\d+:\s+(\d+) bytes", result.out + result.err, re.M)
    if not sizes or sent < 2 * largest:
        raise verdict.Refused(f"{sent} bytes went through our devices: {result}")


def main():
    suite = verdict.Verdict("mpi", __doc__)
    with tempfile.TemporaryDirectory(prefix="urnic-mpi-") as name:
        directory = pathlib.Path(name)
        subprocess.run(["mpicc", "-O2", "-o", directory / "ring", verdict.HERE / "ring.c"], check=True)
        for transport in TRANSPORTS:
            suite.run(f"ring over {transport}", functools.partial(ring, directory / "ring", transport, []))
            suite.run(f"ring with windows over {transport}",
                      functools.partial(ring, directory / "ring", transport, ["windows"]))
            suite.run(f"NetPIPE over {transport}",
                      functools.partial(netpipe, directory, transport, 1 << 20 if suite.short else 16 << 20))
    suite.end()


if __name__ == "__main__":
    sys.exit(main())
