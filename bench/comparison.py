"""Compares two results relative to the yardstick of each run, since machines and conditions differ."""

from __future__ import annotations

from rich.table import Table

from .report import Report, number
from .runner import SideResult


def comparison_table(old: Report, new: Report) -> Table:
    """Make a table of everything that both runs measured.

    Compares the speed relative to the yardstick, or the figure itself where there is no yardstick; "change" is how many
    times better the new value is.
    """
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("scenario", "side"):
        table.add_column(column)
    for column in ("of", "before", "after", "change"):
        table.add_column(column, justify="right", no_wrap=True)
    earlier = {(scenario.name, side.name): side for scenario in old.scenarios for side in scenario.sides}
    for scenario in new.scenarios:
        for side in scenario.sides:
            before = earlier.get((scenario.name, side.name))
            if before is None or (figures := _figures(before, side)) is None:
                continue
            of, was, now, change = figures
            style = "green" if change > 1.1 else "red" if change < 1 / 1.1 else ""
            row = (scenario.name, side.name, of or scenario.unit, number(was), number(now), f"{change:.2f}x")
            table.add_row(*row, style=style)
    return table


def _figures(before: SideResult, after: SideResult) -> tuple[str, float, float, float] | None:
    if before.speed is not None and after.speed is not None:
        was, now = before.speed.median, after.speed.median
        return "speed", was, now, now / was
    if before.figure is not None and after.figure is not None:
        was, now = before.figure.median, after.figure.median
        return "", was, now, was / now
    return None
