"""Where the programs run: a network of its own, in which an interface has the RNICs' addresses as well, under `urnic run --standalone`.

Programs that look for an interface with the RNIC's address (libfabric, UCX) find it. What goes over TCP goes by the loopback of that network.
"""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

import harness
import netns

SERVER, CLIENT = "198.18.0.1", "198.18.0.2"
INSIDE = "URNIC_APPLICATIONS"


class Failed(Exception):
    """A program did not do what it is for; the text has what it said."""


def enter():
    """Comes back inside; the process is another then."""
    if os.environ.get(INSIDE) == os.environ.get("URNIC_RUN_DIR", "none"):
        return
    if "URNIC_RUN_DIR" not in os.environ:
        netns.private()
        netns.ip("link", "add", "hosts0", "type", "veth", "peer", "name", "hosts1")
        for address in (SERVER, CLIENT):
            netns.ip("addr", "add", f"{address}/32", "dev", "hosts0")
        for name in ("hosts0", "hosts1"):
            netns.ip("link", "set", name, "up")
        os.execv(harness.URNIC, [harness.URNIC, "run", "--standalone", "--", sys.executable, *sys.argv])
    os.environ[INSIDE] = os.environ["URNIC_RUN_DIR"]


def status():
    return json.loads(harness.run([harness.URNIC, "status", "--json"], env=dict(os.environ)).out)


def sent_bytes():
    """Of all frames that the RNICs sent so far."""
    return sum(device["counters"]["sent_bytes"] for device in status()["devices"])


def environment(rdma, more=None):
    """With the RNICs, or without."""
    return dict(os.environ if rdma else harness.clean_environment(), **(more or {}))


def listens(rdma, port, process):
    """Whether a server takes clients: by the connection manager, or by TCP."""
    if rdma and any(client.get("cm_listeners") for client in status()["clients"]):
        return True
    return not rdma and harness.listening(port, process.pid)


def run(words, rdma, more=None, timeout=harness.PATIENCE_S):
    """What a program that ends by itself prints. Raises Failed."""
    result = harness.run(words, timeout, env=environment(rdma, more))
    if result.returncode != 0:
        raise Failed(f"{' '.join(map(str, words))}: {result}")
    return result.out + result.err


def pair(server, client, rdma, port, more=None, by_tcp=False):
    """What the client prints; the server is ended when it has not ended by itself a second later. Raises Failed.

    `by_tcp`: the server listens by TCP, whatever it does later."""
    serving = harness.start(server, env=environment(rdma, more))
    try:
        ready = harness.wait_until(
            lambda: listens(rdma and not by_tcp, port, serving) or serving.poll() is not None, pause=0.05)
        if not ready or serving.poll() is not None:
            harness.end_group(serving)
            raise Failed(f"{' '.join(server)} does not listen: {harness.finish(serving)}")
        try:
            return run(client, rdma, more)
        except Failed as failure:
            harness.end_group(serving)
            raise Failed(f"{failure}\nserver: {harness.finish(serving)}") from failure
    finally:
        harness.wait_until(lambda: serving.poll() is not None, 1)
        harness.end_group(serving)
        harness.finish(serving)
