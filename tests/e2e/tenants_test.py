"""One daemon, users who do not trust each other: each case is an attack, by a user of their own."""

import errno
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import sys
import tempfile
import time
import unittest

import harness
import with_daemon

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tenants"))
import raw_client  # noqa: E402  (beside its users)

SET_USER_ID = harness.BUILD / "tests/e2e/set_user_id"
MIB = 1 << 20


class WithAttacker(with_daemon.WithDaemon):
    def attack_command(self, name, *words):
        return [sys.executable, __file__, "attack", name, self.socket, *words]

    def attack(self, name, *words):
        """Runs attack_NAME() of this file as the attacker. Returns what it prints."""
        return self.run_ok(self.attack_command(name, *words), **with_daemon.as_nobody()).out


def attack_holes(path, mode):
    client, file = raw_client.RawClient(path), raw_client.memory_file()
    os.fchmod(file, int(mode, 8))
    client.attach_memory(file)
    pd = client.alloc_pd(client.open_device())
    for number in range(16):
        client.reg_mr(pd, (1 << 40) + number * 64 * MIB, 64 * MIB)
    print(f"/proc/{os.getpid()}/fd/{file}", flush=True)
    signal.pause()


class Memory(WithAttacker):
    def start_daemon(self):
        config = self.dir / "urnicd.toml"
        config.write_text(config.read_text(encoding="utf-8").replace("[daemon]", '[daemon]\ncopied_memory = "all"'), encoding="utf-8")
        super().start_daemon()

    @unittest.skipIf(os.geteuid() != 0, "a set-user-ID program of another user needs root")
    def test_a_program_that_became_set_user_id_is_not_reached(self):
        program = self.dir / "set_user_id"
        shutil.copy(SET_USER_ID, program)
        program.chmod(0o4755)
        result = self.run_ok([harness.URNIC, "run", "--socket", self.socket, "--", SET_USER_ID, "attack", program], **with_daemon.as_nobody())
        self.assertEqual(result.out.count("own memory: success"), 2)
        self.assertIn("victim runs as 0", result.out)
        self.assertIn("the secret is not seen", result.out)
        for access in ("read", "write"):
            self.assertRegex(result.out, rf"(?m)^{access}: (?!success)")
        self.assertIn("victim is intact", result.out)

    def test_holes_of_a_memory_file_are_not_filled_by_the_daemon(self):
        # Of a file of mode 0 the kernel tells others than its owner that every page is there.
        for mode in ("777", "0"):
            attacker = harness.start(self.attack_command("holes", mode), **with_daemon.as_nobody())
            self.addCleanup(harness.end_group, attacker)
            file = harness.read_line(attacker).strip()
            self.assertEqual(os.stat(file).st_blocks, 0, f"blocks that the daemon allocated in the attacker's file of mode {mode}")


def attack_domain(path, file, flags):
    client = raw_client.RawClient(path)
    context = client.open_device()
    fd = os.open(file, getattr(os, flags))
    try:
        client.open_xrcd_of_file(context, fd, create=False)
        print("joined")
    except OSError as problem:
        print(errno.errorcode[problem.errno])


class XrcDomains(WithAttacker):
    def test_a_file_that_one_may_not_read_leads_to_no_domain(self):
        file = self.dir / "domain"
        file.touch()
        file.chmod(0o602)  # whatever the umask is
        owner = raw_client.RawClient(self.socket)
        self.addCleanup(owner.close)
        with file.open("rb") as opened:
            owner.open_xrcd_of_file(owner.open_device(), opened.fileno(), create=True)
        for flags, error in (("O_PATH", "EBADF"), ("O_WRONLY", "EACCES")):
            self.assertEqual(self.attack("domain", file, flags).strip(), error, flags)


def attack_objects(path):
    """Has some of its own, and looks around."""
    client = raw_client.RawClient(path)
    context = client.open_device()
    pd = client.alloc_pd(context)
    client.create_qp(pd, client.create_cq(context))
    words = {"status": ["status"], "cc": ["cc", "show"], "faults": ["fault", "list"]}
    # More often than a text is made anew.
    print(json.dumps([{name: json.loads(harness.run([harness.URNIC, *command, "--json", "--socket", path]).out)
                       for name, command in words.items()} for _ in range(12)]))


# Of the victim's memory: numbers that are nothing else's.
MEMORY_ADDRESS, MEMORY_BYTES = (1 << 40) + 0x345678, 0x23457


