"""How fast clients of NFS/RDMA are beside each other: nfs_client and the kernel's own, in the same guest, over its rxe, asking its nfsd.

Emulation is slow: the figures stand for what each client costs beside the other, not for what a machine does. No test passes or
fails by them. Writes the table in bench/RESULTS.md.
"""

import datetime
import re
import statistics

import harness
import network
import nfs_guest
from nfs_mounted import must

MOUNT_OPTIONS = (f"rdma,port={nfs_guest.NFS_PORT},mountproto=tcp,mountport={nfs_guest.MOUNT_PORT},"
                 f"mountaddr={network.PEER_IPV4},rsize=1048576,wsize=1048576")
ROUNDS = 3
RESULTS = harness.SOURCE / "bench/RESULTS.md"
BEGIN, END = "<!-- table beside Linux's NFS client: scripts/interop rpcrdma --renew writes it -->", "<!-- end of that table -->"
# Seconds that a command takes, as busybox can tell.
TIMED = "t() { read -r begin rest </proc/uptime; \"$@\"; read -r end rest </proc/uptime; echo seconds $begin $end; }\n"


def _seconds(said):
    begin, end = map(float, re.search(r"seconds (\S+) (\S+)", said).groups())
    return max(end - begin, 0.01)


def _ours(host, test):
    """MB/s of a test of nfs_client in the guest."""
    said = host.run(f"{nfs_guest.CLIENT} --server {network.PEER_IPV4} --port {nfs_guest.NFS_PORT} --mount-port {nfs_guest.MOUNT_PORT} "
                    f"--data /tmp/data --back /tmp/back --only {test}", 300)
    found = re.search(rf"^{test} passed .*?(\d+) MB/s", said, re.M)
    must(found, said)
    return float(found.group(1))


def _theirs(host, megabytes):
    """(MB/s written, read, the sum of what came back) of the kernel's client."""
    host.run(f"mount.nfs {network.PEER_IPV4}:{nfs_guest.EXPORT} {nfs_guest.MOUNTPOINT} -o vers=3,nolock,{MOUNT_OPTIONS}", 120)
    at = f"{nfs_guest.MOUNTPOINT}/data"
    written = _seconds(host.run(f"{TIMED} t dd if=/tmp/data of={at} bs=1M conv=fsync 2>/dev/null", 300))
    host.run("echo 3 >/proc/sys/vm/drop_caches")
    read = _seconds(host.run(f"{TIMED} t dd if={at} of=/dev/null bs=1M 2>/dev/null", 300))
    there = host.sum_of(at)
    host.run(f"umount {nfs_guest.MOUNTPOINT}", 120)
    return megabytes / written, megabytes / read, there


def measure(host, amount):
    """[(write, read) of ours and of theirs, of each round]; what was written and read is compared."""
    megabytes = amount.data_mb * 1.048576
    rounds = []
    for _ in range(ROUNDS):
        host.run(f"dd if=/dev/urandom of=/tmp/data bs=1M count={amount.data_mb} 2>/dev/null", 300)
        wanted = host.sum_of("/tmp/data")
        ours = _ours(host, "write"), _ours(host, "read")
        must(host.sum_of(f"{nfs_guest.EXPORT}/data") == wanted and host.sum_of("/tmp/back") == wanted, "ours: another sum")
        host.run(f"rm /tmp/back {nfs_guest.EXPORT}/data")
        *theirs, there = _theirs(host, megabytes)
        must(there == wanted, "Linux: another sum")
        host.run(f"rm /tmp/data {nfs_guest.EXPORT}/data")
        rounds.append((ours, tuple(theirs)))
    return rounds


def lines_of(rounds, megabytes):
    yield f"| {megabytes} MiB, MB/s | `nfs_client` | Linux | ratio |"
    yield "|---|---|---|---|"
    for way, name in enumerate(("written, with COMMIT", "read")):
        ours, theirs = [one[0][way] for one in rounds], [one[1][way] for one in rounds]
        cells = [f"{statistics.median(side):.0f} ({min(side):.0f} to {max(side):.0f})" for side in (ours, theirs)]
        ratio = statistics.median(mine / other for mine, other in zip(ours, theirs))
        yield f"| {name} | {cells[0]} | {cells[1]} | {ratio:.2f} |"
    yield ""
    yield f"Measured {datetime.date.today()}."


def write(rounds, megabytes):
    text = RESULTS.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    table = "\n".join(lines_of(rounds, megabytes))
    RESULTS.write_text(f"{head}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")
