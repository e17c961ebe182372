#!/usr/bin/python3
"""usage: greedy.py SOCKET idle COUNT: so many connections to a daemon, each with a QP that does nothing, until the end of the input.
       greedy.py SOCKET registrations: registers and deregisters 64 MiB that are there, until it is killed.
       greedy.py SOCKET deaths: makes 28,000 objects and is killed with them.
"""

import mmap
import os
import pathlib
import resource
import signal
import sys

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e"
sys.path[:0] = [str(TESTS), str(TESTS / "tenants")]
import raw_client

REGISTERED_BYTES = 64 << 20
# Below what a user may have of each by default.
PDS, CQS, MWS = 8000, 4000, 16000


def idle_client(path):
    client = raw_client.RawClient(path)
    context = client.open_device()
    client.create_qp(client.alloc_pd(context), client.create_cq(context))
    return client


def idle(path, count):
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    clients = [idle_client(path) for _ in range(int(count))]
    print(len(clients), flush=True)
    sys.stdin.read()


def registrations(path):
    client, file = raw_client.RawClient(path), raw_client.memory_file()
    address = 1 << 40
    with mmap.mmap(file, REGISTERED_BYTES, offset=address) as memory:
        for page in range(0, REGISTERED_BYTES, mmap.PAGESIZE):
            memory[page] = 1
    client.attach_memory(file)
    pd = client.alloc_pd(client.open_device())
    while True:
        client.dereg_mr(client.reg_mr(pd, address, REGISTERED_BYTES))


def deaths(path):
    client = raw_client.RawClient(path)
    context = client.open_device()
    pds = [client.alloc_pd(context) for _ in range(PDS)]
    for _ in range(CQS):
        client.create_cq(context)
    for number in range(MWS):
        client.alloc_mw(pds[number % PDS])
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    path, what, *words = sys.argv[1:]
    {"idle": idle, "registrations": registrations, "deaths": deaths}[what](path, *words)


if __name__ == "__main__":
    main()
