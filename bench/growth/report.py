"""The report of growth: tables in Markdown, and a chart for each axis."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from ..report import number
from .curves import SLACK, Axis, Curve, Growth

_EXPECTED = {0: "flat", 1: "linear"}
_WHAT: dict[Axis, str] = {
    "sessions": "More sessions",
    "entries": "A longer session",
    "followers": "More followers",
    "bytes": "Longer messages",
}
_COLORS = (
    *("#2a7f62", "#b5651d", "#3b6fb6", "#c0392b", "#7d5ba6", "#6b7a8f"),
    *("#1a9ba8", "#d68fb5", "#8a6d3b", "#a3b53a", "#e0a030", "#444444"),
)


def in_markdown(growth: Growth) -> str:
    """Return the tables as Markdown, each with its chart."""
    facts = growth.machine
    packages = ", ".join(f"{name} {installed}" for name, installed in facts.packages.items())
    how = (
        f"Produced by `python -m bench growth --scale {growth.scale} --to docs/benchmarks`. Figures are microseconds "
        f"of processor time of one operation, of all threads; the median of {growth.rounds} rounds, each in a process "
        "of its own. Messages have 1 KB unless it is their length that grows."
    )
    exponents = (
        "The exponent is that of the last two powers of ten: 0 is flat, 1 is proportional to the size, and a negative "
        f"one is a fixed cost that many share. It should be at most {SLACK} above the expected one; others are in bold."
    )
    machine = f"{facts.processors} x {facts.processor}, {facts.system}, {facts.python}; {packages}."
    parts = ["# How costs grow", how, machine, exponents]
    for axis, curves in groupby(growth.curves, key=lambda curve: curve.axis):
        parts += _axis(axis, list(curves))
    return "\n\n".join(parts) + "\n"


def _axis(axis: Axis, curves: list[Curve]) -> list[str]:
    sizes = sorted({point.size for curve in curves for point in curve.points})
    rows = [
        ["", *(f"{size:,}" for size in sizes), "exponent", "expected"],
        ["---", *["---:"] * len(sizes), "---:", "---"],
        *(_row(curve, sizes) for curve in curves),
    ]
    chart = f"![{_WHAT[axis]}: the processor time of one operation](growth-{axis}.svg)"
    parts = [f"## {_WHAT[axis]}", chart, "\n".join(f"| {' | '.join(row)} |" for row in rows)]
    return parts + [f"- {curve.title}: {curve.why}." for curve in curves if curve.why and not curve.is_as_expected]


def _row(curve: Curve, sizes: list[int]) -> list[str]:
    took = {point.size: point.cpu_us for point in curve.points}
    slope = "" if curve.slope is None else f"{curve.slope:.2f}"
    return [
        curve.title,
        *(number(took[size]) if size in took else "" for size in sizes),
        f"**{slope}**" if curve.is_as_expected is False else slope,
        _EXPECTED[curve.expected],
    ]


def draw(growth: Growth, folder: Path) -> list[Path]:
    """Draw a chart for each axis as SVG.

    Args:
        growth: What was measured.
        folder: Where the files go; they are named `growth-` and the axis.

    Returns:
        The files.
    """
    drawn: list[Path] = []
    with mpl.rc_context({"svg.hashsalt": "treering", "font.size": 9}):
        for axis, curves in groupby(growth.curves, key=lambda curve: curve.axis):
            path = folder / f"growth-{axis}.svg"
            _lines(axis, list(curves)).savefig(path, metadata={"Date": None})
            drawn.append(path)
    return drawn


def _lines(axis: Axis, curves: list[Curve]) -> Figure:
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.subplots()
    for curve, color in zip(sorted(curves, key=lambda each: -each.points[-1].cpu_us), _COLORS, strict=False):
        style = "-" if curve.expected == 0 else "--"
        took = [point.cpu_us for point in curve.points]
        label = curve.title if curve.slope is None else f"{curve.title}: {curve.slope:.2f}"
        axes.plot([point.size for point in curve.points], took, style, marker="o", ms=3, color=color, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(axis)
    axes.set_ylabel("µs of processor time")
    axes.set_title(f"{_WHAT[axis]}: should be flat (solid) or linear (dashed)", loc="left", size=10, weight="bold")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
    axes.grid(which="major", color="#ddd", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