@unittest.skipIf(os.geteuid() != 0, "a second user needs root")
class Status(WithAttacker):
    """A victim's program has two QPs, one of which a fault names, a CQ and memory."""

    def setUp(self):
        super().setUp()
        self.victim = raw_client.RawClient(self.socket)
        self.addCleanup(self.victim.close)
        context = self.victim.open_device()
        pd, cq = self.victim.alloc_pd(context), self.victim.create_cq(context)
        self.qpns = [self.victim.create_qp(pd, cq)[1] for _ in range(2)]
        self.victim.attach_memory(raw_client.memory_file())
        self.victim.reg_mr(pd, MEMORY_ADDRESS, MEMORY_BYTES)
        self.run_ok([harness.URNIC, "fault", "add", "drop", "--qpn", str(self.qpns[0]), "--socket", self.socket])
        self.run_ok([harness.URNIC, "fault", "add", "ecn", "--socket", self.socket])

    def test_others_objects_are_not_shown(self):
        before = self.status()
        self.assertIn("control_thread", before)
        self.assertEqual({qp["qpn"] for client in before["clients"] for qp in client["qps"]}, set(self.qpns))
        self.assertEqual([(region["addr"], region["length"]) for client in before["clients"] for region in client["mrs"]],
                         [(MEMORY_ADDRESS, MEMORY_BYTES)])
        for seen in json.loads(self.attack("objects")):
            text = json.dumps(seen)
            for number in (*self.qpns, MEMORY_ADDRESS, MEMORY_BYTES):
                self.assertNotRegex(text, rf"\b{number}\b", "a number of the victim's QPs, or of its memory")
            status = seen["status"]
            self.assertEqual([user["uid"] for user in status["users"]], [pwd.getpwnam("nobody").pw_uid])
            self.assertEqual([client["uid"] for client in status["clients"]], [pwd.getpwnam("nobody").pw_uid])
            self.assertEqual([[qp["device"] for qp in client["qps"]] for client in status["clients"]], [["urnic0"]])
            self.assertEqual([device["qps"] for device in status["devices"]], [1, 0])
            self.assertEqual([device["mrs"] for device in status["devices"]], [0, 0])
            self.assertEqual(sum(worker["qps"] for worker in status["workers"]), 1)
            self.assertNotIn("control_thread", status)
            for device in status["devices"]:
                self.assertNotIn("counters_per_worker", device)
                self.assertIn("rcvd_pkts", device["counters"])
                self.assertNotIn("listeners", device["cm"])
            self.assertEqual([len(device["qps"]) for device in seen["cc"]["devices"]], [1, 0])
            for faults in (status["faults"], seen["faults"]["faults"]):
                self.assertEqual([fault["type"] for fault in faults], ["ecn"])
        after = self.status()
        self.assertEqual([len(client["qps"]) for client in after["clients"] if client["uid"] == 0], [2], "root sees all, as before")


def error_of(call, *words, **options):
    try:
        call(*words, **options)
        return "success"
    except OSError as problem:
        return errno.errorcode[problem.errno]


def attack_refusals(path, file):
    """One of each that somebody else is protected from by a refusal."""
    client = raw_client.RawClient(path)
    context = client.open_device()
    pd, cq = client.alloc_pd(context), client.create_cq(context)
    datagrams, _ = client.create_qp(pd, cq, raw_client.QP_TYPES["UD"])
    o_path = os.open(file, os.O_PATH)
    unsealed = os.memfd_create("unsealed")
    found = {
        "Q_Key of QP1": error_of(client.set_qkey, datagrams, 0x80010000),
        "Q_Key of anybody": error_of(client.set_qkey, datagrams, 0x7fffffff),
        "domain": error_of(client.open_xrcd_of_file, context, o_path, create=False),
        "memory file": error_of(client.attach_memory, unsealed),
        "copied memory": error_of(client.reg_mr, pd, 0, 4096, flags=0),
        "import": error_of(client.call, "ImportDevice", b"", [unsealed]),
        "descriptors": error_of(client.call, "AllocPd", bytes(8), [unsealed]),
        "second PD": error_of(client.alloc_pd, context),
        "third PD": error_of(client.alloc_pd, context),
        "second connection": error_of(raw_client.connect_unwanted, path),
    }
    words = {"faults": ["fault", "add", "drop"], "port": ["port", "urnic0", "down"], "rates": ["cc", "set", "urnic0", "algorithm=dcqcn"]}
    client.close()
    for name, command in words.items():
        found[name] = harness.run([harness.URNIC, *command, "--socket", path]).returncode
    print(os.getpid(), json.dumps(found))


