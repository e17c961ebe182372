#!/usr/bin/python3
"""draw.py RESULTS.json DIR: draws what an experiment gave, one SVG a run, one more for a sweep or for variants beside each other."""

import json
import pathlib
import re
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("draw.py: there is no matplotlib for /usr/bin/python3: apt-get install python3-matplotlib")
matplotlib.use("svg")
from matplotlib import pyplot

# The same file from the same figures; text stays text.
matplotlib.rcParams.update({"svg.hashsalt": "urnic", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False,
                            "axes.spines.right": False})
MOST_LINES = 12
MOST_POINTS = 300


def thinned(times, values):
    """Means of neighbours, so that a picture has no more points than it can show."""
    step = -(-len(times) // MOST_POINTS)
    if step <= 1:
        return times, values
    groups = range(0, len(times) - step + 1, step)
    return [times[i + step - 1] for i in groups], [sum(values[i:i + step]) / step for i in groups]


def lines(axes, times, series, label):
    """One line a name; many flows become few lines and the range of all."""
    names = list(series)
    shown = names if len(names) <= MOST_LINES else names[:: -(-len(names) // MOST_LINES)]
    for name in shown:
        axes.plot(*thinned(times, series[name]), label=name, linewidth=0.9)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.grid(True, alpha=0.3)
    if shown:
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)


def milliseconds(run):
    return [time / 1000 for time in run["series"]["time_us"]]


def lines_of_events(axes, run):
    series = run["series"]
    lines(axes, milliseconds(run), {what: series[what] for what in ("marks", "cnps", "pauses", "drops") if any(series[what])},
          "events so far")


def lines_of_credit(axes, run):
    """The part of each sample's time in which a port had packets to send and no credit for any of them."""
    times = [0, *run["series"]["time_us"]]
    parts = {}
    for port, so_far in run["series"]["xmit_wait_us"].items():
        waits = [0, *so_far]
        parts[port] = [100 * (waits[i] - waits[i - 1]) / (times[i] - times[i - 1]) for i in range(1, len(times))]
    lines(axes, milliseconds(run), parts, "without credit (% of time)")


def has_credits(run):
    return "xmit_wait_us" in run["series"]


def draw_run(name, run, path):
    series, times = run["series"], milliseconds(run)
    figure, rows = pyplot.subplots(3 if has_credits(run) else 5, 1, figsize=(9, 7.5 if has_credits(run) else 12), sharex=True)
    lines(rows[0], times, series["goodput_gbit"], "goodput (Gbit/s)")
    lines(rows[-2], times, series["queue_kb"], "queue (KB)")
    if has_credits(run):
        lines_of_credit(rows[-1], run)
    else:
        lines(rows[1], times, series["rate_gbit"], "rate RC (Gbit/s)")
        for values in list(series["target_gbit"].values())[:MOST_LINES]:
            rows[1].plot(*thinned(times, values), linewidth=0.5, linestyle=":", color="grey")
        lines(rows[2], times, series["alpha"], "alpha")
        if run["fluid"]:
            rows[3].axhline(run["fluid"]["queue_kb"], linewidth=0.8, linestyle="--", color="black")
        lines_of_events(rows[4], run)
    rows[-1].set_xlabel("time (ms)")
    rows[0].set_title(name + (": " + run["label"] if run["label"] else ""), fontsize=11)
    save(figure, path)


def draw_beside(runs, path):
    """Variants in columns, with the same axes for goodput and for queues."""
    figure, columns = pyplot.subplots(3, len(runs), figsize=(5.5 * len(runs), 7.5), sharex="col", squeeze=False)
    for run, (goodput, queue, held) in zip(runs, columns.T):
        lines(goodput, milliseconds(run), run["series"]["goodput_gbit"], "goodput (Gbit/s)")
        lines(queue, milliseconds(run), run["series"]["queue_kb"], "queue (KB)")
        (lines_of_credit if has_credits(run) else lines_of_events)(held, run)
        held.set_xlabel("time (ms)")
        goodput.set_title(run["label"], fontsize=11)
    for row in columns[:2]:
        top = max(axes.get_ylim()[1] for axes in row)
        for axes in row:
            axes.set_ylim(0, top)
    figure.tight_layout()
    save(figure, path)


def draw_sweep(name, runs, path):
    labels = [run["label"].split(" = ", 1)[1] for run in runs]
    figure, rows = pyplot.subplots(3, 1, figsize=(8, 8), sharex=True)
    place = range(len(runs))
    rows[0].plot(place, [run["summary"]["utilisation"] for run in runs], marker="o")
    rows[0].set_ylabel("utilisation")
    rows[1].plot(place, [run["summary"]["jain"] for run in runs], marker="o")
    rows[1].set_ylabel("Jain's index")
    for part in ("mean", "p90", "max"):
        rows[2].plot(place, [run["summary"]["queue_kb"][part] for run in runs], marker="o", label=part)
    if all(run["fluid"] for run in runs):
        rows[2].plot(place, [run["fluid"]["queue_kb"] for run in runs], linestyle="--", color="black", label="fluid model")
    rows[2].set_ylabel("queue (KB)")
    rows[2].legend(fontsize=8)
    rows[2].set_xticks(list(place), labels)
    rows[2].set_xlabel(runs[0]["label"].split(" = ", 1)[0])
    rows[0].set_title(name, fontsize=11)
    for axes in rows:
        axes.grid(True, alpha=0.3)
    save(figure, path)


def save(figure, path):
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None}, facecolor="white")
    pyplot.close(figure)
    print(f"drawn: {path}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        document = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
        draw(document, pathlib.Path(sys.argv[2]))
    except (ValueError, KeyError, TypeError) as error:
        sys.exit(f"draw.py: {sys.argv[1]} does not hold the series of an experiment or a trace: {error!r}")


def draw(document, out):
    for run in document["runs"]:
        suffix = "-" + re.sub(r"[^A-Za-z0-9.]+", "-", run["label"]) if run["label"] else ""
        draw_run(document["name"], run, out / f"{document['name']}{suffix}.svg")
    if document.get("is_comparison"):
        draw_beside(document["runs"], out / f"{document['name']}.svg")
    elif len(document["runs"]) > 1:
        draw_sweep(document["name"], document["runs"], out / f"{document['name']}.svg")


if __name__ == "__main__":
    main()
