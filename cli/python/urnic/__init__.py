"""RDMA NICs made of software: where their programs are, and a daemon with two RNICs for this process and its children."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

# What `urnic run` starts in `standalone`: it says what a program's environment is, and lasts until its input ends.
_HOLDER = "import json, os, sys; print(json.dumps(dict(os.environ)), flush=True); sys.stdin.read()"


def executable():
    """Path of the program `urnic`: the wheel's own, otherwise that of the search path. Raises FileNotFoundError."""
    own = pathlib.Path(__file__).resolve().parent / "tree/bin/urnic"
    found = str(own) if own.exists() else shutil.which("urnic")
    if found is None:
        raise FileNotFoundError(f"there is no program urnic: neither {own}, which the wheel brings, nor in PATH; install the wheel or the package urnic")
    return found


def device_names():
    """Names of the RNICs of the daemon that URNIC_RUN_DIR names, or of the system's; sorted."""
    status = subprocess.run([executable(), "status", "--json"], check=True, stdout=subprocess.PIPE, text=True)
    return sorted(device["name"] for device in json.loads(status.stdout)["devices"])


@contextlib.contextmanager
def standalone():
    """Runs a daemon with the RNICs urnic0 and urnic1 on a wire; within the `with` block children of this process see them.

    Yields the variables of the environment that show them. This process itself does not see them, because what does that is
    preloaded at a program's start: for verbs in this process start it by `urnic run --standalone`.
    """
    words = [executable(), "run", "--standalone", "--", sys.executable, "-c", _HOLDER]
    # In a session of its own: an interrupt from the terminal is for this process, which then ends it.
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as holder:
        answer = holder.stdout.readline()
        if not answer:
            raise RuntimeError(f"urnic run ended with exit status {holder.wait()}; its message is on standard error, and urnic doctor says what works here")
        shown = {name: value for name, value in json.loads(answer).items() if os.environ.get(name) != value}
        before = {name: os.environ.get(name) for name in shown}
        os.environ.update(shown)
        try:
            yield shown
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            holder.stdin.close()
            holder.wait()
