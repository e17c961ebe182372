"""Draws one picture: medians as lines, quartiles as bars; ours strong, the others thin."""

import pathlib
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot, ticker

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import machine

# The same file from the same figures; text stays text.
matplotlib.rcParams.update({"svg.hashsalt": "urnic", "svg.fonttype": "none", "font.size": 10, "axes.spines.top": False,
                            "axes.spines.right": False})
OURS = ("#b30000", "#e34a33", "#fc8d59", "#7f0000")
OTHERS = ("#08519c", "#4292c6", "#238b45", "#74c476", "#41ab5d", "#6a51a3", "#9e9ac8", "#737373")
MARKERS = "osD^v<>pP*"


def size_label(size):
    for unit, power in (("MB", 20), ("KB", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):g} {unit}"
    return f"{size:g} B"


def x_label(picture, value):
    unit = picture["x"]["unit"]
    if unit == "B":
        return size_label(value)
    return f"{value * 100:g} %" if unit == "%" else f"{value:g}"


def draw(picture, samples, path):
    """`samples`: series -> x (text) -> figures."""
    figure, axes = pyplot.subplots(figsize=(8.5, 5))
    all_x = sorted({float(x) for points in samples.values() for x in points})
    ours = [series["name"] for series in picture["series"] if series.get("urnic")]
    colours = {name: OURS[i % len(OURS)] for i, name in enumerate(ours)}
    others = [series["name"] for series in picture["series"] if not series.get("urnic")]
    colours |= {name: OTHERS[i % len(OTHERS)] for i, name in enumerate(others)}
    for number, (name, points) in enumerate(samples.items()):
        found = [(all_x.index(float(x)), machine.summary(values)) for x, values in points.items() if values]
        if not found:
            continue
        middle = [value["median"] for _, value in found]
        bars = [[max(0, value["median"] - value["q1"]) for _, value in found], [max(0, value["q3"] - value["median"]) for _, value in found]]
        axes.errorbar([x for x, _ in found], middle, yerr=bars, label=name, color=colours[name], capsize=2, elinewidth=0.8,
                      linewidth=2.4 if name in ours else 1.1, marker=MARKERS[number % len(MARKERS)], markersize=5 if name in ours else 4,
                      zorder=3 if name in ours else 2)
    axes.set_yscale("log")
    axes.set_xticks(range(len(all_x)), [x_label(picture, x) for x in all_x])
    axes.set_xlabel(picture["x"]["name"])
    axes.set_ylabel(f"{picture['y']['name']} ({picture['y']['unit']}), {picture['y']['better']} is better")
    axes.set_title(picture["title"], fontsize=11)
    plain = ticker.FuncFormatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(plain)
    lowest, highest = axes.get_ylim()
    axes.yaxis.set_minor_formatter(plain if highest < 10 * lowest else ticker.NullFormatter())
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None}, facecolor="white")
    pyplot.close(figure)
