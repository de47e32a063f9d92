"""The charts of a result: bars, one for each side, the fastest on top, with the least and the greatest."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from .report import Report, number
from .runner import ScenarioResult, Spread

_OURS, _OTHERS = "#2a7f62", "#9aa5b1"


def draw(report: Report, folder: Path) -> list[Path]:
    """Draw each scenario that has two sides or more, as PNG and SVG.

    Args:
        report: The result.
        folder: Where the pictures go; they are called by their scenarios.

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
            for suffix in ("png", "svg"):
                path = folder / f"{scenario.name}.{suffix}"
                figure.savefig(path, dpi=130, metadata={"Date": None} if suffix == "svg" else None)
                drawn.append(path)
    return drawn


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
    axes.set_xlabel(f"{scenario.unit}; less is better")
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
