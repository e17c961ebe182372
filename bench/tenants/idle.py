#!/usr/bin/python3
"""usage: idle.py SOCKET COUNT: so many connections to a daemon, each with a QP that does nothing, until the end of the input."""

import pathlib
import resource
import sys

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e"
sys.path[:0] = [str(TESTS), str(TESTS / "tenants")]
import raw_client


def idle_client(path):
    client = raw_client.RawClient(path)
    context = client.open_device()
    client.create_qp(client.alloc_pd(context), client.create_cq(context))
    return client


def main():
    path, count = sys.argv[1], int(sys.argv[2])
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    clients = [idle_client(path) for _ in range(count)]
    print(len(clients), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
