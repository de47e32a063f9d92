"""Charts: for a run, one bar per side, fastest on top, with minimum and maximum; for a soak, memory over time.

The chart of a soak also shows how many sessions were live.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from .report import Report, number
from .runner import ScenarioResult, Spread
from .soak import SoakResult

_OURS, _OTHERS = "#2a7f62", "#9aa5b1"


def draw(report: Report, folder: Path) -> list[Path]:
    """Draw each scenario with at least two sides, as PNG and SVG.

    Args:
        report: The result.
        folder: Where the files go; each is named after its scenario.

    Returns:
        The files.
    """
    drawn: list[Path] = []
    with mpl.rc_context({"svg.hashsalt": "treering", "font.size": 9}):
        for scenario in report.scenarios:
            sides = [(side.name, side.figure) for side in scenario.sides if side.figure is not None]
            if len(sides) < 2:
                continue
            figure = _bars(scenario, sorted(sides, key=lambda side: -side[1].median))
            drawn += _save(figure, folder / scenario.name)
    return drawn


def draw_soak(result: SoakResult, folder: Path) -> list[Path]:
    """Draw the memory of a soak over time, as PNG and SVG.

    Args:
        result: The result of the soak.
        folder: Where the files go; they are named `soak`.

    Returns:
        The files.
    """
    with mpl.rc_context({"svg.hashsalt": "treering", "font.size": 9}):
        return _save(_lines(result), folder / "soak")


def _save(figure: Figure, path: Path) -> list[Path]:
    files = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
    for each in files:
        figure.savefig(each, dpi=130, metadata={"Date": None} if each.suffix == ".svg" else None)
    return files


def _lines(result: SoakResult) -> Figure:
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    above, below = figure.subplots(2, sharex=True, height_ratios=(2, 1))
    hours = [sample.at_hours for sample in result.samples]
    above.plot(hours, [each.memory.resident_bytes / 1e6 for each in result.samples], color=_OURS, label="resident")
    traced = [each.memory.traced_bytes for each in result.samples]
    if result.options.trace:
        above.plot(hours, [(each or 0) / 1e6 for each in traced], color="#b5651d", label="traced")
    above.set_ylabel("MB")
    above.set_ylim(bottom=0)
    above.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    agents, length = result.options.agents, result.options.hours
    above.set_title(f"memory of a host with {agents:,} agents, {length:g} hours", loc="left", size=10, weight="bold")
    for name, color, counts in (
        ("live", _OURS, [each.live for each in result.samples]),
        ("resting", _OTHERS, [each.resting for each in result.samples]),
    ):
        below.plot(hours, counts, color=color, label=name)
    below.set_ylabel("sessions")
    below.set_xlabel("virtual hours")
    below.set_ylim(bottom=0)
    below.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _bars(scenario: ScenarioResult, sides: list[tuple[str, Spread]]) -> Figure:
    figure = Figure(figsize=(8, 0.9 + 0.3 * len(sides)), layout="constrained")
    axes = figure.subplots()
    names = [name for name, _ in sides]
    medians = [spread.median for _, spread in sides]
    spreads = [[spread.median - spread.min for _, spread in sides], [spread.max - spread.median for _, spread in sides]]
    colors = [_OURS if name.startswith("treering") else _OTHERS for name in names]
    axes.barh(names, medians, xerr=spreads, color=colors, error_kw={"elinewidth": 0.8, "ecolor": "#444"})
    if max(medians) > 30 * min(medians):
        axes.set_xscale("log")
    for at, (_, spread) in enumerate(sides):
        axes.annotate(number(spread.median), (spread.max, at), (4, 0), textcoords="offset points", va="center", size=8)
    axes.set_title(scenario.title, loc="left", size=10, weight="bold")
    axes.set_xlabel(f"{scenario.unit}; lower is better")
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
