"""`treering import`: sessions of other programs, or from elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import click
from msgspec import Struct, field

from ..actors.import_report import ImportReport
from ..events.errors import TreeringError
from ..events.findings import Finding
from ..events.foreign.detect import FORMATS
from ..events.foreign.walk import UNKNOWN_SHOWN
from ..events.wording import counted
from .home import Home, root_option
from .opening import json_option
from .output import echo_json, echo_lines, line, quiet, quiet_option, run, sentence, tell
from .telling import short


@click.command("import")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(readable=False))
@click.option(
    "-f", "--format", "format_", type=click.Choice(list(FORMATS)), help="What they are; else it is found out."
)
@json_option
@quiet_option
@root_option
@click.pass_context
def import_(ctx: click.Context, paths: tuple[str, ...], format_: str | None, as_json: bool, root: str | None) -> None:
    """Take in sessions of other programs, or from elsewhere.

    Of a folder, all sessions in it and in the folders below it are taken in, whichever programs they are of; how many files
    are no session is told on stderr. A session that is here already gets what it lacks, so that an import can be repeated.
    What is damaged in a source is left out and told on stderr, by file, line and byte; all that is whole is taken in. A path
    that cannot be imported is told, the others are imported, and the exit status is 1.

    \b
    Examples:
      treering import ~/.claude/projects ~/.codex/sessions
      treering import session.json --format picoclaw
    """
    told_of = run(_import, Home.at(root), paths, format_)
    reports = told_of.sessions
    if as_json:
        echo_json(told_of)
    else:
        echo_lines(_lines(reports))
    if told_of.unknown:
        tell(_unknown(told_of, format_))
    if not reports:
        ctx.exit(1)
    new = sum(not each.existed for each in reports)
    damaged = sum(len(each.findings) for each in reports)
    told = [
        f"{counted(len(reports), 'session')}, {new} new",
        counted(sum(each.added for each in reports), "line") + " added",
    ]
    tell(", ".join([*told, *([counted(damaged, "finding")] if damaged else [])]))
    ctx.exit(int(told_of.refused > 0))


class _Imported(Struct):
    """What became of all paths, as `--json` says it.

    Attributes:
        sessions: What came in.
        unknown: How many files in folders are no session of a known format.
        unknown_paths: The first of them.
        failed: What is a session and could not be imported, and the paths that hold none.
        refused: How many of the paths that were named could not be imported.
    """

    sessions: list[ImportReport] = field(default_factory=list[ImportReport])
    unknown: int = 0
    unknown_paths: list[str] = field(default_factory=list[str])
    failed: list[Finding] = field(default_factory=list[Finding])
    refused: int = 0


async def _import(home: Home, paths: Sequence[str], format_: str | None) -> _Imported:
    result = _Imported()
    async with home.opened() as host:
        with _progress(len(paths)) as progress:
            for path in paths:
                progress.begin(path)
                try:
                    found = await host.import_sessions(path, format=format_)
                except (TreeringError, OSError) as error:
                    result.refused += 1
                    result.failed.append(Finding(path, None, None, "refused", "error", sentence(error)))
                    progress.say(f"treering: {_with_path(path, sentence(error))}")
                    continue
                result.sessions += found
                for report in found:
                    for told in _findings(report):
                        progress.say(told)
                result.unknown += found.unknown
                result.unknown_paths += found.unknown_paths[: UNKNOWN_SHOWN - len(result.unknown_paths)]
                result.failed += found.failed
                for each in found.failed:
                    progress.say(f"{each.where}: {each.severity}: {each.message}")
    return result


def _unknown(result: _Imported, format_: str | None) -> str:
    """Say how many files did not come in since they are no session, and name the first."""
    what = "of a format that is known" if format_ is None else f"of the format {format_}"
    one = result.unknown == 1
    told = f"{counted(result.unknown, 'file')} {'is' if one else 'are'} no session {what}: "
    told += ", ".join(map(line, result.unknown_paths))
    rest = result.unknown - len(result.unknown_paths)
    return f"{told} and {rest} more" if rest else told


def _findings(report: ImportReport) -> Iterator[str]:
    """Tell what is the matter with a source; what is only noted, and does no harm, is counted."""
    notes = 0
    for finding in report.findings:
        if finding.severity == "note":
            notes += 1
        else:
            yield f"{finding.where}: {finding.severity}: {finding.message}"
    if notes:
        yield f"{report.source}: {counted(notes, 'note')} on what is no part of the conversation; --json shows them"


def _with_path(path: str, told: str) -> str:
    return told if path in told else f"{path}: {told}"


def _lines(reports: Sequence[ImportReport]) -> Iterator[str]:
    for each in reports:
        what = f"{each.added} of {counted(each.entries, 'line')} added" if each.added else "nothing to add"
        yield f"{click.style(short(each.id), bold=True)}  {each.format}  {what}  {line(each.source)}"


class _Progress(Protocol):
    def begin(self, path: str) -> None:
        """Say which path comes next."""
        ...

    def say(self, told: str) -> None:
        """Write a line to stderr, above what shows how far it is."""
        ...


class _Lines:
    """Says lines and shows nothing else."""

    def begin(self, path: str) -> None:
        """Say nothing."""

    def say(self, told: str) -> None:
        """Write a line to stderr."""
        click.echo(line(told), err=True)


@contextmanager
def _progress(count: int) -> Generator[_Progress, None, None]:
    """Show how far it is while stderr is a terminal; nothing of it stays."""
    if quiet() or not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress
    from rich.text import Text

    bar = Progress(console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)
    task = bar.add_task("importing", total=count)

    class _Bar:
        begun = 0

        def begin(self, path: str) -> None:
            bar.update(task, completed=self.begun, description=f"importing {escape(line(path))}")
            self.begun += 1

        def say(self, told: str) -> None:
            bar.console.print(Text(line(told)), soft_wrap=True)

    with bar:
        yield _Bar()
