"""The programs, how each is run both ways, and where its figure stands in what it prints."""

import contextlib
import dataclasses
import functools
import os
import pathlib
import re
import shlex
import tempfile
import typing

import harness
import places
from places import SERVER, Failed

REJECTED_ATTEMPTS = 10
RSOCKETS = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"


@dataclasses.dataclass(frozen=True)
class Measure:
    what: str
    unit: str
    figure: typing.Callable[[bool], float]  # over the RNICs, or over TCP
    less_is_better: bool = False
    has_tcp: bool = True
    least_bytes: int = 1 << 20  # that go through the RNICs in one run


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    what: str
    measures: list


def number(pattern, text):
    found = re.findall(pattern, text, re.M)
    if not found:
        raise Failed(f"no figure ({pattern}) in: {text}")
    return float(found[-1])


def netpipe_lines(text, column):
    """NetPIPE's "0:  65536 bytes  245 times -->  4616.89 Mbps in  108.30 usec"."""
    return number(r"-->\s+([\d.]+) Mbps" if column == "Mbps" else r" in\s+([\d.]+) usec", text)


UCX_RDMA = {"UCX_TLS": "self,rc_verbs,ud_verbs:aux", "UCX_NET_DEVICES": "urnic0:1,urnic1:1"}
UCX_TCP = {"UCX_TLS": "self,tcp", "UCX_NET_DEVICES": "lo"}


