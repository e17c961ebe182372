"""Runs a command beside an RNIC, urnic0, that stands on an interface of the kernel and has its addresses: on_interface.py COMMAND...

In a network of its own, by packet sockets; what is sent to urnic0's own address goes from urnic0 to urnic0.
"""

import pathlib
import subprocess
import sys
import tempfile

import verdict  # finds the tests' modules
import harness
import netns

assert verdict
ADDRESS = "10.78.0.1"
CONFIG = """
[daemon]
run_dir = "{directory}/run"
workers = 1
hugepages = false
[[rnic]]
name = "urnic0"
port = "af_packet"
interface = "rnic0"
"""


def make_interface():
    pathlib.Path("/proc/sys/net/ipv6/conf/default/accept_dad").write_text("0", encoding="ascii")
    netns.ip("link", "add", "rnic0", "type", "veth", "peer", "name", "rnic1")
    netns.ip("addr", "add", f"{ADDRESS}/24", "dev", "rnic0")
    for name in ("rnic0", "rnic1"):
        netns.ip("link", "set", name, "mtu", 4200, "up")


def main():
    netns.private()
    make_interface()
    with tempfile.TemporaryDirectory(prefix="urnic-on-interface-") as name:
        directory = pathlib.Path(name)
        (directory / "urnicd.toml").write_text(CONFIG.format(directory=directory), encoding="utf-8")
        socket = ["--socket", directory / "run/control.sock"]
        with (directory / "log").open("w", encoding="utf-8") as log:
            daemon = subprocess.Popen([harness.BUILD / "urnicd", "--config", directory / "urnicd.toml"], stderr=log,
                                      stdin=subprocess.DEVNULL, env=harness.clean_environment())
        gid = "0a4e:0001"  # the end of the address's GID

        def is_ready():
            return daemon.poll() is not None or gid in harness.run([harness.URNIC, "status", "--json", *socket]).out
        if not harness.wait_until(is_ready, pause=0.1) or daemon.poll() is not None:
            daemon.kill()
            sys.exit(f"urnicd did not come up: {(directory / 'log').read_text(encoding='utf-8')}")
        result = subprocess.run([harness.URNIC, "run", *socket, "--", *sys.argv[1:]], check=False)
        daemon.terminate()
        ended = daemon.wait(harness.PATIENCE_S)
        if ended != 0:
            sys.exit(f"urnicd ended with status {ended}: {(directory / 'log').read_text(encoding='utf-8')}")
    sys.exit(result.returncode)


if __name__ == "__main__":
    main()
