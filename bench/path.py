"""The way of an append: its functions as a table, with what each of them does and costs.

What watching adds to the time of a warm append is subtracted, spread evenly over the calls, so that its steps together
take what it takes unwatched; for the other ways the same cost of a call is subtracted. Their whole time is that of all
threads, and contains what the event loop and other libraries do.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from .steps import WAYS, Step, Way, count, step_of, time_steps, time_system_calls, time_whole


class Walk(Struct):
    """The way of an append.

    Attributes:
        steps: Its functions, in the order in which they are first called.
        whole_us: Microseconds of processor time that the whole append takes unwatched, in all threads.
        system_us: How many of them its system calls take, which no code can save without leaving some of them out.
    """

    steps: list[Step]
    whole_us: float
    system_us: float


def walk_all(rounds: int = 300, ways: Sequence[Way] = WAYS) -> dict[Way, Walk]:
    """Make many appends of every kind, watched and unwatched, and return the way of each.

    Args:
        rounds: How many appends of each kind are timed.
        ways: The kinds. Warm ones are made in any case, since they tell what watching costs.
    """
    measured: dict[Way, None] = dict.fromkeys(("warm", *ways))
    counted = {way: count(way) for way in measured}
    own_us = {way: time_steps(way, rounds) for way in measured}
    whole_us = {way: time_whole(way, rounds) for way in measured}
    system_us = {way: time_system_calls(way, rounds) for way in measured}
    calls = sum(each.times + each.calls for each in counted["warm"].values())
    call_us = max(0.0, sum(own_us["warm"].values()) - whole_us["warm"]) / calls
    walks = {}
    for way in ways:
        tallies = counted[way]
        steps = [step_of(code, tally, own_us[way].get(code, 0.0), call_us) for code, tally in tallies.items()]
        walks[way] = Walk(steps, whole_us[way], system_us[way])
    return walks


def way_table(way: Way, walk: Walk) -> Table:
    """Make the table of a way; a step that is taken more than once says how often."""
    title = f"{way} append: {walk.whole_us:.1f} µs of processor time unwatched, {walk.system_us:.1f} in system calls"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for column in ("step", "file"):
        table.add_column(column)
    for column in ("calls", "system calls", "own µs"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows(walk):
        table.add_row(*row)
    return table


def rows(walk: Walk) -> list[tuple[str, ...]]:
    """Return the cells of a way's table, with its sums in the last row."""
    steps = walk.steps
    cells = [
        (
            each.name if each.times == 1 else f"{each.name} ×{each.times}",
            each.file,
            str(each.calls),
            str(each.system_calls),
            f"{each.own_us:.1f}",
        )
        for each in steps
    ]
    calls, system_calls = sum(each.calls for each in steps), sum(each.system_calls for each in steps)
    functions, files = f"{len(steps)} functions", f"{len({each.file for each in steps})} files"
    return [*cells, (functions, files, str(calls), str(system_calls), f"{sum(each.own_us for each in steps):.1f}")]


@click.command("path")
@click.argument("ways", nargs=-1, type=click.Choice(WAYS), metavar="[WAY]...")
@click.option("--rounds", type=click.IntRange(min=1), default=300, show_default=True, help="Appends of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print the ways as JSON.")
def path_command(ways: Sequence[Way], rounds: int, as_json: bool) -> None:
    """Show which functions an append passes and what each costs: to a warm session, a first one, a reopening one.

    \b
    python -m bench path
    python -m bench path warm --rounds 1000
    """
    walked = walk_all(rounds, ways or WAYS)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(walked)))
    else:
        console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 120)
        for way, walk in walked.items():
            console.print(way_table(way, walk), "")
