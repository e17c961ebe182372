"""urnic completion: bash and zsh complete what urnic has."""

import os
import pathlib
import pty
import re
import select
import shutil
import tempfile
import time

import harness

# What bash would offer for "urnic WORDS", the last of which is not whole.
BASH = r"""
source "$1"; shift
COMP_WORDS=(urnic "$@"); COMP_CWORD=$#
_urnic
printf '%s\n' "${COMPREPLY[@]}"
"""


class Completion(harness.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="urnic-completion-")))
        for shell, name in (("bash", "urnic"), ("zsh", "_urnic")):
            (self.dir / name).write_text(self.run_ok([harness.URNIC, "completion", shell]).out, encoding="utf-8")

    def offered(self, *words, **env):
        result = self.run_ok(["bash", "--norc", "-c", BASH, "bash", self.dir / "urnic", *words],
                             env={**harness.clean_environment(), **env}, cwd=self.dir)
        self.assertEqual(result.err, "")
        return result.out.split()

    def test_every_command_and_option_of_the_help(self):
        """Whatever the help has, down to the last command."""
        def commands_of(*path):
            text = self.run_ok([harness.URNIC, *path, "--help"]).out
            below = re.split(r"(?m)^Subcommands:$", text)[1:]
            names = re.findall(r"(?m)^  ([a-z-]+) ", below[0].split("\n\n")[0]) if below else []
            options = re.findall(r"(?m)^  (?:-\w,)?(--[a-z-]+)", text)
            return names, options

        seen = []
        todo = [()]
        programs = ("decode", "experiment", "ipoib", "conform")
        while todo:
            path = todo.pop()
            names, options = commands_of(*path)
            self.assertLessEqual(set(names), set(self.offered(*path, "")), path)
            self.assertLessEqual(set(options), set(self.offered(*path, "--")), path)
            seen.append(" ".join(path))
            todo += [(*path, name) for name in names if name not in programs]
        for command in ("run", "status", "fault add", "cc set", "enter", "completion"):
            self.assertIn(command, seen)

    def test_values(self):
        self.assertEqual(self.offered("port", "urnic0", "d"), ["down"])
        self.assertEqual(self.offered("completion", "z"), ["zsh"])
        (self.dir / "faults.json").touch()
        self.assertEqual(self.offered("run", "--faults", "fau"), ["faults.json"])
        devices = self.dir / "run/sysroot/sys/class/infiniband/urnic7"
        devices.mkdir(parents=True)
        self.assertEqual(self.offered("port", "ur", URNIC_RUN_DIR=str(self.dir / "run")), ["urnic7"])

    def test_the_command_of_run(self):
        self.assertIn("setpriv", self.offered("run", "setpri"))
        self.assertIn("setpriv", self.offered("run", "--standalone", "--", "setpri"))
        (self.dir / "some.file").touch()
        self.assertEqual(self.offered("run", "--socket", "/x", "cat", "some."), ["some.file"])

    def test_zsh(self):
        if shutil.which("zsh") is None:
            self.skipTest("no zsh")
        self.run_ok(["zsh", "-n", self.dir / "_urnic"])
        cases = {"urnic stat": "urnic status ", "urnic fault rem": "urnic fault remove ", "urnic run --stand": "urnic run --standalone ",
                 "urnic completion z": "urnic completion zsh ", "urnic run -- setpri": "urnic run -- setpriv "}
        for typed, complete in cases.items():
            with self.subTest(typed=typed):
                self.assertEqual(self.zsh_completes(typed, complete), complete)

    def zsh_completes(self, typed, expected):
        """What stands on the command line after a tab."""
        setup = f"PS1='>'; fpath=({self.dir} $fpath); autoload -U compinit; compinit -u -d {self.dir}/dump; zle_bracketed_paste=(); " \
                f"show() {{ print -r -- \"[$BUFFER]\" >{self.dir}/line; }}; zle -N show; bindkey '^T' show; print ready >{self.dir}/ready\n"
        for name in ("ready", "line"):
            (self.dir / name).unlink(missing_ok=True)
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**harness.clean_environment(), "TERM": "dumb", "HOME": str(self.dir)})
        try:
            os.write(terminal, setup.encode())
            self.drain_until(terminal, lambda: (self.dir / "ready").exists())
            os.write(terminal, typed.encode() + b"\t\x14")
            self.drain_until(terminal, lambda: (self.dir / "line").exists() and (self.dir / "line").read_text(encoding="utf-8").endswith("]\n"))
            return (self.dir / "line").read_text(encoding="utf-8")[1:-2]
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(terminal)

    def drain_until(self, terminal, condition):
        end = time.monotonic() + harness.PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), end, "zsh does not answer")
            if select.select([terminal], [], [], 0.05)[0]:
                os.read(terminal, 65536)


if __name__ == "__main__":
    harness.main()
