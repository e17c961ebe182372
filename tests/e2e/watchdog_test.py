"""What the service manager hears from the daemon: READY=1, WATCHDOG=1 while every worker makes its rounds, STOPPING=1."""

import ctypes
import errno
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

import harness
import with_daemon

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000
WATCHDOG_S = 1.0


class ServiceManager:
    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(harness.PATIENCE_S)

    def next(self):
        return self.socket.recv(1000).decode()

    def waiting(self):
        """All that has come, without waiting."""
        said = []
        self.socket.setblocking(False)
        try:
            while True:
                said.append(self.socket.recv(1000).decode())
        except BlockingIOError:
            return said
        finally:
            self.socket.settimeout(harness.PATIENCE_S)


class Stopped:
    """One thread of the daemon does not run meanwhile, as one that is stuck."""

    def __init__(self, tid):
        self.tid, self.libc = tid, ctypes.CDLL(None, use_errno=True)

    def ptrace(self, request):
        if self.libc.ptrace(request, self.tid, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request}: {errno.errorcode[ctypes.get_errno()]}")

    def __enter__(self):
        self.ptrace(PTRACE_SEIZE)
        self.ptrace(PTRACE_INTERRUPT)
        os.waitpid(self.tid, WALL)
        return self

    def __exit__(self, *_):
        self.ptrace(PTRACE_DETACH)


class Watchdog(with_daemon.WithDaemon):
    workers = 2
    abstract = False

    def start_daemon(self):
        address = f"\0urnic-e2e-{os.getpid()}" if self.abstract else str(self.dir / "notify")
        self.manager = ServiceManager(address)
        self.addCleanup(self.manager.socket.close)
        environment = {**harness.clean_environment(), "NOTIFY_SOCKET": address.replace("\0", "@"),
                       "WATCHDOG_USEC": str(int(WATCHDOG_S * 1_000_000))}
        log = self.dir / "log"
        with log.open("w", encoding="utf-8") as output:
            self.daemon = subprocess.Popen([harness.BUILD / "urnicd", "--config", self.dir / "urnicd.toml"], env=environment,
                                                   stdin=subprocess.DEVNULL, stderr=output)
        self.addCleanup(self.stop)
        self.said = lambda: log.read_text(encoding="utf-8")

    def stop(self):
        if self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.daemon.wait(harness.PATIENCE_S), 0, self.said())

    def threads(self, name):
        return [tid for tid, comm in harness.thread_files(self.daemon.pid, "comm").items() if comm.startswith(name)]

    def expect_silence_while_stopped(self, tid):
        with Stopped(tid):
            self.assertTrue(harness.wait_until(lambda: "has made no round" in self.said() or tid == self.daemon.pid))
            self.manager.waiting()
            time.sleep(2 * WATCHDOG_S)
            self.assertEqual(self.manager.waiting(), [])
        self.assertEqual(self.manager.next(), "WATCHDOG=1")

    def test_while_its_workers_sleep_and_when_one_is_stuck(self):
        self.assertEqual(self.manager.next(), "READY=1")
        self.assertTrue(self.socket.exists())
        for _ in range(8):
            self.assertEqual(self.manager.next(), "WATCHDOG=1")
        self.assertNotIn("has made no round", self.said())
        workers = self.threads("urnic-worker")
        self.assertEqual(len(workers), 2)
        self.expect_silence_while_stopped(workers[1])
        self.expect_silence_while_stopped(self.daemon.pid)
        self.stop()
        self.assertEqual(self.manager.waiting()[-1], "STOPPING=1")


class AbstractSocket(Watchdog):
    """Of service managers in containers."""
    abstract = True

    def test_while_its_workers_sleep_and_when_one_is_stuck(self):
        self.assertEqual(self.manager.next(), "READY=1")
        self.assertEqual(self.manager.next(), "WATCHDOG=1")


class NoServiceManager(harness.TestCase):
    def test_a_socket_that_is_not_there(self):
        with tempfile.TemporaryDirectory(prefix="urnic-e2e-") as directory:
            config = pathlib.Path(directory, "urnicd.toml")
            config.write_text(with_daemon.CONFIG.format(run_dir=f"{directory}/run", mode="0666", workers=1, wire=""), encoding="utf-8")
            result = harness.run([harness.BUILD / "urnicd", "--config", config],
                                 env={**harness.clean_environment(), "NOTIFY_SOCKET": f"{directory}/none"})
            self.assertEqual(result.returncode, 1, result)
            self.assertIn(f"cannot reach the service manager at {directory}/none (NOTIFY_SOCKET)", result.err)
            self.assertFalse(pathlib.Path(directory, "run").exists())

    def test_what_a_standalone_daemon_inherits_is_not_its_own(self):
        """`urnic run --standalone` in a service: READY=1 is for the service to say."""
        with tempfile.TemporaryDirectory(prefix="urnic-e2e-") as directory:
            manager = ServiceManager(f"{directory}/notify")
            self.addCleanup(manager.socket.close)
            self.run_ok([harness.URNIC, "run", "--standalone", "--", "ibv_devices"],
                        env={**harness.clean_environment(), "NOTIFY_SOCKET": f"{directory}/notify"})
            self.assertEqual(manager.waiting(), [])


if __name__ == "__main__":
    harness.main()