class WithLog(WithAttacker):
    config_lines = ""  # behind [daemon]

    def daemon_command(self):
        config = self.dir / "urnicd.toml"
        config.write_text(config.read_text(encoding="utf-8").replace("[[rnic]]", f"{self.config_lines}[[rnic]]", 1), encoding="utf-8")
        self.log = self.dir / "urnicd.log"
        return ["sh", "-c", 'exec "$0" --config "$1" 2>"$2"', harness.BUILD / "urnicd", config, self.log]

    def warnings(self, *words):
        """Lines of the daemon's log that have these words in them."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if all(word in line for word in ("urnicd: warning: ", *words))]

    def user(self):
        """What root is told of the attacker."""
        uid = pwd.getpwnam("nobody").pw_uid
        return next(user for user in self.status()["users"] if user["uid"] == uid)


@unittest.skipIf(os.geteuid() != 0, "a second user needs root")
class Refusals(WithLog):
    """What is refused to a user is in the log, with whom and what; the user's quotas are his own."""

    config_lines = "[daemon.limits.per_uid]\nmax_connections = 1\nmax_pds = 2\n"

    def refused(self):
        return self.warnings("user ", " is refused ")

    def test_each_is_logged_with_whom_and_what(self):
        file = self.dir / "domain"
        file.touch(mode=0o600)
        begin = time.monotonic()
        pid, found = self.attack("refusals", file).split(maxsplit=1)
        minutes = 1 + int((time.monotonic() - begin) / 60)
        found = json.loads(found)
        self.assertEqual({name: found[name] for name in ("Q_Key of QP1", "Q_Key of anybody", "domain", "memory file", "copied memory",
                                                         "import", "descriptors", "second PD", "third PD", "second connection")},
                         {"Q_Key of QP1": "EPERM", "Q_Key of anybody": "success", "domain": "EBADF", "memory file": "EINVAL",
                          "copied memory": "EPERM", "import": "EBADF", "descriptors": "EINVAL", "second PD": "success",
                          "third PD": "ENOMEM", "second connection": "EUSERS"})
        self.assertNotIn(0, [found[name] for name in ("faults", "port", "rates")])
        uid = pwd.getpwnam("nobody").pw_uid
        what = ["a controlled Q_Key on QP", "the XRC domain of a file", "no sealed memory file", "memory that has to be copied",
                "a descriptor of no context", "1 descriptors instead of", "more than max_pds = 2", "more than max_connections = 1"]
        lines = self.refused()
        self.assertGreaterEqual(len(lines), len(what), lines)
        self.assertLessEqual(len(lines), 8 * minutes, lines)
        for line, words in zip(lines, what, strict=False):
            self.assertIn(f"user {uid}, process {pid} is refused ", line)
            self.assertIn(words, line)
        user = self.user()
        self.assertEqual((user["refusals"], user["refusals_not_logged"]), (11, 11 - len(lines)), "those of a minute are enough")
        with_quota = raw_client.RawClient(self.socket)
        self.addCleanup(with_quota.close)
        context = with_quota.open_device()
        for _ in range(3):
            with_quota.alloc_pd(context)
        for command in (["fault", "clear"], ["port", "urnic0", "up"]):
            self.run_ok([harness.URNIC, *command, "--socket", self.socket])
        self.assertEqual(self.refused(), lines, "root is refused nothing")


def attack_bytes(path):
    """As much as it gets, over two connections, of which each is a program to the daemon."""
    programs = [raw_client.RawClient(path) for _ in range(2)]
    got = 0
    for client in programs:
        file = raw_client.memory_file()
        client.attach_memory(file)
        pd = client.alloc_pd(client.open_device())
        for number in range(4):
            error = error_of(client.reg_mr, pd, (1 << 40) + number * 64 * MIB, 64 * MIB)
            got += 64 if error == "success" else 0
    print(got, error)


