"""The command `python -m bench adapters`, and its tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from ..report import number, range_text
from ..workspace import Workspace
from . import all_pairs
from .comparing import AIM, FIGURES, LATEST, SIZES, Comparison, Figure, Pair, beside_others, compare, write

_COLUMNS = ("", "conversations", "theirs", "min..max", "treering", "min..max", "times better")


@click.command("adapters")
@click.argument("names", nargs=-1, metavar="[FRAMEWORK]...")
@click.option(
    "--scale", type=click.Choice(list(SIZES)), default="quick", show_default=True, help="The size of the run."
)
@click.option("--rounds", type=click.IntRange(min=1), help="Measurements per side; by default the scale decides.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=LATEST,
    show_default="bench/results/adapters.json",
    help="Where the figures are kept as JSON.",
)
@click.option("--markdown", type=click.Path(path_type=Path), help="Also write the tables as Markdown to a file.")
def adapters_command(
    names: Sequence[str], scale: str, rounds: int | None, as_json: bool, output: Path, markdown: Path | None
) -> None:
    """Compare the stores of frameworks with the adapters for them, in the environments of the frameworks.

    If only some are named, what was kept of the others stays.

    \b
    python -m bench adapters
    python -m bench adapters openai-agents langgraph --rounds 1
    python -m bench adapters --scale full --output docs/benchmarks/adapters.json --markdown docs/benchmarks/adapters.md
    """
    pairs = all_pairs()
    for name in names:
        if name not in pairs:
            raise click.UsageError(f"unknown framework {name!r}: choose from {', '.join(pairs)}")
    usual, sizes = SIZES[scale]
    chosen = [pair for name, pair in pairs.items() if not names or name in names]
    with Workspace() as space:
        comparison = compare(chosen, rounds or usual, sizes, space, lambda what: click.echo(what, err=True))
    if names:
        comparison = beside_others(comparison, output)
    write(comparison, output)
    if markdown is not None:
        markdown.write_text(in_markdown(comparison, scale), encoding="utf-8")
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(comparison)))
    else:
        show(comparison, Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140))
    if any(pair.failed for pair in comparison.pairs):
        sys.exit(1)


def show(comparison: Comparison, console: Console) -> None:
    """Print what was found as tables."""
    console.print(f"[bold]Stores of frameworks beside treering's adapters[/bold], {comparison.at:%Y-%m-%d %H:%M} UTC")
    console.print(_machine(comparison))
    for name, why in comparison.absent.items():
        console.print(f"absent: {name} ({why})")
    for pair in comparison.pairs:
        console.print()
        console.print(f"{_title(pair)}; rounds: {pair.rounds}; {pair.at:%Y-%m-%d %H:%M}", style="bold")
        console.print(_survives(pair), style="dim")
        for why in pair.failed:
            console.print(f"failed: {why}", style="red")
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in _COLUMNS:
            table.add_column(column, justify="right" if column else "left", no_wrap=True)
        for figure in pair.figures:
            table.add_row(*_cells(figure))
        console.print(table)
    console.print(f"\nThe aim is {AIM} times for appends to 1,000 conversations.", style="dim")


def in_markdown(comparison: Comparison, scale: str) -> str:
    """Return what was found as tables in Markdown.

    Args:
        comparison: What was found.
        scale: The size of the run.
    """
    parts = [
        "# Stores of frameworks, and adapters",
        f"`python -m bench adapters --scale {scale}`, {comparison.at:%Y-%m-%d}. {_machine(comparison)}.",
    ]
    parts += [f"Absent: {name} ({why})." for name, why in comparison.absent.items()]
    for pair in comparison.pairs:
        parts += [
            f"## {pair.framework}",
            f"{_title(pair)}; rounds: {pair.rounds}; {pair.at:%Y-%m-%d %H:%M} UTC. {_survives(pair)}",
        ]
        parts += [f"Failed: {why}" for why in pair.failed]
        rows = [_COLUMNS, ("---", *["---:"] * (len(_COLUMNS) - 1)), *map(_cells, pair.figures)]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    return "\n\n".join(parts) + "\n"


def _machine(comparison: Comparison) -> str:
    facts = comparison.machine
    return f"{facts.processors} x {facts.processor}, {facts.system}, {facts.python}"


def _title(pair: Pair) -> str:
    return f"{pair.theirs} beside {pair.ours} ({', '.join(pair.releases)})"


def _survives(pair: Pair) -> str:
    return f"An append that has returned survives {pair.their_durability}; with treering {pair.our_durability}."


def _cells(figure: Figure) -> tuple[str, ...]:
    better = "" if figure.better is None else f"{number(figure.better)}"
    return (
        FIGURES[figure.name],
        f"{figure.sessions:,} of {figure.messages + 1:,}",
        number(figure.theirs.median),
        range_text(figure.theirs),
        number(figure.ours.median),
        range_text(figure.ours),
        better,
    )
