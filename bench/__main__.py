"""The command line: `python -m bench [run|list]`; without a command, the quick run."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import runner
from .peers import all_peers
from .report import Report, machine, show
from .scenario import SCALES
from .scenarios import all_scenarios
from .workspace import Workspace


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Measure what things cost, as ratios within one run."""
    if context.invoked_subcommand is None:
        context.invoke(run)


@main.command()
@click.argument("names", nargs=-1, metavar="[SCENARIO]...")
@click.option("--scale", type=click.Choice(list(SCALES)), default="quick", show_default=True, help="How large a run.")
@click.option("--rounds", type=click.IntRange(min=1), help="How often each side is measured; the scale's own number.")
@click.option("--peer", "wanted", multiple=True, help="Only these peers; may be given more than once.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def run(names: Sequence[str], scale: str, rounds: int | None, wanted: Sequence[str], as_json: bool) -> None:
    """Run scenarios, all of them where none is named."""
    scenarios = {each.name: each for each in all_scenarios()}
    peers = {each.name: each for each in all_peers()}
    _check(names, list(scenarios), "scenario")
    _check(wanted, list(peers), "peer")
    absent = {name: why for name, peer in peers.items() if (why := peer.absent()) is not None}
    present = [peer for name, peer in peers.items() if name not in absent and (not wanted or name in wanted)]
    size = SCALES[scale] if rounds is None else msgspec.structs.replace(SCALES[scale], rounds=rounds)
    chosen = [scenarios[name] for name in names] or list(scenarios.values())

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Workspace() as space, Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=sum(runner.measurements(each, present, size) for each in chosen))

        def step(what: str) -> None:
            progress.update(task, description=what)
            progress.advance(task)

        results = [runner.run(each, present, size, space, step) for each in chosen]
    report = Report(machine(), scale, absent, results)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report)))
    else:
        show(report, Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140))


@main.command("list")
def list_all() -> None:
    """List scenarios and peers."""
    for scenario in all_scenarios():
        click.echo(f"{scenario.name:22} {scenario.title}")
    for peer in all_peers():
        click.echo(f"{peer.name:22} {peer.absent() or 'present'}")


def _check(given: Sequence[str], known: Sequence[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise click.UsageError(f"there is no {what} {name!r}; there are: {', '.join(known)}")


if __name__ == "__main__":
    main(prog_name="python -m bench")