@unittest.skipIf(os.geteuid() != 0, "a second user needs root")
class Bytes(WithLog):
    """Memory that the daemon may be charged for, when its owner takes the pages out and RDMA brings them back."""

    config_lines = f"[daemon.limits.per_uid]\nmax_registered_bytes = {128 * MIB}\n"

    def test_of_all_programs_of_a_user_are_bounded(self):
        self.assertEqual(self.attack("bytes"), "128 ENOMEM\n")
        self.assertTrue(harness.wait_until(lambda: not self.status()["clients"]))
        self.assertEqual(self.attack("bytes"), "128 ENOMEM\n", "what programs had that have ended is free again")
        self.assertTrue(self.warnings(f"more than max_registered_bytes = {128 * MIB}"))


@unittest.skipIf(os.geteuid() != 0, "a second user needs root")
class LongRounds(WithLog):
    """When a worker stands still in a program's turn, the log says in whose."""

    def start_as_attacker(self, *words):
        process = harness.start([harness.URNIC, "run", "--socket", self.socket, "--", *words], **with_daemon.as_nobody())
        self.addCleanup(harness.finish, process)
        self.addCleanup(harness.end_group, process)
        return process

    def start_writes(self):
        """A transfer without end of the attacker's; its processes."""
        port = harness.free_port()
        words = ["ib_write_bw", "-F", "-s", 65536, "-p", port, "--run_infinitely", "-d"]
        server = self.start_as_attacker(*words, "urnic0")
        self.assertTrue(harness.wait_until(lambda: harness.listening(port, server.pid) or server.poll() is not None))
        client = self.start_as_attacker(*words, "urnic1", "127.0.0.1")
        self.assertTrue(harness.wait_until(lambda: sum(device["counters"]["sent_pkts"] for device in self.status()["devices"]) > 1000,
                                           pause=0.05), "no transfer runs")
        return server, client

    def test_are_in_the_log_with_the_program(self):
        pids = "|".join(str(process.pid) for process in self.start_writes())
        uid = pwd.getpwnam("nobody").pw_uid
        line = rf"a round of worker 0 took \d+ ms, \d+ ms of it in the turn of user {uid}, process ({pids})\b"

        def is_told():
            # Whose turn it is at that moment is chance.
            self.daemon.send_signal(signal.SIGSTOP)
            time.sleep(0.2)
            self.daemon.send_signal(signal.SIGCONT)
            return any(re.search(line, warning) for warning in self.warnings())
        self.assertTrue(harness.wait_until(is_told, pause=0.1), self.warnings())
        self.assertGreater(self.status()["workers"][0]["long_rounds"], 0)
        self.assertGreater(self.user()["long_rounds"], 0)


class RunDirectory(harness.TestCase):
    """Its owner can put links where the daemon writes."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="urnic-e2e-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.run_dir = self.dir / "run"
        self.config = self.dir / "urnicd.toml"
        self.config.write_text(with_daemon.CONFIG.format(run_dir=self.run_dir, mode="0666", workers=1, wire=""), encoding="ascii")

    def expect_refused(self, *words):
        daemon = harness.start([harness.BUILD / "urnicd", "--config", self.config])
        self.addCleanup(harness.end_group, daemon)
        harness.wait_until(lambda: daemon.poll() is not None or (self.run_dir / "control.sock").exists())
        harness.end_group(daemon)
        result = harness.finish(daemon)
        self.assertEqual(result.returncode, 1, result)
        for word in words:
            self.assertIn(word, result.err)

    @unittest.skipIf(os.geteuid() != 0, "a directory of another user's needs root")
    def test_of_somebody_else(self):
        self.run_dir.mkdir()
        shutil.chown(self.run_dir, "nobody")
        self.expect_refused(f"run directory {self.run_dir}", "belongs to nobody", "chown")

    def test_that_others_may_write_to(self):
        for mode in (0o777, 0o775, 0o1777):
            self.run_dir.mkdir()
            self.run_dir.chmod(mode)
            self.expect_refused(f"run directory {self.run_dir}", "others may write to it", "chmod go-w")
            shutil.rmtree(self.run_dir)

    def test_that_is_a_link(self):
        (self.dir / "elsewhere").mkdir()
        self.run_dir.symlink_to(self.dir / "elsewhere")
        self.expect_refused(f"run directory {self.run_dir}", "is a link")


if __name__ == "__main__":
    if sys.argv[1:2] == ["attack"]:
        globals()[f"attack_{sys.argv[2]}"](*sys.argv[3:])
        sys.exit(0)
    harness.main()