def openmpi(size, column, rdma):
    names = [*UCX_RDMA, "LD_PRELOAD", "RDMAV_DRIVERS", "URNIC_RUN_DIR"]
    way = ["--mca", "pml", "ucx", "--mca", "btl", "self", "--mca", "coll", "^hcoll",
           *[word for name in names for word in ("-x", name)]] if rdma else [
               "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
    common = "--allow-run-as-root --oversubscribe --bind-to none -np 2 --mca oob_tcp_if_include lo --mca plm isolated"
    netpipe = f"NPopenmpi -l {size} -u {size} -p 0 -o /dev/null"
    return netpipe_lines(places.run(["mpirun.openmpi", *common.split(), *way, *netpipe.split()], rdma, UCX_RDMA), column)


def mpich(size, column, rdma):
    command = f"mpiexec.mpich -np 2 -launcher fork NPmpich2 -l {size} -u {size} -p 0 -o /dev/null"
    return netpipe_lines(places.run(command.split(), rdma, UCX_RDMA if rdma else UCX_TCP), column)


def rsocket_netpipe(size, column, rdma):
    preload = {"LD_PRELOAD": f"{os.environ.get('LD_PRELOAD', '')} {RSOCKETS}"} if rdma else {}
    port = harness.free_port()
    command = f"NPtcp -l {size} -u {size} -p 0 -P {port} -o /dev/null"
    return netpipe_lines(places.pair(command.split(), [*command.split(), "-h", SERVER], rdma, port, preload), column)


def fi_pingpong(size, column, rdma):
    port = harness.free_port()
    provider = "-p verbs -d urnic0" if rdma else "-p tcp"
    command = f"fi_pingpong {provider} -e msg -I 5000 -S {size}"
    out = places.pair(f"{command} -B {port}".split(), f"{command} -P {port} {SERVER}".split(), rdma, port, by_tcp=True)
    return number(r"^\S+\s+\S+\s+\S+\s+\S+\s+\S+\s+" + (r"([\d.]+)" if column == "MB/s" else r"\S+\s+([\d.]+)"), out)


def fio(verb, rdma):
    port = harness.free_port()
    # As a thread, whose socket is found; otherwise fio forks.
    engine = ["--ioengine=rdma"] if rdma else ["--thread", "--ioengine=net", "--protocol=tcp"]
    common = ["fio", *engine, "--bs=64k", "--size=512m", f"--port={port}"]
    # A short read of the engine net counts as a whole one: the client decides how much there is.
    server = [*common, "--name=server", "--rw=read", *(["--iodepth=32"] if rdma else ["--listen", "--size=8g"])]
    client = [*common, "--name=client", f"--hostname={SERVER}", "--rw=write", *(
        [f"--verb={verb}", "--iodepth=16"] if rdma else [])]
    out = places.pair(server, [*client, "--minimal"], rdma, port)
    fields = out.strip().splitlines()[-1].split(";")
    return float(fields[47]) / 1024  # terse version 3: KiB/s written


def rstream(size, rdma):
    port = harness.free_port()
    command = f"rstream -p {port} -S {size} -C 2000{'' if rdma else ' -T s'}"
    out = places.pair([*command.split(), "-b", SERVER], [*command.split(), "-s", SERVER], rdma, port)
    return number(r"([\d.]+)\s+[\d.]+\s*$", out)


def qperf(test, rdma):
    """Both speak TCP first; the tests of RDMA then connect by librdmacm.

    The server names the librdmacm port by TCP before it listens there. On a busy machine the client may be first; it is rejected then,
    and runs again."""
    name = f"rc_{test}" if rdma else f"tcp_{test}"
    for attempt in range(REJECTED_ATTEMPTS):
        port = harness.free_port()
        try:
            out = places.pair(["qperf", "-lp", str(port)],
                              ["qperf", "-lp", str(port), SERVER, *(["-cm1"] if rdma else []), "-t", "2", "-m",
                               "64K" if test == "bw" else "1", name], rdma, port, by_tcp=True)
            break
        except Failed as failure:
            if not rdma or "rejected" not in str(failure) or attempt == REJECTED_ATTEMPTS - 1:
                raise
    value, unit = re.findall(r"=\s+([\d.]+) (\S+)", out)[0]
    return float(value) * {"GB/sec": 1000, "MB/sec": 1, "KB/sec": 0.001, "ns": 0.001, "us": 1, "ms": 1000}[unit]


@contextlib.contextmanager
def tgtd(directory):
    """A target over iSER and one over TCP with the same file."""
    disk = pathlib.Path(directory) / "disk"
    with disk.open("wb") as file:
        file.truncate(256 << 20)
    number_of_control = str(os.getpid() % 30000)
    serving = harness.start(["tgtd", "-f", "-C", number_of_control, "--iscsi", f"portal={SERVER}:3261"], env=dict(os.environ))

    def admin(driver, *words):
        return harness.run(["tgtadm", "-C", number_of_control, "--lld", driver, *words], env=dict(os.environ))
    try:
        if not harness.wait_until(lambda: admin("iscsi", "--op", "show", "--mode", "target").returncode == 0, 30, 0.2):
            raise Failed(f"tgtd does not answer: {admin('iscsi', '--op', 'show', '--mode', 'target')}")
        for tid, driver in ((1, "iscsi"), (2, "iser")):
            for words in (f"--op new --mode target --tid {tid} -T iqn.urnic:{driver}",
                          f"--op new --mode logicalunit --tid {tid} --lun 1 -b {disk}",
                          f"--op bind --mode target --tid {tid} -I ALL",
                          # tgtd 1.0.85 does not know an iSER peer's address.
                          f"--op bind --mode target --tid {tid} -Q iqn.2010-11.libiscsi:iscsi-perf"):
                result = admin(driver, *shlex.split(words))
                if result.returncode != 0:
                    raise Failed(f"tgtadm {words}: {result}")
        yield
    finally:
        harness.end_group(serving)
        harness.finish(serving)


def iscsi_perf(blocks, requests, rdma):
    """IOPS of reads."""
    with tempfile.TemporaryDirectory(prefix="urnic-tgt-") as directory, tgtd(directory):
        url = f"iser://{SERVER}:3260/iqn.urnic:iser/1" if rdma else f"iscsi://{SERVER}:3261/iqn.urnic:iscsi/1"
        out = places.run(["iscsi-perf", "-t", "4", "-b", str(blocks), "-m", str(requests), url], rdma)
        return number(r"iops average (\d+)", out.replace("\r", "\n"))


def both(function, *arguments):
    return functools.partial(function, *arguments)


PROGRAMS = [
    Program("openmpi", "Open MPI over UCX: NetPIPE", [
        Measure("8 bytes, one way", "us", both(openmpi, 8, "usec"), less_is_better=True, least_bytes=1 << 14),
        Measure("1 MB", "Mbit/s", both(openmpi, 1 << 20, "Mbps"))]),
    Program("mpich", "MPICH over UCX: NetPIPE", [
        Measure("8 bytes, one way", "us", both(mpich, 8, "usec"), less_is_better=True, least_bytes=1 << 14),
        Measure("1 MB", "Mbit/s", both(mpich, 1 << 20, "Mbps"))]),
    Program("libfabric", "fi_pingpong, provider verbs", [
        Measure("64 bytes, one way", "us", both(fi_pingpong, 64, "us"), less_is_better=True, least_bytes=1 << 18),
        Measure("64 KB, to and fro", "MB/s", both(fi_pingpong, 65536, "MB/s"))]),
    Program("fio", "engine rdma, beside engine net", [
        Measure("verb=write, 64 KB, depth 16", "MiB/s", both(fio, "write")),
        Measure("verb=read, 64 KB, depth 16", "MiB/s", both(fio, "read"))]),
    Program("rstream", "rsockets", [Measure("64 KB, to and fro", "Gbit/s", both(rstream, 65536)),
                                    Measure("64 bytes, to and fro", "Gbit/s", both(rstream, 64), least_bytes=1 << 16)]),
    Program("librspreload", "NPtcp, its sockets made into rsockets", [
        Measure("8 bytes, one way", "us", both(rsocket_netpipe, 8, "usec"), less_is_better=True,
                least_bytes=1 << 14),
        Measure("1 MB", "Mbit/s", both(rsocket_netpipe, 1 << 20, "Mbps"))]),
    Program("qperf", "RC by librdmacm", [Measure("SENDs of 64 KB", "MB/s", both(qperf, "bw")),
                                         Measure("1 byte, one way", "us", both(qperf, "lat"), less_is_better=True)]),
    Program("iser", "tgtd and libiscsi's iscsi-perf", [
        Measure("reads of 64 KB, 16 under way", "IOPS", both(iscsi_perf, 128, 16)),
        Measure("reads of 4 KB, 1 under way", "IOPS", both(iscsi_perf, 8, 1))]),
]
