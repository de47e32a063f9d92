"""The command line: `python -m bench COMMAND`; without a command, the quick run."""

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
from .adapters import all_pairs
from .adapters.command import adapters_command
from .adapters.command import show as show_adapters
from .adapters.comparing import latest
from .archive import archive_command
from .comparison import comparison_table
from .growth.command import growth_command
from .house import house_command
from .path import path_command
from .peer import Peer
from .peers import all_peers
from .remote import remote_command
from .report import Report, describe_machine, show
from .scale import scale_command
from .scenario import SCALES, Scale, Scenario
from .scenarios import all_scenarios
from .serving import serve_command
from .summary import summary
from .workspace import Workspace

POSITIVE = click.FloatRange(min=0, min_open=True)
_COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())


class SoakArguments(TypedDict):
    """The options of `soak`; see `bench.soak.SoakOptions`."""

    agents: int
    hours: float
    speed: float
    think_s: float
    seed: int
    least: int
    trace: bool


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Measure what operations cost, as ratios within one run.

    \b
    python -m bench run                               the quick scenarios, in a few minutes
    python -m bench run append-one --peer 'plain loop' --peer treering/uvloop
    python -m bench prepare                           install the peers
    python -m bench soak                              a day with a thousand agents
    python -m bench growth                            how costs grow with sessions, entries, followers, and bytes
    python -m bench path                              which functions an append passes, and what each costs
    python -m bench serve                             what HTTP costs
    python -m bench adapters                          what stores of frameworks cost, and the adapters for them
    python -m bench house                             how large and how entangled the library is
    """
    if context.invoked_subcommand is None:
        report = context.invoke(run)
        if (adapters := latest()) is not None:
            click.echo()
            show_adapters(adapters, _stdout_console())
        click.echo()
        _stdout_console().print(summary(report))


@main.command()
@click.argument("names", nargs=-1, metavar="[SCENARIO]...")
@click.option(
    "--scale", type=click.Choice(list(SCALES)), default="quick", show_default=True, help="The size of the run."
)
@click.option("--rounds", type=click.IntRange(min=1), help="Measurements per side; by default the scale decides.")
@click.option("--peer", "peer_names", multiple=True, help="Measure only this peer; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@click.option("--output", type=click.Path(path_type=Path), help="Also write the results as JSON to a file.")
def run(
    names: Sequence[str],
    scale: str = "quick",
    rounds: int | None = None,
    peer_names: Sequence[str] = (),
    as_json: bool = False,
    output: Path | None = None,
) -> Report:
    """Run the named scenarios, or all; unless named, long ones run only with --scale full.

    \b
    python -m bench run append-one open-cold
    python -m bench run search-10000 --scale full --rounds 1
    python -m bench run --scale full --output bench/results/full.json
    """
    size = SCALES[scale] if rounds is None else msgspec.structs.replace(SCALES[scale], rounds=rounds)
    chosen = _chosen_scenarios(names, size)
    present, absent = _present_peers(peer_names, size)
    report = Report(describe_machine(), scale, absent, [])
    with Workspace() as space, Progress(*_COLUMNS, console=_stderr_console(), transient=True) as progress:
        task = progress.add_task("", total=sum(runner.measurements(each, present, size) for each in chosen))

        def step(description: str) -> None:
            progress.update(task, description=description)
            progress.advance(task)

        for number, each in enumerate(chosen, 1):
            if not progress.console.is_terminal:
                click.echo(f"{number} of {len(chosen)}: {each.name}", err=True)
            report.scenarios.append(runner.run(each, present, size, space, step))
            if output is not None:  # an interrupted run keeps the scenarios that it completed
                _write_file(output, _to_json(report))
    if as_json:
        click.echo(_to_json(report))
    else:
        show(report, _stdout_console())
    return report


@main.command()
@click.option("--agents", type=click.IntRange(min=1), default=1_000, show_default=True, help="The number of agents.")
@click.option(
    "--hours", type=POSITIVE, default=24.0, show_default=True, help="The length of the run, in virtual hours."
)
@click.option("--speed", type=POSITIVE, default=144.0, show_default=True, help="Virtual seconds per real second.")
@click.option(
    "--think", "think_s", type=POSITIVE, default=600.0, show_default=True, help="Mean virtual seconds between turns."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Determines what the agents do.")
@click.option(
    "--least", type=click.IntRange(min=0), default=0, help="How often each action is performed, however long it takes."
)
@click.option("--trace", is_flag=True, help="Trace allocations, which makes everything slower.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--output", type=click.Path(path_type=Path), help="Also write the result as JSON to a file.")
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for charts of memory over time.",
)
def soak(as_json: bool, output: Path | None, folder: Path | None, **options: Unpack[SoakArguments]) -> None:
    """Run a host with many agents for a virtual day, in ten minutes.

    At the end every log is compared with what was acknowledged; if anything is missing, the exit code is 1.

    \b
    python -m bench soak
    python -m bench soak --hours 2 --trace
    python -m bench soak --output bench/results/soak.json --to docs/benchmarks
    """
    from .soak import SoakOptions, SoakSample, run_soak
    from .soak_report import show_soak

    with (
        Workspace() as space,
        Progress(*_COLUMNS[:2], TimeElapsedColumn(), console=_stderr_console(), transient=True) as progress,
    ):
        task = progress.add_task("", total=options["hours"])

        def step(sample: SoakSample) -> None:
            description = f"{sample.entries:,} entries, {sample.memory.resident_bytes / 1e6:.0f} MB"
            progress.update(task, description=description, completed=sample.at_hours)

        result = run_soak(SoakOptions(**options), space, step)
    encoded = msgspec.json.format(msgspec.json.encode(result))
    if output is not None:
        _write_file(output, encoded)
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
    """Install the requirements of peers, each in its own environment; of all peers if none is named.

    \b
    python -m bench prepare 'pi 1.5.2' 'langgraph AsyncSqliteSaver'
    """
    peers: dict[str, Peer] = {each.name: each for each in all_peers()}
    peers |= {each.name: each for pair in all_pairs().values() for each in pair}
    _check_names(names, list(peers), "peer")
    chosen = [peers[name] for name in names] or list(peers.values())
    failed: dict[str, str] = {}
    with Progress(*_COLUMNS, console=_stderr_console(), transient=True) as progress:
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
    """Compare two results: what became faster or slower from BEFORE to AFTER.

    \b
    python -m bench compare bench/results/before.json bench/results/after.json
    """
    old, new = (msgspec.json.decode(path.read_bytes(), type=Report) for path in (before, after))
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140).print(comparison_table(old, new))


@main.command()
@click.argument("results", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--to", "folder", type=click.Path(file_okay=False, path_type=Path), default=Path("bench/results"))
def plot(results: Path, folder: Path) -> None:
    """Draw charts of a result as PNG and SVG, and write its tables as Markdown.

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
    """List the scenarios, with their full-run sizes, and the peers.

    \b
    python -m bench list
    """
    for scenario in all_scenarios():
        click.echo(f"{scenario.name:24} {scenario.title_at(SCALES['full'])}{_full_only_note(scenario)}")
    for peer in all_peers():
        click.echo(f"{peer.name:38} {environments.why_absent(peer) or 'present'}{_full_only_note(peer)}")
    for _, ours in all_pairs().values():
        click.echo(f"{ours.name:38} {environments.why_absent(ours) or 'present'} (python -m bench adapters)")


