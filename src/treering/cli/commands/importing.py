"""`treering import`: sessions from other programs, or from another place."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import click
from msgspec import Struct, field

from ...actors.transfer.reports import ImportReport, ImportReports
from ...events.errors import TreeringError
from ...events.findings import Finding
from ...events.wording import counted
from ...formats.programs import format_names
from ...formats.walk import UNKNOWN_SHOWN
from ..descriptions import short
from ..foreign_files import FormatName
from ..home import Home, root_option
from ..opening import json_option
from ..output import echo_json, echo_lines, line, quiet, quiet_option, run, sentence, tell, transient_progress


@click.command("import")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(readable=False))
@click.option(
    "-f",
    "--format",
    "format_",
    type=FormatName(format_names),
    help="The format of the files; by default it is detected.",
)
@json_option
@quiet_option
@root_option
@click.pass_context
def import_(ctx: click.Context, paths: tuple[str, ...], format_: str | None, as_json: bool, root: str | None) -> None:
    """Import sessions from other programs, or from another place.

    From a directory, all sessions in it and below it are imported, whichever programs wrote them; the number of files
    that are not sessions is reported on stderr. An existing session gets the entries that it lacks, so an import can be
    repeated. Damage in a source is left out and reported on stderr, by file, line and byte; everything else is
    imported. If a path cannot be imported, this is reported, the others are imported, and the exit status is 1.

    \b
    Examples:
      treering import ~/.claude/projects ~/.codex/sessions
      treering import session.json --format picoclaw
    """
    imported = run(_import, Home.at(root), paths, format_)
    reports = imported.sessions
    if as_json:
        echo_json(imported)
    else:
        echo_lines(_lines(reports))
    if imported.unknown:
        tell(_unknown(imported, format_))
    if not reports:
        ctx.exit(1)
    new = sum(not each.existed for each in reports)
    damaged = sum(len(each.findings) for each in reports)
    summary = [
        f"{counted(len(reports), 'session')}, {new} new",
        counted(sum(each.added for each in reports), "line") + " added",
    ]
    tell(", ".join([*summary, *([counted(damaged, "finding")] if damaged else [])]))
    ctx.exit(int(imported.refused > 0))


class _Imported(Struct):
    """The result for all paths, as `--json` prints it.

    Attributes:
        sessions: A report for each imported session.
        unknown: How many files in directories are not sessions of a known format.
        unknown_paths: The first of these files.
        failed: Sessions that could not be imported, and paths without a session.
        refused: How many of the given paths could not be imported.
    """

    sessions: list[ImportReport] = field(default_factory=list[ImportReport])
    unknown: int = 0
    unknown_paths: list[str] = field(default_factory=list[str])
    failed: list[Finding] = field(default_factory=list[Finding])
    refused: int = 0

    def add(self, batch: ImportReports) -> None:
        """Add the result for one path."""
        self.sessions += batch
        self.unknown += batch.unknown
        self.unknown_paths += batch.unknown_paths[: UNKNOWN_SHOWN - len(self.unknown_paths)]
        self.failed += batch.failed

    def refuse(self, path: str, why: str) -> None:
        """Add a path that could not be imported."""
        self.refused += 1
        self.failed.append(Finding(path, None, None, "refused", "error", why))


async def _import(home: Home, paths: Sequence[str], format_: str | None) -> _Imported:
    result = _Imported()
    async with home.opened() as host:
        with _progress(len(paths)) as progress:
            for path in paths:
                progress.begin(path)
                try:
                    batch = await host.import_sessions(path, format=format_)
                except (TreeringError, OSError) as error:
                    result.refuse(path, sentence(error))
                    progress.say(f"treering: {_with_path(path, sentence(error))}")
                else:
                    result.add(batch)
                    for text in _problems(batch):
                        progress.say(text)
    return result


def _unknown(result: _Imported, format_: str | None) -> str:
    """Return how many files are not sessions, and name the first of them."""
    what = "of a known format" if format_ is None else f"of the format {format_}"
    one = result.unknown == 1
    text = f"{counted(result.unknown, 'file')} {'is not a session' if one else 'are not sessions'} {what}: "
    text += ", ".join(map(line, result.unknown_paths))
    rest = result.unknown - len(result.unknown_paths)
    return f"{text} and {rest} more" if rest else text


def _problems(batch: ImportReports) -> Iterator[str]:
    """Yield the findings on the sources of a path, and the sessions that could not be imported."""
    for report in batch:
        yield from _findings(report)
    yield from map(_finding_line, batch.failed)


def _finding_line(finding: Finding) -> str:
    return f"{finding.where}: {finding.severity}: {finding.message}"


def _findings(report: ImportReport) -> Iterator[str]:
    """Yield the findings on a source; notes, which do no harm, are only counted."""
    notes = 0
    for finding in report.findings:
        if finding.severity == "note":
            notes += 1
        else:
            yield _finding_line(finding)
    if notes:
        yield f"{report.source}: {counted(notes, 'note')} on data outside the conversation; --json shows them"


def _with_path(path: str, message: str) -> str:
    return message if path.rstrip(os.sep) in message else f"{path}: {message}"


def _lines(reports: Sequence[ImportReport]) -> Iterator[str]:
    for each in reports:
        what = f"{each.added} of {counted(each.entries, 'line')} added" if each.added else "nothing to add"
        yield f"{click.style(short(each.id), bold=True)}  {each.format}  {what}  {line(each.source)}"


class _Progress(Protocol):
    def begin(self, path: str) -> None:
        """Announce the next path."""
        ...

    def say(self, text: str) -> None:
        """Write a line to stderr, above the progress bar."""
        ...


class _Lines:
    """Writes lines, without a progress bar."""

    def begin(self, path: str) -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Write a line to stderr."""
        click.echo(line(text), err=True)


@contextmanager
def _progress(count: int) -> Generator[_Progress, None, None]:
    """Show a transient progress bar if stderr is a terminal."""
    if quiet() or not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.markup import escape
    from rich.text import Text

    bar = transient_progress()
    task = bar.add_task("importing", total=count)

    class _Bar:
        begun = 0

        def begin(self, path: str) -> None:
            bar.update(task, completed=self.begun, description=f"importing {escape(line(path))}")
            self.begun += 1

        def say(self, text: str) -> None:
            bar.console.print(Text(line(text)), soft_wrap=True)

    with bar:
        yield _Bar()
