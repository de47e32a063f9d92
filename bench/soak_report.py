"""The report of a soak: memory over time, pauses, delays, and whether every entry is stored."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .report import number
from .soak import FULL_PAUSE_MAX_MS, SoakResult
from .watching import Pauses

_ROWS = 12


def show_soak(result: SoakResult, console: Console) -> None:
    """Print the result of a soak."""
    options, facts = result.options, result.machine
    console.print(f"{facts.processors} x {facts.processor}, {facts.system}, {facts.python}")
    console.print(
        f"{options.agents:,} agents, {options.hours:g} virtual hours in {result.real_s:,.0f} s "
        f"({result.cpu_s:,.0f} s of processor time): {result.entries:,} entries, {result.bytes / 1e6:,.0f} MB"
    )
    console.print(", ".join(f"{count:,} {what}" for what, count in sorted(result.did.items())))
    console.print()
    console.print(_over_time(result))
    console.print()
    console.print(
        f"full collections: {_pause_text(result.full_pauses)}; the others: {_pause_text(result.young_pauses)}"
    )
    console.print(
        f"a ticker of 5 ms was late by {number(result.late_p50_ms)} ms p50, {number(result.late_p99_ms)} ms p99, "
        f"{number(result.late_max_ms)} ms at most; commits took {number(result.commit_p99_ms)} ms p99"
    )
    kinds = ", ".join(f"{name.removeprefix('builtins.')} {count:,}" for name, count in result.tracked_types.items())
    console.print(f"the collector tracked {result.tracked:,} objects at the end: {kinds}", style="dim")
    console.print(_verdict("no full collection takes", result.full_pauses.max_ms, FULL_PAUSE_MAX_MS))
    summary = f"checked {result.checked.entries:,} entries in all logs, {result.checked.replayed:,} sessions replayed: "
    if result.checked.lost:
        console.print(Text.assemble(summary, ("NOT AS ACKNOWLEDGED", "bold red")))
        for each in result.checked.lost:
            console.print(Text(each, "red"))
    else:
        console.print(Text.assemble(summary, ("all there", "green")))


def _over_time(result: SoakResult) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in (
        "hours",
        "resident MB",
        "traced MB",
        "blocks",
        "live",
        "resting",
        "passivations",
        "following",
        "entries",
    ):
        table.add_column(column, justify="right", no_wrap=True)
    last = len(result.samples) - 1
    for at in sorted({round(row * last / (_ROWS - 1)) for row in range(_ROWS)}):
        sample = result.samples[at]
        traced = sample.memory.traced_bytes
        table.add_row(
            f"{sample.at_hours:.2f}",
            f"{sample.memory.resident_bytes / 1e6:.1f}",
            "" if traced is None else f"{traced / 1e6:.1f}",
            f"{sample.memory.blocks:,}",
            f"{sample.live:,}",
            f"{sample.resting:,}",
            f"{sample.passivations:,}",
            f"{sample.subscribers:,}",
            f"{sample.entries:,}",
        )
    return table


def _pause_text(pauses: Pauses) -> str:
    if not pauses.count:
        return "none"
    longest = f"{number(pauses.max_ms)} ms at most ({number(pauses.cpu_max_ms)} ms of processor time)"
    return f"{pauses.count:,}, {longest}, {number(pauses.total_ms)} ms in total"


def _verdict(claim: str, value: float, limit: float) -> Text:
    met = value <= limit
    outcome = f"{number(value)}: {'met' if met else 'MISSED'}"
    return Text.assemble(f"goal: {claim} more than {number(limit)} ms: ", (outcome, "green" if met else "bold red"))
