"""The command line: `python -m bench [run|soak|prepare|compare|plot|list]`; without a command, the quick run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import environments, runner
from .comparison import compared
from .peer import Peer
from .peers import all_peers
from .report import Report, machine, show
from .scenario import SCALES, Scenario
from .scenarios import all_scenarios
from .workspace import Workspace

POSITIVE = click.FloatRange(min=0, min_open=True)
_COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())


class SoakGiven(TypedDict):
    """What is said of a soak on the command line; see `bench.soak.SoakOptions`."""

    agents: int
    hours: float
    speed: float
    think_s: float
    seed: int
    trace: bool


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Measure what things cost, as ratios within one run.

    \b
    python -m bench run                               all scenarios, in some minutes
    python -m bench run append-one --peer 'plain loop' --peer treering/uvloop
    python -m bench prepare                           install the peers
    python -m bench soak                              a day of a thousand agents
    """
    if context.invoked_subcommand is None:
        context.invoke(run)


@main.command()
@click.argument("names", nargs=-1, metavar="[SCENARIO]...")
@click.option("--scale", type=click.Choice(list(SCALES)), default="quick", show_default=True, help="How large a run.")
@click.option("--rounds", type=click.IntRange(min=1), help="How often each side is measured; the scale's own number.")
@click.option("--peer", "wanted", multiple=True, help="Only these peers; may be given more than once.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@click.option("--output", type=click.Path(path_type=Path), help="Write the results as JSON to a file, too.")
def run(
    names: Sequence[str],
    scale: str = "quick",
    rounds: int | None = None,
    wanted: Sequence[str] = (),
    as_json: bool = False,
    output: Path | None = None,
) -> None:
    """Run scenarios. Where none is named: all of them, or in a run that is not full those that do not take long.

    \b
    python -m bench run append-one open-cold
    python -m bench run search-10000 --scale full --rounds 1
    python -m bench run --scale full --output bench/results/full.json
    """
    scenarios = {each.name: each for each in all_scenarios()}
    peers = {each.name: each for each in all_peers()}
    _check(names, list(scenarios), "scenario")
    _check(wanted, list(peers), "peer")
    absent = {name: why for name, peer in peers.items() if (why := environments.why_absent(peer)) is not None}
    size = SCALES[scale] if rounds is None else msgspec.structs.replace(SCALES[scale], rounds=rounds)
    asked = wanted or [name for name, peer in peers.items() if size.everything or not peer.full_only]
    present = [peer for name, peer in peers.items() if name in asked and name not in absent]
    all_chosen = [each for each in scenarios.values() if size.everything or not each.full_only]
    chosen = [scenarios[name] for name in names] or all_chosen

    report = Report(machine(), scale, absent, [])
    with Workspace() as space, Progress(*_COLUMNS, console=_errors(), transient=True) as progress:
        task = progress.add_task("", total=sum(runner.measurements(each, present, size) for each in chosen))

        def step(what: str) -> None:
            progress.update(task, description=what)
            progress.advance(task)

        for number, each in enumerate(chosen, 1):
            if not progress.console.is_terminal:
                click.echo(f"{number} of {len(chosen)}: {each.name}", err=True)
            report.scenarios.append(runner.run(each, present, size, space, step))
            if output is not None:  # a run that is broken off leaves what it has
                _written(output, _encoded(report))
    if as_json:
        click.echo(_encoded(report))
    else:
        show(report, Console(file=sys.stdout, width=None if sys.stdout.isatty() else 200))


@main.command()
@click.option(
    "--agents", type=click.IntRange(min=1), default=1_000, show_default=True, help="How many agents there are."
)
@click.option("--hours", type=POSITIVE, default=24.0, show_default=True, help="How long they live, in virtual hours.")
@click.option("--speed", type=POSITIVE, default=144.0, show_default=True, help="How much faster than real time.")
@click.option(
    "--think", "think_s", type=POSITIVE, default=600.0, show_default=True, help="Virtual seconds between turns."
)
@click.option("--seed", type=int, default=1, show_default=True, help="What the agents do follows from it.")
@click.option("--trace", is_flag=True, help="Trace allocations, too, which makes everything slower.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--output", type=click.Path(path_type=Path), help="Write the result as JSON to a file, too.")
@click.option("--to", "folder", type=click.Path(file_okay=False, path_type=Path), help="Draw memory over time here.")
def soak(as_json: bool, output: Path | None, folder: Path | None, **options: Unpack[SoakGiven]) -> None:
    """Let a host with many agents live a day, in ten minutes.

    In the end every log is held against what was acknowledged; where something is lost, the exit code is 1.

    \b
    python -m bench soak
    python -m bench soak --hours 2 --trace
    python -m bench soak --output bench/results/soak.json --to docs/benchmarks
    """
    from .soak import SoakOptions, SoakSample, soaked
    from .soak_report import show_soak

    with (
        Workspace() as space,
        Progress(*_COLUMNS[:2], TimeElapsedColumn(), console=_errors(), transient=True) as progress,
    ):
        task = progress.add_task("", total=options["hours"])

        def step(sample: SoakSample) -> None:
            what = f"{sample.entries:,} entries, {sample.memory.resident_bytes / 1e6:.0f} MB"
            progress.update(task, description=what, completed=sample.at_hours)

        result = soaked(SoakOptions(**options), space, step)
    encoded = msgspec.json.format(msgspec.json.encode(result))
    if output is not None:
        _written(output, encoded)
    if as_json:
        click.echo(encoded)
    else:
        show_soak(result, Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140))
    if folder is not None:
        from .charts import draw_soak

        folder.mkdir(parents=True, exist_ok=True)
        for each in draw_soak(result, folder):
            click.echo(each, err=True)
    if result.checked.lost:
        sys.exit(1)


