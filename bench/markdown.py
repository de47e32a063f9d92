"""The tables of a result as Markdown for the documentation, each with the command that produces it."""

from __future__ import annotations

from collections.abc import Collection

from .report import Report, goal_text, number, range_text
from .runner import ScenarioResult, SideResult

_COLUMNS = (
    "",
    "{unit}",
    "min..max",
    "speed",
    "CPU µs/op",
    "CPU speed",
    "p50 µs",
    "p99 µs",
    "max µs",
    "peak MB",
    "B/op",
    "survives",
)

_LEGEND = (
    "Figures are medians of interleaved rounds. Speed is the yardstick's time divided by the side's, CPU speed the "
    "same for processor time: higher is better."
)


def tables(report: Report, charts: Collection[str]) -> str:
    """Format a result as Markdown.

    Args:
        report: The result.
        charts: The names of the scenarios that have a chart.
    """
    facts = report.machine
    packages = ", ".join(f"{name} {installed}" for name, installed in facts.packages.items())
    parts = [
        f"{facts.processors} x {facts.processor}, {facts.system}, {facts.python}; {packages}.",
        _LEGEND,
    ]
    parts += [f"Absent: {name} ({why})." for name, why in report.absent.items()]
    parts += [_scenario(each, report.scale, each.name in charts) for each in report.scenarios]
    return "\n\n".join(parts) + "\n"


def _scenario(result: ScenarioResult, scale: str, has_chart: bool) -> str:
    columns = [column.format(unit=result.unit) for column in _COLUMNS]
    rows = [columns, ["---", *["---:"] * (len(columns) - 2), "---"], *map(_row, result.sides)]
    against = f", speed against {result.yardstick}" if result.yardstick else ""
    lines = [
        f"## {result.title[0].upper()}{result.title[1:]}",
        f"`python -m bench run {result.name} --scale {scale}`; rounds: {result.rounds}{against}.",
    ]
    if has_chart:
        lines.append(f"![{result.title}]({result.name}.svg)")
    lines.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    for verdict in result.verdicts:
        met = "met" if verdict.met else "**missed**"
        outcome = "not measured" if verdict.value is None else f"{number(verdict.value)}, {met}"
        lines.append(f"- goal: {goal_text(verdict.goal, result.unit)}: {outcome}")
    lines += [result.note] if result.note else []
    return "\n\n".join(lines)


def _row(side: SideResult) -> list[str]:
    if side.figure is None:
        return [side.name, f"failed: {side.failed}", *[""] * (len(_COLUMNS) - 2)]
    return [
        side.name,
        number(side.figure.median),
        range_text(side.figure),
        number(side.speed.median) if side.speed else "",
        number(side.cpu_us.median) if side.cpu_us else "",
        number(side.thrift.median) if side.thrift else "",
        *(number(each) if each is not None else "" for each in (side.p50_us, side.p99_us, side.max_us)),
        number(side.peak_bytes / 1e6) if side.peak_bytes else "",
        number(side.bytes_per_operation) if side.bytes_per_operation else "",
        side.durability,
    ]
