"""Two results held against each other: by the yardstick of each run, since machines and days differ."""

from __future__ import annotations

from rich.table import Table

from .report import Report, number
from .runner import SideResult


def compared(old: Report, new: Report) -> Table:
    """Make a table of what both runs measured.

    The figure that counts is the speed against the yardstick where there is one, else the figure itself; "change" is how
    many times better the new one is.
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
