"""What a run says: tables for people, JSON for programs, and the facts about the machine that go with the figures."""

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

_COLUMNS = ("least..most", "speed", "least..most", "CPU µs/op", "CPU speed", "p50 µs", "p99 µs")
_PACKAGES = ("treering", "anyio", "msgspec", "trio", "uvloop")


class Machine(Struct, frozen=True):
    """What the figures depend on. It names no host and no path."""

    system: str
    processor: str
    processors: int
    python: str
    packages: dict[str, str]


class Report(Struct, frozen=True):
    """A whole run."""

    machine: Machine
    scale: str
    absent: dict[str, str]
    scenarios: list[ScenarioResult]


def machine() -> Machine:
    """Look at the machine."""
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=_processor(),
        processors=os.cpu_count() or 1,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        packages={name: found for name in _PACKAGES if (found := _version(name))},
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
    packages = ", ".join(f"{name} {found}" for name, found in facts.packages.items())
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
    for side in result.sides:
        table.add_row(*_cells(side))
    lines: list[Table | Text] = [head, table, *(_verdict(each, result.unit) for each in result.verdicts)]
    if result.note:
        lines.append(Text(result.note, "dim"))
    return Group(*lines)


def _cells(side: SideResult) -> Sequence[str]:
    return (
        side.name,
        number(side.figure.median),
        _range(side.figure),
        number(side.speed.median) if side.speed else "",
        _range(side.speed) if side.speed else "",
        number(side.cpu_us.median) if side.cpu_us else "",
        number(side.thrift.median) if side.thrift else "",
        number(side.p50_us) if side.p50_us is not None else "",
        number(side.p99_us) if side.p99_us is not None else "",
    )


def _range(spread: Spread) -> str:
    return f"{number(spread.min)}..{number(spread.max)}"


def _verdict(verdict: Verdict, unit: str) -> Text:
    goal = verdict.goal
    sign = ">=" if goal.of == "speed" else "<="
    what = (
        unit if goal.of == "figure" else {"speed": "x the yardstick's speed", "cost": "x the yardstick's time"}[goal.of]
    )
    wanted = f"{goal.side} {sign} {number(goal.limit)} {what}"
    aim = f", aiming at {number(goal.aim)}" if goal.aim is not None else ""
    if verdict.value is None:
        return Text(f"goal: {wanted}{aim}: not measured here", "yellow")
    outcome = f"{number(verdict.value)}: {'met' if verdict.met else 'MISSED'}"
    return Text.assemble(f"goal: {wanted}{aim}: ", (outcome, "green" if verdict.met else "bold red"))


def number(value: float) -> str:
    """Write a number with three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
