"""A lossless wire on an overloaded machine: nothing is ever sent again, however long the daemon is kept from running.

What is promised: a QP's timer counts only time in which the QP's worker ran (dataplane/worker/stall_free_clock.h). Where one worker serves both
ends, any timeout longer than the round trip holds. Where each end has its own, one may run while the other waits for a
processor, which no requester can know: the timeout has to allow for what the device reports as `local_ca_ack_delay`.
"""

import os
import signal
import threading
import time

import harness
import with_daemon

# What counts something that was sent again, or a reason for it.
LOSS_COUNTERS = ("retrans_pkts", "completer_retry_err", "local_ack_timeout_err", "packet_seq_err", "rcvd_seq_err",
                 "implied_nak_seq_err", "out_of_sequence", "duplicate_request", "rcvd_rnr_err")
PAUSE_S = 0.05


def timeout_s(code):
    return 4.096e-6 * 2**code


class Overload(with_daemon.WithDaemon):
    """Three programs that spin on each core. In `timeout` (a code) nothing but an absent worker keeps an answer."""
    timeout = 0

    def setUp(self):
        super().setUp()
        for _ in range(3 * len(os.sched_getaffinity(0))):
            self.addCleanup(harness.end_group, harness.start(["/bin/sh", "-c", "while :; do :; done"]))
        self.stops = 0

    def hold_up(self, done):
        """Stops the daemon again and again until `done`, each time for longer than any timer of a QP: at most four times the timeout."""
        while not done.wait(PAUSE_S):
            self.daemon.send_signal(signal.SIGSTOP)
            time.sleep(5 * timeout_s(self.timeout))
            self.daemon.send_signal(signal.SIGCONT)
            self.stops += 1

    def counters(self):
        totals = dict.fromkeys((*LOSS_COUNTERS, "sent_pkts"), 0)
        for device in self.status()["devices"]:
            for name in totals:
                totals[name] += device["counters"][name]
        return totals

    def run_tool(self, tool, *options):
        port = str(harness.free_port())
        common = ["-F", "-c", "RC", "-p", port, "-u", str(self.timeout), *(str(option) for option in options)]
        here = [harness.URNIC, "run", "--socket", str(self.socket), "--", tool]
        self.run_pair([*here, "-d", "urnic0", *common], [*here, "-d", "urnic1", *common, "127.0.0.1"], int(port), timeout=300)

    def check(self, tool, *options, held_up):
        """One run of a perftest tool, in which no packet may go twice."""
        before = self.counters()
        done = threading.Event()
        holder = threading.Thread(target=self.hold_up, args=(done,))
        if held_up:
            holder.start()
        try:
            self.run_tool(tool, *options)
        finally:
            done.set()
            if held_up:
                holder.join()
        after = self.counters()
        self.assertGreater(after["sent_pkts"], before["sent_pkts"])
        again = {name: after[name] - before[name] for name in LOSS_COUNTERS if after[name] != before[name]}
        self.assertEqual(again, {}, f"{tool}: sent again on a lossless wire")

    def check_all(self, *options, held_up):
        # No more messages than receives are posted at the start: a receiver that lags is no concern of this test.
        for tool, own in (("ib_write_bw", ["-s", 4096]), ("ib_read_bw", ["-s", 4096]), ("ib_send_bw", ["-s", 4096, "-r", 512]),
                          ("ib_atomic_bw", [])):
            with self.subTest(tool=tool):
                self.check(tool, *own, *options, held_up=held_up)
        self.assertEqual(self.stops > 0, held_up)


class OneWorker(Overload):
    """A wire that takes 1 ms there and back in the worker's time, and one request at a time: always one is under way when
    the worker is kept from running, and half of the time no answer waits for it when it comes back."""
    workers = 1
    wire = '[[network]]\nfabric = "lab"\nlink_mbps = 100000\ndelay_us = 250\n'
    timeout = 9  # 2.1 ms

    def test_busy_processors(self):
        self.check_all("-t", 1, "-n", 200, held_up=False)

    def test_daemon_that_is_held_up(self):
        self.check_all("-t", 1, "-n", 200, held_up=True)


class TwoWorkers(Overload):
    """Each end of a connection on a worker of its own: an odd number of QPs, dealt out in turn. Many with one request
    each: at any time some wait for an answer that has not been given."""
    workers = 2
    timeout = 16  # 268 ms: twice local_ca_ack_delay, for machines on which much else runs

    def test_daemon_that_is_held_up(self):
        self.check_all("-q", 15, "-t", 1, "-n", 100, held_up=True)


if __name__ == "__main__":
    harness.main()
