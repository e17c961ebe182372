"""What brings RNICs to programs that nobody starts with urnic run: urnic enter, urnic systemd-dropin, urnic cdi."""

import json
import os
import pathlib
import re

import harness
import with_daemon
from mount_test import NOBODY, ROOT, STATIC, as_user

# Of the user namespace of a user who is not root.
AS_ROOT = [] if ROOT else ["--map-root-user"]
WAITING = "echo here; read line <{go}; exec {static}"


class Enter(with_daemon.WithDaemon):
    def setUp(self):
        super().setUp()
        self.dir.chmod(0o777)
        self.go = self.dir / "go"
        os.mkfifo(self.go, 0o666)
        self.go.chmod(0o666)

    def begin(self, *words):
        """A process that prints "here", and lists RNICs once it is told to."""
        process = harness.start(words)
        self.addCleanup(process.wait)
        self.addCleanup(harness.end_group, process)
        self.assertEqual(harness.read_line(process), "here\n")
        return process

    def go_on(self, process):
        self.go.write_text("go\n", encoding="ascii")
        result = harness.finish(process)
        self.assert_ok(result)
        return sorted(result.out.split())

    def enter(self, pid, *before):
        return harness.run([*before, harness.URNIC, "enter", str(pid), "--socket", self.socket])

    def test_a_process_that_runs(self):
        waiting = WAITING.format(go=self.go, static=STATIC)
        before = str(harness.run([STATIC]))
        cases = {"user": (as_user("unshare", "--map-current-user", "--mount", "sh", "-c", waiting), as_user())}
        if ROOT:
            # Where it has no path to the daemon's files.
            cases["root"] = (["unshare", "--mount", "sh", "-c", f"mount -t tmpfs tmpfs {self.run_dir}; {waiting}"], [])
        for name, (words, caller) in cases.items():
            with self.subTest(user=name):
                process = self.begin(*words)
                for said in ("now sees", "saw already"):
                    result = self.enter(process.pid, *caller)
                    self.assert_ok(result)
                    self.assertIn(f"process {process.pid} {said} the RNICs", result.out)
                self.assertEqual(self.go_on(process), ["urnic0", "urnic1"])
                self.assertEqual(str(harness.run([STATIC])), before, "the mounts are seen outside")

    def test_mounts_that_are_shared_stay_inside(self):
        """A namespace whose mounts go on to another's."""
        inner = WAITING.format(go=self.go, static=STATIC)
        outer = f"unshare --mount --propagation unchanged sh -c 'echo $$ >{self.dir}/pid; {inner}'; {STATIC} 2>&1 | sed s/^/outside:/"
        process = self.begin("unshare", *AS_ROOT, "--mount", "--propagation", "shared", "sh", "-c", outer)
        self.assert_ok(self.enter((self.dir / "pid").read_text(encoding="ascii").strip()))
        names = self.go_on(process)
        self.assertIn("urnic0", names)
        self.assertNotIn("outside:urnic0", names)

    def test_targets_that_cannot_be(self):
        self.env = {**harness.clean_environment(), "PATH": str(self.dir)}
        for target, words in ((str(os.getpid()), "has no mount namespace of its own"), ("999999999", "there is no process 999999999"),
                              ("two words", "is no name of a service"), ("nginx", "cannot ask systemd for nginx.service: cannot run systemctl")):
            result = harness.run([harness.URNIC, "enter", target, "--socket", self.socket], env=self.env)
            self.assertEqual(result.returncode, 125, result)
            self.assertIn(words, result.err)

    def test_root_stays_out_of_a_users_namespace(self):
        if not ROOT:
            self.skipTest("root alone")
        process = self.begin(*as_user("unshare", "--map-root-user", "--mount", "sh", "-c", WAITING.format(go=self.go, static=STATIC)))
        result = self.enter(process.pid)
        self.assertEqual(result.returncode, 125, result)
        self.assertIn(f"in a user namespace of user {NOBODY}: run this as that user", result.err)
        self.assertNotIn("urnic0", self.go_on_failing(process))

    def go_on_failing(self, process):
        self.go.write_text("go\n", encoding="ascii")
        return harness.finish(process).out


class DropIn(with_daemon.WithDaemon):
    mode = "0660"

    def test_verified_by_systemd(self):
        text = self.run_ok([harness.URNIC, "systemd-dropin", "some-exporter", "--socket", self.socket]).out
        self.assertIn(f"BindPaths={self.run_dir}/sysroot/sys/class/infiniband:/sys/class/infiniband\n", text)
        self.assertIn(f'Environment="URNIC_RUN_DIR={self.run_dir}" "RDMAV_DRIVERS={harness.BUILD}/verbs_provider/liburnic"\n', text)
        # What is not there cannot be a place for a mount.
        covered = not os.path.isdir("/sys/class/infiniband") or not os.path.isdir("/sys/class/misc/rdma_cm")
        self.assertEqual("TemporaryFileSystem=/sys/class\n" in text, covered)
        self.assertEqual("BindPaths=-/sys/class/net\n" in text, covered)
        units = self.dir / "units"
        (units / "some-exporter.service.d").mkdir(parents=True)
        (units / "some-exporter.service").write_text("[Service]\nExecStart=/bin/true\n", encoding="ascii")
        verify = ["systemd-analyze", "verify", "--man=no", units / "some-exporter.service"]
        environment = {**harness.clean_environment(), "SYSTEMD_UNIT_PATH": f"{units}:"}
        (units / "some-exporter.service.d/urnic.conf").write_text(text, encoding="ascii")
        self.assertNotIn("urnic.conf", self.run_ok(verify, env=environment).err)
        # It would have complained.
        (units / "some-exporter.service.d/urnic.conf").write_text(text + "BindPath=/a:/b\n", encoding="ascii")
        self.assertIn("urnic.conf", harness.run(verify, env=environment).err)

    def test_a_name_that_no_service_has(self):
        result = self.urnic("systemd-dropin", "../nginx", "--socket", self.socket)
        self.assertEqual(result.returncode, 125, result)
        self.assertIn("'../nginx' is no name of a service", result.err)


