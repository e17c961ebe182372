"""ibv_{rc,uc,ud,srq,xsrq}_pingpong: with and without -e and -c (where the tool validates), in sizes around the MTUs."""

import functools
import re
import sys

import verdict
import pair

ITERATIONS = {"rc": 200, "uc": 200, "ud": 200, "srq": 50}
SIZES = {"rc": (1, 1024, 4096, 10_001, 1 << 20), "uc": (1, 1024, 10_001, 1 << 20), "ud": (1, 2048, 4096),
         "srq": (1, 4096, 10_001)}
EXTRA = {"rc": (["-N"], ["-t"], ["-j"], ["-N", "-e", "-c"], ["-m", "256"], ["-m", "4096"], ["-g", "0"]),
         "uc": (["-m", "256"], ["-m", "4096"], ["-g", "0"]), "ud": (["-g", "0"],),
         "srq": (["-q", "1"], ["-q", "64"], ["-m", "256"], ["-g", "0"])}


def commands(tool, options, port, device, peer):
    gid = [] if "-g" in options else ["-g", "1"]
    return [f"ibv_{tool}_pingpong", "-d", device, "-p", str(port), *gid, *options, *peer]


def run_tool(tool, options):
    return pair.run_pair(lambda port: commands(tool, options, port, "urnic0", []),
                         lambda port: commands(tool, options, port, "urnic1", ["127.0.0.1"]))


def pingpong(tool, options):
    count = ITERATIONS[tool]
    for result in run_tool(tool, ["-n", str(count), *options]):
        if not re.search(rf"{count} iters in [0-9.]+ seconds", result.out):
            raise verdict.Refused(f"no figures: {result}")
        if re.search("invalid data", result.out + result.err):
            raise verdict.Refused(f"wrong data: {result}")


def checks(short):
    for tool, sizes in SIZES.items():
        for size in sizes:
            # The last size is one of several packets, or for UD the largest.
            if not short or size == sizes[-1]:
                for options in ([], ["-c"], ["-e"], ["-c", "-e"]):
                    yield tool, ["-s", str(size), *options]
        for options in EXTRA[tool]:
            yield tool, options


def xrc(options, clients):
    """xsrq_pingpong's -c is a number of clients, each with its own QP on the one SRQ of the server."""
    def server(port):
        return commands("xsrq", [*options, "-c", str(clients)], port, "urnic0", [])

    def client(port):
        one = " ".join(commands("xsrq", options, port, "urnic1", ["127.0.0.1"]))
        # All of them at once: the server waits for the last before it begins.
        return ["bash", "-c", f"pids=; for i in {{1..{clients}}}; do {one} & pids+=\" $!\"; done; "
                              "for pid in $pids; do wait $pid || exit 1; done"]
    for result in pair.run_pair(server, client):
        if re.search("invalid|mismatch|Failed", result.out + result.err):
            raise verdict.Refused(str(result))


XRC = [(options, clients) for options in ([], ["-e"], ["-s", "100000"], ["-s", "1", "-e"], ["-g", "0"])
       for clients in (1, 4)]


def main():
    suite = verdict.Verdict("pingpong", __doc__)
    names = []
    for tool, options in checks(suite.short):
        names.append(" ".join([tool, *options]))
        suite.run(names[-1], functools.partial(pingpong, tool, options))
    for options, clients in XRC:
        names.append(" ".join(["xsrq", *options, "-c", str(clients)]))
        suite.run(names[-1], functools.partial(xrc, options, clients))
    suite.end(expected=names if suite.short else None)


if __name__ == "__main__":
    sys.exit(main())
