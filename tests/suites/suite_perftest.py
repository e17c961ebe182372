"""perftest's eight tools: every combination of connection, MTU, -q, -e, -I, -b and --use-srq that the tool has. The
short form runs a selection drawn with the seed, in which every value of every dimension of every tool occurs."""

import functools
import itertools
import random
import sys

import verdict
import harness
import pair

MTUS = [256, 512, 1024, 2048, 4096]
# What the help of each tool offers. A bidirectional UD or UC sender is not held back by its receiver, so that all
# messages have to find a receive posted beforehand: fewer of them than --rx-depth.
BANDWIDTH = {"-q": [1, 8], "-b": [False, True]}
LATENCY = {}
TOOLS = {
    "ib_send_bw": dict(BANDWIDTH, connection=["RC", "UC", "UD", "XRC"], events=True, inline=True, srq=True),
    "ib_send_lat": dict(LATENCY, connection=["RC", "UC", "UD", "XRC"], events=True, inline=True, srq=True),
    "ib_write_bw": dict(BANDWIDTH, connection=["RC", "UC", "XRC"], inline=True),
    "ib_write_lat": dict(LATENCY, connection=["RC", "UC", "XRC"], inline=True),
    "ib_read_bw": dict(BANDWIDTH, connection=["RC", "XRC"], events=True),
    "ib_read_lat": dict(LATENCY, connection=["RC", "XRC"], events=True),
    "ib_atomic_bw": dict(BANDWIDTH, connection=["RC", "XRC"], events=True),
    "ib_atomic_lat": dict(LATENCY, connection=["RC", "XRC"], events=True),
}
ITERATIONS = 200


def combinations(tool):
    """Option lists of all combinations, each as {dimension: value}."""
    offers = TOOLS[tool]
    dimensions = {
        "connection": offers["connection"],
        "mtu": MTUS,
        "qps": offers.get("-q", [1]),
        "events": [False, True] if offers.get("events") else [False],
        "inline": [0, 64] if offers.get("inline") else [0],
        "both": offers.get("-b", [False]),
        "srq": [False, True] if offers.get("srq") else [False],
    }
    for values in itertools.product(*dimensions.values()):
        chosen = dict(zip(dimensions, values))
        # UC has no SRQ (IBA 10.2.9); XRC receives from nothing else.
        if chosen["srq"] and chosen["connection"] in ("UC", "XRC"):
            continue
        yield chosen


def options_of(tool, chosen):
    options = ["-c", chosen["connection"], "-m", str(chosen["mtu"])]
    if chosen["qps"] > 1:
        options += ["-q", str(chosen["qps"])]
    if chosen["events"]:
        options += ["-e"]
    if chosen["inline"]:
        options += ["-I", str(chosen["inline"])]
    if chosen["both"]:
        options += ["-b"]
    if chosen["srq"]:
        options += ["--use-srq"]
    if not tool.startswith("ib_atomic"):
        # UD carries one packet; the others several, the last one short.
        size = 60 if chosen["inline"] else chosen["mtu"] if chosen["connection"] == "UD" else 10_000
        options += ["-s", str(size)]
    return options


def measure(tool, options):
    def common(port, device):
        return [tool, "-F", "-d", device, "-x", "1", "-p", str(port), "-n", str(ITERATIONS), *options]
    _, client = pair.run_pair(lambda port: common(port, "urnic0"), lambda port: [*common(port, "urnic1"), "127.0.0.1"],
                              timeout=40)
    try:
        harness.perftest_rows(client)
    except ValueError as problem:
        raise verdict.Refused(str(problem)) from problem


def all_checks():
    return [(tool, chosen) for tool in TOOLS for chosen in combinations(tool)]


def name_of(tool, chosen):
    return " ".join([tool, *options_of(tool, chosen)])


def selection(suite):
    """A few checks, drawn with the seed, until every value of every dimension of every tool and connection is among them."""
    checks, seen, chosen_checks = all_checks(), set(), []
    random.Random(suite.seed).shuffle(checks)
    checks = [check for check in checks if suite.is_run(name_of(*check))]
    for tool, chosen in checks:
        new = {(tool, dimension, value) for dimension, value in chosen.items()} - seen
        if len(new) > 1 or any(dimension != "mtu" for _, dimension, _ in new):
            chosen_checks.append((tool, chosen))
            seen |= new
    return chosen_checks


def main():
    suite = verdict.Verdict("perftest", __doc__)
    names = {name_of(tool, chosen): (tool, options_of(tool, chosen))
             for tool, chosen in (selection(suite) if suite.short else all_checks())}
    for name, (tool, options) in names.items():
        suite.run(name, functools.partial(measure, tool, options))
    suite.end(expected=names if suite.short else None)


if __name__ == "__main__":
    sys.exit(main())
