"""All attacks at once beside ten verified programs of another user: none of these notices, and the daemon does not grow.

`scripts/soak attacks MINUTES` runs it. The daemon's footprint is taken before the attackers come, with the ten programs at work, and
when the attackers have gone; in each minute each of the ten must get on.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

import harness
import with_daemon

TESTS = harness.BUILD / "tests/e2e"
VICTIM, ATTACKER = 65533, 65534
VICTIMS = 10
GREEDY = pathlib.Path(__file__).resolve().parents[2] / "bench/tenants/greedy.py"
ASK_FOR_EVER = 'while :; do "$0" status --json --socket "$1"; done'
# What a step of the attackers lasts, before they are ended and others begin.
STEP_S = 10
MAX_GROWTH_KB = 4096


def as_user(uid, *words):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *map(str, words)]


class Victim:
    """A program of tests/e2e/tenants/verified.cc and how far it has come."""

    def __init__(self, process):
        self.process, self.count, self.last, self.slowest, self.seen = process, 0, 0, None, -1
        self.said = []
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.count = int(line)
            else:
                self.said.append(line)

    def check(self, test):
        """It runs; what it said when it ended is what was wrong."""
        if self.process.poll() is None:
            return
        self.thread.join()
        test.fail(f"one of the ten ended with status {self.process.returncode} after {self.count} exchanges:\n{''.join(self.said)}")

    def stands_still(self):
        """Since it was asked last."""
        before, self.seen = self.seen, self.count
        return before == self.count

    def minute(self):
        """What it did in the minute that ends now."""
        done, self.last = self.count - self.last, self.count
        self.slowest = done if self.slowest is None else min(done, self.slowest)
        return done


class Soak(with_daemon.WithDaemon):
    workers = 2
    minutes = 60.0

    def command(self, *words):
        return [harness.URNIC, "run", "--socket", self.socket, "--", *words]

    def attackers(self, seed):
        """Commands. Those of `attack` and `scribbler` give up their rights by themselves."""
        attack = [["attack", mode] for mode in ("channel", "watchers", "copied_write", "copied_send")]
        attack += [["attack", mode, self.socket] for mode in ("cm", "ring", "ring_end")]
        chosen = random.Random(seed).sample(attack, 3)
        commands = [self.command(TESTS / name, *words) for name, *words in chosen]
        commands += [self.command(TESTS / "scribbler", STEP_S, seed + i) for i in range(2)]
        commands.append(as_user(ATTACKER, *self.command(TESTS / "believer", 1000, seed)))
        garbage = pathlib.Path(__file__).parent / "tenants/garbage_client.py"
        commands.append(as_user(ATTACKER, "/usr/bin/python3", garbage, self.socket, seed))
        commands.append(self.greedy("deaths" if seed % 2 == 0 else "registrations"))
        commands.append(as_user(ATTACKER, "sh", "-c", ASK_FOR_EVER, harness.URNIC, self.socket))
        return commands

    def greedy(self, mode):
        return as_user(ATTACKER, "/usr/bin/python3", GREEDY, self.socket, mode)

    def step(self, seed):
        running = [subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                    start_new_session=True) for command in self.attackers(seed)]
        try:
            time.sleep(STEP_S)
        finally:
            for process in running:
                harness.end_group(process)
                process.wait()
        return len(running)

    def look_at_standstill(self, victims, still):
        """What the daemon says while some of the ten get no further, twice, and what their packets do: written into URNIC_SOAK_EVIDENCE."""
        folder = pathlib.Path(os.environ.get("URNIC_SOAK_EVIDENCE", self.dir.parent / f"urnic-soak-{self.daemon.pid}"))
        folder.mkdir(exist_ok=True)
        print(f"{[victims.index(victim) for victim in still]} of the ten stand still; evidence in {folder}", flush=True)
        for number in range(2):
            (folder / f"status{number}.json").write_text(self.urnic("status", "--json", "--socket", self.socket).out, encoding="utf-8")
            threads = {name: harness.thread_files(self.daemon.pid, name) for name in ("comm", "stat", "wchan", "schedstat")}
            (folder / f"threads{number}.json").write_text(json.dumps({"victims": [victim.process.pid for victim in victims],
                                                                      "counts": [victim.count for victim in victims], **threads}), encoding="utf-8")
            if number == 0:
                time.sleep(2)
        capture = harness.start([harness.URNIC, "capture", "--socket", self.socket, "-w", folder / "packets.pcapng", "--snaplen", "128", "--ring", "2,20"])
        time.sleep(3)
        capture.send_signal(signal.SIGINT)
        harness.finish(capture)

    def footprint(self):
        threads = len(os.listdir(f"/proc/{self.daemon.pid}/task"))
        return harness.Footprint(self.daemon.pid), threads

    def settled(self, most_threads=None):
        """The clients that are left are the ten, and no thread clears rings of others any more: no more than `most_threads` are left."""
        self.assertTrue(harness.wait_until(lambda: len(self.status()["clients"]) == VICTIMS, pause=0.2), "clients are left")
        if most_threads is not None:
            self.assertTrue(harness.wait_until(lambda: self.footprint()[1] <= most_threads, pause=0.2),
                            f"threads are left: {harness.thread_files(self.daemon.pid, 'comm')}")
        return self.footprint()

    def test_all_attacks_at_once(self):
        # Of every other one the PSNs come round some times in an hour.
        victims = [Victim(harness.start(as_user(VICTIM, *self.command(TESTS / "verified", *["small"] * (number % 2)))))
                   for number in range(VICTIMS)]
        for victim in victims:
            self.addCleanup(harness.end_group, victim.process)
        self.assertTrue(harness.wait_until(lambda: all(victim.count > 0 for victim in victims)), "the ten do not come up")
        # Tables of the daemon's that grow with the first of a kind, and with the most that there ever were.
        self.step(1)
        self.settled()
        died = subprocess.run(list(map(str, self.greedy("deaths"))), check=False, timeout=600)
        self.assertEqual(died.returncode, -signal.SIGKILL, "it did not come as far as its own end")
        before, threads_before = self.settled()
        begin = minute = time.monotonic()
        attackers, steps = 0, int(os.environ.get("URNIC_SOAK_SEED", "1"))
        for victim in victims:
            victim.last = victim.count
        while time.monotonic() - begin < self.minutes * 60:
            steps += 1
            attackers += self.step(steps)
            still = [victim for victim in victims if victim.stands_still()]
            if still:
                self.look_at_standstill(victims, still)
            if time.monotonic() - minute >= 60:
                minute = time.monotonic()
                done = [victim.minute() for victim in victims]
                print(f"{(minute - begin) / 60:.0f} min: exchanges of each {min(done)} to {max(done)}, {attackers} attackers", flush=True)
                for victim in victims:
                    victim.check(self)
                self.assertGreater(min(done), 0, "one of the ten stood still for a minute")
        after, threads_after = self.settled(threads_before)
        growth_kb = after.resident_kb - before.resident_kb
        print(f"{attackers} attackers in {self.minutes:g} minutes; {sum(victim.count for victim in victims)} verified exchanges of 3 messages, "
              f"slowest minute of one {min(victim.slowest or 0 for victim in victims)}; daemon: {growth_kb:+d} KiB, descriptors "
              f"{before.descriptors} -> {after.descriptors}, threads {threads_before} -> {threads_after}, mappings {before.mappings} -> {after.mappings}")
        for victim in victims:
            victim.check(self)
        self.assertLessEqual(growth_kb, MAX_GROWTH_KB)
        self.assertEqual(after.descriptors, before.descriptors)


if __name__ == "__main__":
    Soak.minutes = float(os.environ.get("URNIC_SOAK_MINUTES", "60"))
    harness.main()
