"""The command `python -m bench growth`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..report import describe_machine, number
from ..workspace import Workspace
from .curves import Curve, Growth
from .measuring import GROWTH_SCALES, measure, sizes_of


@click.command("growth")
@click.argument("names", nargs=-1, metavar="[COST]...")
@click.option(
    "--scale", type=click.Choice(list(GROWTH_SCALES)), default="quick", show_default=True, help="The size of the run."
)
@click.option("--rounds", type=click.IntRange(min=1), help="Measurements per size; by default the scale decides.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--output", type=click.Path(path_type=Path), help="Also write the figures as JSON to a file.")
@click.option(
    "--to", "folder", type=click.Path(file_okay=False, path_type=Path), help="The folder for tables and charts."
)
def growth_command(
    names: Sequence[str], scale: str, rounds: int | None, as_json: bool, output: Path | None, folder: Path | None
) -> None:
    """Measure how costs grow with sessions, entries, followers, and the bytes of a message.

    \b
    python -m bench growth                            a hundredth of each, in a minute
    python -m bench growth append reopen --rounds 3
    python -m bench growth --scale full --to docs/benchmarks
    """
    from .costs import COSTS

    known = {cost.name: cost for cost in COSTS}
    for name in names:
        if name not in known:
            raise click.UsageError(f"unknown cost {name!r}: choose from {', '.join(known)}")
    size = GROWTH_SCALES[scale]
    if rounds is not None:
        size = msgspec.structs.replace(size, rounds=rounds)
    chosen = [cost for name, cost in known.items() if not names or name in names]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Workspace() as space, Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=sum(len(sizes_of(cost, size)) for cost in chosen) * size.rounds)

        def step(description: str) -> None:
            progress.update(task, description=description)
            progress.advance(task)

        growth = Growth(describe_machine(), scale, size.rounds, measure(chosen, size, space, step))
    encoded = msgspec.json.format(msgspec.json.encode(growth))
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(encoded + b"\n")
    if folder is not None:
        from .report import draw, in_markdown

        folder.mkdir(parents=True, exist_ok=True)
        (folder / "growth.md").write_text(in_markdown(growth), encoding="utf-8")
        for each in (*draw(growth, folder), folder / "growth.md"):
            click.echo(each, err=True)
    if as_json:
        click.echo(encoded)
    else:
        _show(growth, Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140))


def _show(growth: Growth, console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("microseconds of", "with so many", "at first", "", "at last", "", "exponent", ""):
        table.add_column(column, justify="left" if column in ("microseconds of", "with so many") else "right")
    for curve in growth.curves:
        first, last = curve.points[0], curve.points[-1]
        ends = (f"{first.size:,}", number(first.cpu_us), f"{last.size:,}", number(last.cpu_us))
        table.add_row(
            curve.title, curve.axis, *ends, "" if curve.slope is None else f"{curve.slope:.2f}", _verdict(curve)
        )
    console.print(table)


def _verdict(curve: Curve) -> Text:
    expected = "linear" if curve.expected else "flat"
    if curve.is_as_expected:
        return Text(expected, "green")
    return Text(f"should be {expected}", "bold red")