# Everything of this machine but /run and /usr/lib, where a runtime makes directories, as in the image of a container.
ROOTFS = """
set -e
mount -t tmpfs tmpfs {root}
for name in /* /usr/* /usr/lib/*; do
    case $name in /run | /usr | /usr/lib) mkdir {root}$name; continue ;; esac
    if [ -L $name ]; then cp -d $name {root}$name; elif [ -d $name ]; then mkdir {root}$name; mount --rbind $name {root}$name; fi
done
"""


class Cdi(with_daemon.WithDaemon):
    keys = 'copied_memory = "all"'

    def setUp(self):
        super().setUp()
        self.root = self.dir / "root"
        self.root.mkdir()
        self.spec = json.loads(self.run_ok([harness.URNIC, "cdi", "--socket", self.socket]).out)
        self.devices = {device["name"]: device["containerEdits"] for device in self.spec["devices"]}

    def contained(self, device, *command):
        """What a runtime does with the specification, in namespaces by hand."""
        edits = [self.spec["containerEdits"], self.devices[device]]
        script = ROOTFS.format(root=self.root)
        for mount in (mount for edit in edits for mount in edit["mounts"]):
            to = f"{self.root}{mount['containerPath']}"
            make = f"mkdir -p {to}" if pathlib.Path(mount["hostPath"]).is_dir() else f"mkdir -p {os.path.dirname(to)}; touch {to}"
            options = ",".join(["bind", *(option for option in mount["options"] if option != "rbind")])
            script += f"{make}; mount --rbind {mount['hostPath']} {to}; mount -o remount,{options} {to}\n"
        script += f'exec chroot {self.root} env {" ".join(edits[0]["env"])} "$@"\n'
        return ["unshare", *AS_ROOT, "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh", *command]

    def test_what_it_says(self):
        self.assertEqual(sorted(self.devices), ["all", "urnic0", "urnic1"])
        self.assertEqual(self.spec["kind"], "urnic.io/rnic")
        for name, edits in self.devices.items():
            other = {"urnic0": "urnic1", "urnic1": "urnic0"}.get(name, "none")
            for mount in edits["mounts"]:
                self.assertTrue(os.path.exists(mount["hostPath"]), mount)
                self.assertNotIn(other, mount["hostPath"])
        self.assertEqual(len(self.devices["all"]["mounts"]), len(self.devices["urnic0"]["mounts"]) + len(self.devices["urnic1"]["mounts"]))

    def test_containers_see_what_they_were_given(self):
        for device, names in (("urnic1", ["urnic1"]), ("all", ["urnic0", "urnic1"])):
            classes, devices = self.run_ok(self.contained(device, "sh", "-c", "ls /sys/class/infiniband; echo --; ibv_devinfo")).out.split("--\n")
            self.assertEqual(classes.split(), names)
            self.assertEqual(sorted(re.findall(r"(?m)^hca_id:\s*(\w+)$", devices)), names)

    def test_two_containers(self):
        port = harness.free_port()
        pingpong = ["ibv_rc_pingpong", "-g", "1", "-c", "-n", "50", "-s", "300000", "-p", str(port)]
        serving = harness.start(self.contained("urnic0", *pingpong, "-d", "urnic0"))
        self.addCleanup(serving.wait)
        self.addCleanup(harness.end_group, serving)
        listens = f":{port:04X} "
        self.assertTrue(harness.wait_until(lambda: serving.poll() is not None or any(
            listens in line and " 0A " in line for table in ("tcp", "tcp6")
            for line in pathlib.Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines())))
        asked = harness.run(self.contained("urnic1", *pingpong, "-d", "urnic1", "127.0.0.1"))
        if asked.returncode != 0:
            harness.end_group(serving)
        for result in (asked, harness.finish(serving)):
            self.assert_ok(result)
            self.assertIn("50 iters in", result.out)
            self.assertNotIn("invalid data", result.out + result.err)

    def test_without_a_daemon(self):
        result = harness.run([harness.URNIC, "cdi", "--socket", self.dir])
        self.assertEqual(result.returncode, 125, result)
        self.assertIn("there is no RNIC below", result.err)
        self.assertIn("systemctl start urnicd", result.err)


if __name__ == "__main__":
    harness.main()
