#!/usr/bin/python3
"""Runs the shipped scenarios and writes the table of docs/congestion.md: what is published or what the fluid model says, ours, and the
difference. Each [[expect]] of a scenario is a row."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent
PAGE = TOP / "docs/congestion.md"
PICTURES = TOP / "docs/pictures"
BEGIN, END = "<!-- experiments: scripts/bench experiments writes this -->", "<!-- end of experiments -->"


class Failure(Exception):
    pass


def lookup(run, path):
    """"summary.jain", "flow.H4.steady_gbit", "port.s1>h3.queue_kb.p90"; "least.H1+H2.steady_gbit" and "most." of several flows."""
    words = path.split(".")
    if words[0] in ("flow", "least", "most", "median", "ratio"):
        field = words[-1]
        names = ".".join(words[1:-1]).split("+")
        flows = {flow["name"]: flow for flow in run["flows"]}
        values = [flows[name][field] for name in names] if names != ["*"] else [flow[field] for flow in run["flows"]]
        return {"flow": lambda: values[0], "least": lambda: min(values), "most": lambda: max(values),
                "median": lambda: statistics.median(values), "ratio": lambda: values[0] / values[1]}[words[0]]()
    if words[0] == "port":
        value = next(port for port in run["ports"] if port["name"] == words[1])
        words = words[1:]
    elif words[0] == "during":
        # Means between two times: "during.100-200.first", in ms.
        first, last = (float(word) * 1000 for word in words[1].split("-"))
        times = run["series"]["time_us"]
        values = [value for time_us, value in zip(times, run["series"]["goodput_gbit"][words[2]]) if first <= time_us < last]
        return statistics.fmean(values)
    else:
        value = run[words[0]]
    for word in words[1:]:
        value = value[word]
    return value


def number(value):
    return value if isinstance(value, str) else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def over_runs(runs, which, path):
    """Of one run, or the middle, the least or the most of all."""
    if isinstance(which, int):
        return lookup(runs[which], path)
    return {"median": statistics.median, "least": min, "most": max}[which]([lookup(run, path) for run in runs])


def row(name, runs, expected):
    which, times = expected.get("run", 0), expected.get("times", 1)
    try:
        ours = over_runs(runs, which, expected["ours"]) * times
        other = expected.get("other", "")
        other = over_runs(runs, which, other) * times if isinstance(other, str) and other else other
    except (KeyError, IndexError, StopIteration, TypeError) as error:
        raise Failure(f"{name}: {expected['ours']}, {expected.get('other')}: not in the results: {error!r}") from error
    met = True
    if "least" in expected:
        met = ours >= expected["least"]
        shown, difference = f"at least {number(expected['least'])}", "met" if met else "**missed**"
    elif "most" in expected:
        met = ours <= expected["most"]
        shown, difference = f"at most {number(expected['most'])}", "met" if met else "**missed**"
    elif other == "":
        shown, difference = "", ""
    else:
        shown = number(other)
        difference = f"{100 * (ours / other - 1):+.1f} %" if other else f"{ours - other:+g}"
    return (f"| {name} | {expected['what']} | {shown} | {number(ours)} | {difference} | {expected['source']} |", met)


def simulate(program, path, out):
    began = time.monotonic()
    done = subprocess.run([program, path, "--out", out, "--no-draw"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{path.name}: {done.stderr.strip()}")
    print(done.stdout, end="", flush=True)
    return time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench experiments", description=__doc__)
    parser.add_argument("scenario", nargs="*", help="only these (names of experiment/scenarios); the page stays as it is")
    parser.add_argument("--out", type=pathlib.Path, help="keep the results there")
    parser.add_argument("--again", type=pathlib.Path, metavar="DIR", help="run nothing: the results lie there")
    options = parser.parse_args()
    build = pathlib.Path(os.environ.get("URNIC_BUILD", TOP / "build"))
    program = build / "experiment/urnic-experiment"
    names = options.scenario or sorted(path.stem for path in (HERE / "scenarios").glob("*.toml"))
    rows, missed, seconds = [], 0, {}
    with tempfile.TemporaryDirectory(prefix="urnic-experiments-") as scratch:
        out = options.again or options.out or pathlib.Path(scratch)
        for name in names:
            path = HERE / "scenarios" / f"{name}.toml"
            if not path.is_file():
                raise Failure(f"there is no scenario {name}; there are "
                              + ", ".join(sorted(each.stem for each in (HERE / "scenarios").glob("*.toml"))))
            scenario = tomllib.loads(path.read_text(encoding="utf-8"))
            seconds[name] = simulate(program, path, out) if options.again is None else 0
            runs = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))["runs"]
            for expected in scenario.get("expect", []):
                text, met = row(name, runs, expected)
                rows.append(text)
                missed += 0 if met else 1
            if scenario.get("picture") and not options.scenario:
                subprocess.run(["/usr/bin/python3", HERE / "draw.py", out / f"{name}.json", out], check=True, stdout=subprocess.DEVNULL)
                PICTURES.mkdir(exist_ok=True)
                shutil.copy(out / scenario["picture"], PICTURES / f"experiment-{name}.svg")
    table = "\n".join(["| scenario | what | published, or the model's | ours | difference | from |", "|---|---|---|---|---|---|", *rows])
    print("\n" + table)
    print(f"\n{sum(seconds.values()):.0f} s; the longest: " + ", ".join(
        f"{name} {seconds[name]:.1f} s" for name in sorted(seconds, key=seconds.get, reverse=True)[:3]))
    if not options.scenario:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    if missed:
        print(f"{missed} targets are missed")


if __name__ == "__main__":
    try:
        main()
    except Failure as error:
        sys.exit(f"table.py: {error}")
