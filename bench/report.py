"""The report of a run: tables for people, JSON for programs, and a description of the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from msgspec import Struct
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from .runner import ScenarioResult, SideResult, Spread, Verdict
from .scenario import Goal

_COLUMNS = (
    "min..max",
    "speed",
    "min..max",
    "CPU µs/op",
    "CPU speed",
    "p50 µs",
    "p99 µs",
    "max µs",
    "peak MB",
    "B/op",
)
_PACKAGES = ("treering", "anyio", "msgspec", "trio", "uvloop")


class Machine(Struct, frozen=True):
    """The machine and versions that the figures depend on, without host names and paths."""

    system: str
    processor: str
    processors: int
    python: str
    packages: dict[str, str]


class Report(Struct, frozen=True):
    """The results of a whole run."""

    machine: Machine
    scale: str
    absent: dict[str, str]
    scenarios: list[ScenarioResult]


def describe_machine() -> Machine:
    """Describe this machine."""
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=_processor(),
        processors=os.cpu_count() or 1,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        packages={name: installed for name in _PACKAGES if (installed := _version(name))},
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


# -- tables


def show(report: Report, console: Console) -> None:
    """Print a run as tables."""
    facts = report.machine
    packages = ", ".join(f"{name} {installed}" for name, installed in facts.packages.items())
    console.print(f"{facts.processors} x {facts.processor}, {facts.system}, {facts.python}; {packages}")
    for name, why in report.absent.items():
        console.print(f"absent: {name} ({why})")
    for scenario in report.scenarios:
        console.print()
        console.print(_scenario(scenario))


def _scenario(result: ScenarioResult) -> Group:
    against = f"; speed against {result.yardstick}" if result.yardstick else ""
    head = Text.assemble((result.title, "bold"), f"  ({result.name}; rounds: {result.rounds}{against})")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for column in (result.unit, *_COLUMNS):
        table.add_column(column, justify="right", no_wrap=True)
    failed: list[Text] = []
    for side in result.sides:
        if side.figure is None:
            failed.append(Text(f"failed: {side.failed}", "red"))
        else:
            table.add_row(*_cells(side, side.figure))
    if any(side.durability for side in result.sides):
        durabilities = ", ".join(f"{side.name}: {side.durability}" for side in result.sides)
        head.append(f"\nan append that has returned survives: {durabilities}", "dim")
    lines: list[Table | Text] = [head, table, *failed, *(_verdict(each, result.unit) for each in result.verdicts)]
    if result.note:
        lines.append(Text(result.note, "dim"))
    return Group(*lines)


def _cells(side: SideResult, figure: Spread) -> Sequence[str]:
    return (
        side.name,
        number(figure.median),
        range_text(figure),
        number(side.speed.median) if side.speed else "",
        range_text(side.speed) if side.speed else "",
        number(side.cpu_us.median) if side.cpu_us else "",
        number(side.thrift.median) if side.thrift else "",
        *(number(each) if each is not None else "" for each in (side.p50_us, side.p99_us, side.max_us)),
        number(side.peak_bytes / 1e6) if side.peak_bytes else "",
        number(side.bytes_per_operation) if side.bytes_per_operation else "",
    )


def _verdict(verdict: Verdict, unit: str) -> Text:
    goal = verdict.goal
    text = goal_text(goal, unit)
    if verdict.value is None:
        return Text(f"goal: {text}: not measured here", "yellow")
    outcome = f"{number(verdict.value)}: {'met' if verdict.met else 'MISSED'}"
    return Text.assemble(f"goal: {text}: ", (outcome, "green" if verdict.met else "bold red"))


def goal_text(goal: Goal, unit: str) -> str:
    """Describe a goal in words."""
    other = "the yardstick's"
    if goal.against is not None:
        other = _possessive(goal.against[0]) if len(goal.against) == 1 else "the fastest store's"
    sign = ">=" if goal.of == "speed" else "<="
    measure = unit if goal.of == "figure" else f"x {other} {'speed' if goal.of == 'speed' else 'time'}"
    aim = f", aiming at {number(goal.aim)}" if goal.aim is not None else ""
    return f"{goal.side} {sign} {number(goal.limit)} {measure}{aim}"


def _possessive(name: str) -> str:
    return f"{name}'" if name.endswith("s") else f"{name}'s"


def range_text(spread: Spread) -> str:
    """Format the minimum and maximum."""
    return f"{number(spread.min)}..{number(spread.max)}"


def number(value: float) -> str:
    """Format a number with three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