def _chosen_scenarios(names: Sequence[str], size: Scale) -> list[Scenario]:
    """Return the named scenarios; without names, all that belong to a run of this size."""
    scenarios = {each.name: each for each in all_scenarios()}
    _check_names(names, list(scenarios), "scenario")
    if names:
        return [scenarios[name] for name in names]
    return [each for each in scenarios.values() if size.everything or not each.full_only]


def _present_peers(names: Sequence[str], size: Scale) -> tuple[list[Peer], dict[str, str]]:
    """Return the chosen peers that can run here, and why each of all peers that cannot is absent."""
    peers = {each.name: each for each in all_peers()}
    _check_names(names, list(peers), "peer")
    absent = {name: why for name, peer in peers.items() if (why := environments.why_absent(peer)) is not None}
    wanted = names or [name for name, peer in peers.items() if size.everything or not peer.full_only]
    return [peer for name, peer in peers.items() if name in wanted and name not in absent], absent


def _full_only_note(item: Scenario | Peer) -> str:
    return " (in full runs, or when named)" if item.full_only else ""


def _stdout_console() -> Console:
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else 200)


def _stderr_console() -> Console:
    return Console(stderr=True)


def _to_json(report: Report) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report))


def _write_file(output: Path, encoded: bytes) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_bytes(encoded + b"\n")


def _check_names(names: Sequence[str], known: Sequence[str], kind: str) -> None:
    for name in names:
        if name not in known:
            raise click.UsageError(f"unknown {kind} {name!r}: choose from {', '.join(known)}")


main.add_command(adapters_command)
main.add_command(growth_command)
main.add_command(house_command)
main.add_command(archive_command)
main.add_command(path_command)
main.add_command(remote_command)
main.add_command(scale_command)
main.add_command(serve_command)

if __name__ == "__main__":
    main(prog_name="python -m bench")
