"""A lossless wire on an overloaded machine: nothing is ever sent again, however long the daemon is kept from running.

Runs whole under `urnic run --standalone`.
"""

import json
import os
import signal
import threading
import time

import harness

# What counts something that was sent again, or a reason for it.
LOSS_COUNTERS = ("retrans_pkts", "completer_retry_err", "local_ack_timeout_err", "packet_seq_err", "rcvd_seq_err",
                 "implied_nak_seq_err", "out_of_sequence", "duplicate_request", "rcvd_rnr_err")
# ACK timeouts, 4.096 us * 2^code. 1 ms: a daemon among busy processes waits for a processor longer than that all the time.
SHORT_TIMEOUT = 8
# 67 ms, the tools' own, and more than that.
TIMEOUT = 14
STOPPED_S = 0.1


def status():
    return json.loads(harness.run([harness.URNIC, "status", "--json"], env=dict(os.environ)).out)


class Overload(harness.TestCase):
    def setUp(self):
        for _ in range(3 * (os.cpu_count() or 1)):
            self.addCleanup(harness.end_group, harness.start(["/bin/sh", "-c", "while :; do :; done"]))
        self.daemon = status()["daemon"]["pid"]
        self.stops = 0

    def tearDown(self):
        os.kill(self.daemon, signal.SIGCONT)

    def hold_up(self, done):
        """Stops the daemon again and again, each time for longer than an ACK timeout, until `done`."""
        while not done.wait(0.02):
            os.kill(self.daemon, signal.SIGSTOP)
            time.sleep(STOPPED_S)
            os.kill(self.daemon, signal.SIGCONT)
            self.stops += 1

    def counters(self):
        totals = dict.fromkeys((*LOSS_COUNTERS, "sent_pkts"), 0)
        for device in status()["devices"]:
            for name in totals:
                totals[name] += device["counters"][name]
        return totals

    def check(self, tool, *options, held_up):
        """One run of a perftest tool, in which no packet may go twice."""
        before = self.counters()
        port = str(harness.free_port())
        common = ["-F", "-c", "RC", "-p", port, *(str(option) for option in options)]
        done = threading.Event()
        holder = threading.Thread(target=self.hold_up, args=(done,))
        if held_up:
            holder.start()
        try:
            self.run_pair([tool, "-d", "urnic0", *common], [tool, "-d", "urnic1", *common, "127.0.0.1"], int(port),
                          timeout=300)
        finally:
            done.set()
            if held_up:
                holder.join()
        after = self.counters()
        self.assertGreater(after["sent_pkts"], before["sent_pkts"])
        again = {name: after[name] - before[name] for name in LOSS_COUNTERS if after[name] != before[name]}
        self.assertEqual(again, {}, f"{tool}: sent again on a lossless wire")

    def check_all(self, timeout, held_up):
        # No more messages than receives are posted at the start: a receiver that lags is no concern of this test.
        for tool, options in (("ib_write_bw", ["-s", 65536, "-n", 3000]), ("ib_read_bw", ["-s", 65536, "-n", 3000]),
                              ("ib_send_bw", ["-s", 65536, "-n", 500, "-r", 512]), ("ib_atomic_bw", ["-n", 10000])):
            with self.subTest(tool=tool):
                self.check(tool, *options, "-u", timeout, held_up=held_up)

    def test_busy_processors(self):
        self.check_all(SHORT_TIMEOUT, held_up=False)

    def test_daemon_that_is_held_up(self):
        self.check_all(TIMEOUT, held_up=True)
        self.assertGreater(self.stops, 0)


if __name__ == "__main__":
    harness.main()
