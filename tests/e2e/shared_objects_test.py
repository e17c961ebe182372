"""One user's program uses what it shares with the daemon (descriptors, memory) to keep the daemon waiting: nobody else notices.

The attacker (tests/e2e/tenants/attack.cc) is of another uid than the daemon and holds a lock of a shared object, or withholds pages.
"""

import os
import signal
import unittest

import harness
import with_daemon

ATTACK = str(harness.BUILD / "tests/e2e/attack")
# Of a neighbour that is not disturbed this takes a fraction of a second.
NEIGHBOUR_PATIENCE_S = 60


@unittest.skipIf(os.geteuid() != 0, "a second user needs root")
class SharedObjects(with_daemon.WithDaemon):
    def attack(self, *words, sees=("held",)):
        attacker = self.start(ATTACK, *words)
        self.expect_line(attacker, *sees)
        return attacker

    def expect_service(self, writes=200):
        """The control thread answers, and the worker serves a neighbour."""
        status = self.urnic("status", "--json", "--socket", self.socket, timeout=NEIGHBOUR_PATIENCE_S)
        self.assert_ok(status, "the control thread does not answer")
        neighbour = self.urnic("run", "--socket", self.socket, "--", ATTACK, "neighbour", str(writes), timeout=NEIGHBOUR_PATIENCE_S)
        self.assert_ok(neighbour, "a neighbour is not served")

    def expect_killable(self):
        self.daemon.send_signal(signal.SIGKILL)
        self.assertTrue(harness.wait_until(lambda: self.daemon.poll() is not None), "SIGKILL does not end the daemon")

    def check(self, *words, sees=("held",), writes=200):
        self.attack(*words, sees=sees)
        self.expect_service(writes)
        self.expect_killable()

    def test_completion_channel(self):
        self.check("channel")

    def test_rings(self):
        self.check("ring", str(self.socket))

    def test_rings_of_a_client_that_ends(self):
        self.check("ring_end", str(self.socket))

    def test_connection_events(self):
        self.check("cm", str(self.socket))

    def test_copied_memory_that_is_written(self):
        self.check("copied_write", sees=("held", "refused"))

    def test_copied_memory_that_is_sent(self):
        self.check("copied_send", sees=("held", "refused"))

    def test_watchers_of_a_channel(self):
        # Ten of them a second are what is left where a worker wakes all watchers for each event.
        self.check("watchers", writes=3000)


if __name__ == "__main__":
    harness.main()
