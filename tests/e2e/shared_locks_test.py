"""Watches that no worker and no control thread makes a system call that can take a sleeping lock of what a client has.

The daemon runs under strace, which names the object behind each descriptor. Every object whose descriptor goes to a client or comes from
one is shared; on a shared object these threads may send, watch, map, seal and close, and nothing else (docs/adr/0025).
"""

import os
import re
import signal
import unittest

import harness
import with_daemon

ATTACK = harness.BUILD / "tests/e2e/attack"
VERBS_CHECK = harness.BUILD / "tests/e2e/verbs_check"
CM_CHECK = harness.BUILD / "tests/e2e/cm_check"
# What a program shares with the daemon in each way that there is: queues, channels, memory, SRQs, XRC domains, memory of the device,
# windows, contexts that another process imports. No case is of speed, or of memory that the kernel copies.
CHECKS = ("*Channel*:CompletionQueues.*:Memory.AddressesThatAreNotThere:Memory.OverlappingRegionsAndSmallOnesInOnePage:Memory.AChild*:"
          "MemoryCalls.*:Srq.*:Xrc*.*:DeviceMemory.*:Windows.Type*:Regions.*:Imports.*:Queue.*-*AHypervisorReceivesItsGuestLate")
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")

# Calls on a descriptor that take a lock of its object which others can hold while a page is missing.
LOCKING = {"read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev", "pwritev2", "recvfrom", "recvmsg",
           "recvmmsg", "fallocate", "ftruncate", "lseek", "splice", "tee", "vmsplice", "sendfile", "copy_file_range", "fsync", "fdatasync"}
# Calls that touch another process's memory.
FOREIGN = {"process_vm_readv", "process_vm_writev"}
PASSING = ("sendmsg", "recvmsg")
# Their locks are spinlocks, and all of a kind have one name.
SPINNING = re.compile(r"anon_inode:")
MEMORY_OF_PROCESS = re.compile(r"/proc/\d+/mem$")

MAKING = re.compile(r"memfd_create.*\) += (\d+)<")

LINE = re.compile(r"^(?P<tid>\d+) +(?:<\.\.\. )?(?P<call>\w+)(?P<rest>.*)$")
DESCRIPTOR = r"(\d+)<([^>]*(?:->[^>]*)?)>"
FIRST_FD = re.compile(r"^\(" + DESCRIPTOR)
PASSED = re.compile(r"cmsg_data=\[(.*?)\]\}")


def passed_descriptors(line):
    """(number, object) of each that the message carries."""
    if not any(call in line for call in PASSING):
        return []
    return [descriptor for passed in PASSED.finditer(line) for descriptor in re.findall(DESCRIPTOR, passed[1])]


def shared_objects(lines):
    return {name for line in lines for _, name in passed_descriptors(line) if not SPINNING.match(name)}


def breaches(lines, shared, threads):
    """The calls of these threads on those objects. Memory files have names for all of a kind: one that was made and not yet given
    away is known by its descriptor."""
    own = set()
    for line in lines:
        if made := MAKING.search(line):
            own.add(made[1])
        own -= {number for number, _ in passed_descriptors(line)}
        match = LINE.match(line)
        if match is None or int(match["tid"]) not in threads:
            continue
        on = FIRST_FD.match(match["rest"])
        number, name = on.groups() if on is not None else ("", "")
        is_shared = name in shared and number not in own
        if match["call"] in FOREIGN or (match["call"] in LOCKING and (is_shared or MEMORY_OF_PROCESS.search(name))):
            yield f"{threads[int(match['tid'])]}: {line.strip()}"


@unittest.skipIf(os.geteuid() != 0, "a second user needs root")
class SharedLocks(with_daemon.WithDaemon):
    def start_daemon(self):
        super().start_daemon()
        self.log = self.dir / "strace.log"
        calls = ",".join(sorted(LOCKING | FOREIGN | {*PASSING, "memfd_create"}))
        self.strace = harness.start(["strace", "-f", "-y", "-s", "64", "-e", f"trace={calls}", "-e", "signal=none", "-o", self.log,
                                     "-p", str(self.daemon.pid)])
        self.addCleanup(self.stop_strace)
        # It has attached to all threads when each is traced.
        self.assertTrue(harness.wait_until(lambda: all("TracerPid:\t0\n" not in status for status in self.thread_files("status").values())),
                        "strace does not trace the daemon")

    def thread_files(self, name):
        return harness.thread_files(self.daemon.pid, name)

    def stop_strace(self):
        if self.strace.poll() is None:
            self.strace.send_signal(signal.SIGINT)
        harness.finish(self.strace, 30)

    def guarded_threads(self):
        """Workers and the control thread, by number."""
        names = {tid: comm.strip() for tid, comm in self.thread_files("comm").items()}
        guarded = {tid: name for tid, name in names.items() if tid == self.daemon.pid or name.startswith("urnic-worker")}
        self.assertGreater(len(guarded), 1)
        return guarded

    def sent(self):
        return sum(device["counters"]["sent_pkts"] for device in self.status()["devices"])

    def kill_client(self, launcher):
        """It ends with a connection in use."""
        port = str(harness.free_port())
        words = [*NOBODY, *launcher, "ib_write_bw", "-F", "-p", port, "--run_infinitely", "-d"]
        server = harness.start([*words, "urnic0"])
        self.addCleanup(harness.finish, server)
        self.addCleanup(harness.end_group, server)
        self.assertTrue(harness.wait_until(lambda: harness.listening(int(port), server.pid) or server.poll() is not None))
        client = harness.start([*words, "urnic1", "127.0.0.1"])
        self.addCleanup(harness.finish, client)
        self.addCleanup(harness.end_group, client)
        before = self.sent()
        self.assertTrue(harness.wait_until(lambda: client.poll() is not None or self.sent() > before + 1000, pause=0.1), "no transfer runs")
        self.assertIsNone(client.poll(), "it ended")
        os.killpg(client.pid, signal.SIGKILL)
        os.killpg(server.pid, signal.SIGKILL)
        self.assertTrue(harness.wait_until(lambda: not self.status()["clients"]), "clients are left")

    def run_clients(self):
        launcher = [harness.URNIC, "run", "--socket", self.socket, "--"]
        watching = f"while {harness.URNIC} status --socket {self.socket} >/dev/null; do sleep 0.2; done"
        watcher = harness.start([*NOBODY, "sh", "-c", watching])
        self.addCleanup(harness.end_group, watcher)
        # `attack` gives its rights up by itself.
        self.run_ok([*launcher, ATTACK, "neighbour"])
        for program in ([VERBS_CHECK, f"--gtest_filter={CHECKS}"], [CM_CHECK]):
            self.run_ok([*NOBODY, *launcher, *program], timeout=300)
        self.kill_client(launcher)
        if watcher.poll() is not None:
            self.fail(f"a status was refused: {watcher.stderr.read()}")
        harness.end_group(watcher)
        harness.finish(watcher)

    def test_workers_and_the_control_thread(self):
        threads = self.guarded_threads()
        self.run_clients()
        self.stop_strace()
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        shared = shared_objects(lines)
        for kind in ("memfd:urnic-rings", "memfd:urnic-doorbells", "memfd:urnic-memory", "memfd:urnic-dm", "memfd:urnic-context",
                     "memfd:urnic-status", "socket:["):
            self.assertTrue(any(kind in name for name in shared), f"no {kind} went from one to the other: {sorted(shared)}")
        self.assertEqual(list(breaches(lines, shared, threads)), [])


if __name__ == "__main__":
    harness.main()