@main.command()
@click.argument("names", nargs=-1, metavar="[PEER]...")
def prepare(names: Sequence[str]) -> None:
    """Install what peers need, each in an environment of its own; all of them where none is named.

    \b
    python -m bench prepare 'pi 1.5.2' 'langgraph AsyncSqliteSaver'
    """
    peers = {each.name: each for each in all_peers()}
    _check(names, list(peers), "peer")
    chosen = [peers[name] for name in names] or list(peers.values())
    failed: dict[str, str] = {}
    with Progress(*_COLUMNS, console=_errors(), transient=True) as progress:
        for peer in progress.track(chosen, description="installing"):
            if (why := environments.prepare(peer)) is not None:
                failed[peer.name] = why
    for name, why in failed.items():
        click.echo(f"{name}: {why}", err=True)
    if failed:
        sys.exit(1)


@main.command()
@click.argument("before", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("after", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def compare(before: Path, after: Path) -> None:
    """Hold two results against each other: what of AFTER is faster or slower than in BEFORE.

    \b
    python -m bench compare bench/results/before.json bench/results/after.json
    """
    old, new = (msgspec.json.decode(path.read_bytes(), type=Report) for path in (before, after))
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140).print(compared(old, new))


@main.command()
@click.argument("results", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--to", "folder", type=click.Path(file_okay=False, path_type=Path), default=Path("bench/results"))
def plot(results: Path, folder: Path) -> None:
    """Draw the charts of a result as PNG and SVG, and write its tables as Markdown.

    \b
    python -m bench plot bench/results/full.json --to docs/benchmarks
    """
    from .charts import draw
    from .markdown import tables

    report = msgspec.json.decode(results.read_bytes(), type=Report)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = draw(report, folder)
    (folder / "benchmarks.md").write_text(tables(report, {each.stem for each in drawn}))
    for each in (*drawn, folder / "benchmarks.md"):
        click.echo(each)


@main.command("list")
def list_all() -> None:
    """List scenarios, with their sizes in a full run, and peers.

    \b
    python -m bench list
    """
    for scenario in all_scenarios():
        click.echo(f"{scenario.name:24} {scenario.titled(SCALES['full'])}{_in_full_runs(scenario)}")
    for peer in all_peers():
        click.echo(f"{peer.name:38} {environments.why_absent(peer) or 'present'}{_in_full_runs(peer)}")


def _in_full_runs(what: Scenario | Peer) -> str:
    return " (in full runs, or when asked for)" if what.full_only else ""


def _errors() -> Console:
    return Console(stderr=True)


def _encoded(report: Report) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report))


def _written(output: Path, encoded: bytes) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(encoded + b"\n")


def _check(given: Sequence[str], known: Sequence[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise click.UsageError(f"there is no {what} {name!r}; there are: {', '.join(known)}")


if __name__ == "__main__":
    main(prog_name="python -m bench")
