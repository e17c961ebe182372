"""scripts/check_packages.py finds what a package or the tarball leaves out; what the package of the daemon says at an upgrade."""

import os
import pathlib
import re
import shutil
import socket
import sys
import tempfile

import harness

sys.path.insert(0, str(harness.SOURCE / "scripts"))
import check_packages

LISTS = ("debian", "rpm", "scripts/packages", "scripts/release")


class Lists(harness.TestCase):
    def setUp(self):
        self.top = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in LISTS:
            source, target = harness.SOURCE / name, self.top / name
            target.parent.mkdir(exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy(source, target)

    def change(self, name, old, new):
        path = self.top / name
        text, count = re.subn(old, new, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        self.assertEqual(count, 1, f"{old} in {name}")
        path.write_text(text, encoding="utf-8")

    def one_problem(self, *words):
        found = list(check_packages.problems(harness.BUILD, self.top))
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_nothing_is_left_out(self):
        self.assertEqual(list(check_packages.problems(harness.BUILD)), [])

    def test_a_file_in_no_package(self):
        for name, line in (("urnic.install", "usr/libexec/urnic/urnic-ipoib"),
                           ("urnic-conform-agent.manpages", "usr/share/man/man1/urnic-conform-agent.1"),
                           ("libibverbs-urnic.install", "etc/libibverbs.d/urnic.driver")):
            with self.subTest(line):
                self.change(f"debian/{name}", rf"^{re.escape(line)}\n", "")
                self.one_problem(f"{line} is installed and in no package")
                shutil.copy(harness.SOURCE / "debian" / name, self.top / "debian" / name)

    def test_a_file_in_two_packages(self):
        self.change("debian/urnicd.install", r"\A", "usr/bin/urnic\n")
        self.one_problem("usr/bin/urnic is in the packages urnic, urnicd")

    def test_rpm(self):
        spec = harness.SOURCE / "rpm/urnic.spec"
        for old, new, problem in (
                (r"^%\{_libexecdir\}/urnic/urnic-ipoib\n", "", "usr/libexec/urnic/urnic-ipoib is installed and in no package"),
                (r"^%\{_sbindir\}/urnicd$", "%{_sbindir}/urnicd\n%{_bindir}/urnic", "usr/bin/urnic is in the packages urnic, urnicd"),
                (r"^%\{_sbindir\}/urnicd$", "%{_sbindir}/urnicd\n%{_sbindir}/gone", "nothing is installed as usr/sbin/gone")):
            with self.subTest(problem):
                self.change("rpm/urnic.spec", old, new)
                self.one_problem(problem)
                shutil.copy(spec, self.top / "rpm")

    def test_a_line_for_nothing(self):
        self.change("debian/urnicd.install", r"\A", "usr/bin/urnic-gone\n")
        self.one_problem("debian/urnicd.install:1: nothing is installed as usr/bin/urnic-gone")

    def test_a_star_is_for_one_folder(self):
        self.change("debian/urnic.install", r"^usr/libexec/urnic/urnic-ipoib$", "usr/*/urnic-ipoib")
        found = "\n".join(check_packages.problems(harness.BUILD, self.top))
        self.assertIn("nothing is installed as usr/*/urnic-ipoib", found)
        self.assertIn("usr/libexec/urnic/urnic-ipoib is installed and in no package", found)

    def test_lists_of_no_package(self):
        self.change("debian/control", "^Package: urnic-conform-agent$", "Package: urnic-agent")
        found = list(check_packages.problems(harness.BUILD, self.top))
        self.assertEqual(len(found), 2, found)
        for problem in found:
            self.assertIn("debian/control has no package urnic-conform-agent", problem)

    def test_a_program_that_the_tarball_lacks(self):
        self.change("scripts/release", r",ulp/ipoib/urnic-ipoib\}", "}")
        self.one_problem("usr/libexec/urnic/urnic-ipoib is installed and not in the tarball")

    def test_what_it_is_built_with(self):
        if not shutil.which("dpkg-query"):
            return  # names of packages are Debian's
        self.change("debian/control", " libibumad-dev,", "")
        self.one_problem("debian/control: the build needs libibumad: add libibumad-dev to Build-Depends")
        shutil.copy(harness.SOURCE / "debian/control", self.top / "debian/control")
        self.change("scripts/packages", "^libibumad-dev\n", "")
        self.one_problem("scripts/packages: the build needs libibumad: add libibumad-dev to [build]")


class Upgrade(harness.TestCase):
    """The script that dpkg runs once a package is unpacked, without what debhelper puts into it."""

    def said(self, has_daemon, *words):
        """Where a daemon serves /run/urnic, or none does."""
        run = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="urnic-e2e-")))
        (run / "urnic").mkdir()
        if has_daemon:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
                control.bind(str(run / "urnic/control.sock"))
        as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
        script = f'mount --bind {run} /run && exec sh "$@"'
        words = ["unshare", *as_root, "--mount", "sh", "-c", script, "sh", harness.SOURCE / "debian/urnicd.postinst", *words]
        return self.run_ok(words).out

    def test_the_daemon_goes_on_and_its_users_are_told_when_they_lose_it(self):
        said = self.said(True, "configure", "0.0.9")
        self.assertIn("urnicd 0.0.9 goes on, so that programs keep their RNICs", said)
        self.assertIn("sudo systemctl restart urnicd", said)

    def test_nothing_to_say(self):
        self.assertEqual(self.said(True, "configure", ""), "", "the first installation")
        self.assertEqual(self.said(False, "configure", "0.0.9"), "", "no daemon")
        self.assertEqual(self.said(True, "abort-upgrade", "0.0.9"), "")

    def test_debhelper_does_not_restart_it(self):
        rules = (harness.SOURCE / "debian/rules").read_text(encoding="utf-8")
        self.assertIn("\tdh_installsystemd --no-restart-after-upgrade --no-stop-on-upgrade\n", rules)


if __name__ == "__main__":
    harness.main()
