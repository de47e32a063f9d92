"""Sessions that come and go: exports as a page, a text or another program's file, and imports from such files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

import click
from msgspec import Struct, field

from ...actors.transfer import EXPORTS
from ...actors.transfer.reports import ImportReport, ImportReports
from ...events.errors import TreeringError
from ...events.findings import Finding
from ...events.texts import counted
from ..home import Home
from ..messages import sentence
from ..opening import find_entry
from ..options import FormatName, from_option, home_options, json_option, quiet_option, session_argument
from ..output import echo_document, echo_json, line, run, show, tell, transient_progress
from ..rows import short

if TYPE_CHECKING:
    from ...events.redaction import Redaction


_BY_ENDING: Mapping[str, str] = {".html": "html", ".htm": "html", ".json": "json", ".jsonl": "native"}


def _export_names() -> Sequence[str]:
    from ...actors.transfer.exporting import export_names

    return export_names()


@click.command()
@session_argument
@click.option(
    "-f",
    "--format",
    "format_",
    type=FormatName(_export_names, EXPORTS),
    show_default="from the suffix of PATH, else markdown",
    help="The format to write.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    type=click.Path(readable=False),
    help="Write to this path, whole or not at all; by default, or with -, to stdout; "
    "the directory of all sessions for a program that keeps each in several files.",
)
@click.option("--leaf", metavar="ID", help="Export only the path to this entry, as a separate session.")
@click.option("--redact", is_flag=True, help="Remove secrets; for json, markdown and html.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--json", "as_json", is_flag=True, help="With -o: print the path and format as JSON, for programs.")
@quiet_option
@home_options
def export(
    session: str,
    format_: str | None,
    output: str | None,
    leaf: str | None,
    redact: bool,
    force: bool,
    as_json: bool,
    root: str | None,
) -> None:
    """Export a session as a page, a text, or a file of another program.

    docs/exporting.md describes the formats, and says which of them `treering import` reads. A redacted export cannot be
    imported; read it before you publish it.

    \b
    Examples:
      treering export last > talk.md
      treering export 5f0c12ab -o talk.html --redact
      treering export last -f native | ssh other 'cat > session.jsonl'
    """
    if output == "-":
        output = None
    if as_json and output is None:
        raise click.UsageError(
            "--json reports what was written: add -o with a path, or use -f json to export the session as JSON"
        )
    if format_ is None:
        format_ = _BY_ENDING.get(PurePath(output or "").suffix.lower(), "markdown")
    from ...events.redaction import Redaction

    redaction = Redaction() if redact else None
    path = run(_export, Home.at(root), session, format_, output, leaf, redaction, force)
    if as_json:
        echo_json({"path": path, "format": format_, "redacted": None if redaction is None else dict(redaction.counts)})
    if redaction is not None:
        kinds = ", ".join(f"{count} {kind}" for kind, count in redaction.counts.items())
        removed = counted(sum(redaction.counts.values()), "secret")
        tell(f"{removed} removed{': ' + kinds if kinds else ''}")


async def _export(
    home: Home, text: str, format_: str, output: str | None, leaf: str | None, redaction: Redaction | None, force: bool
) -> str | None:
    """Write a session to stdout or to a path, and return the path."""
    async with home.opened() as host:
        row = await host.resolve(text)
        async with await host.load(row, read_only=True) as session:
            leaf_id = None if leaf is None else await find_entry(session, leaf)
            if output is None:
                echo_document(await session.export(format_, leaf_id=leaf_id, redact=redaction))
                return None
            path = await session.export(format_, output, leaf_id=leaf_id, redact=redaction, overwrite=force)
            tell(f"written to {path}")
            return str(path)


def _format_names() -> Sequence[str]:
    from ...formats.programs import format_names

    return format_names()


@click.command("import")
@click.argument("paths", metavar="[PATH...]", nargs=-1, type=click.Path(readable=False))
@from_option("Import all sessions of this program from where it keeps them")
@click.option(
    "-f",
    "--format",
    "format_",
    type=FormatName(_format_names),
    help="The format of the files; by default it is detected.",
)
@json_option
@quiet_option
@home_options
@click.pass_context
def import_(
    ctx: click.Context,
    paths: tuple[str, ...],
    from_programs: tuple[str, ...],
    format_: str | None,
    as_json: bool,
    root: str | None,
) -> None:
    """Import sessions from other programs, or from another place.

    From a directory, all sessions in it and below it are imported, whichever programs wrote them; the number of files
    that are not sessions is reported on stderr. An existing session gets the entries that it lacks, so an import can be
    repeated. Damage in a source is left out and reported on stderr, by file, line and byte; everything else is
    imported. If a path cannot be imported, this is reported, the others are imported, and the exit status is 1.

    \b
    Examples:
      treering import --from claude-code --from codex
      treering import ~/old-laptop/.claude/projects
      treering import session.json --format picoclaw
    """
    sources = [(path, format_) for path in paths]
    if from_programs:
        from ...formats.programs import homes

        kept_in = homes(os.environ)
        sources += [(str(kept_in[name]), name) for name in from_programs]
    if not sources:
        raise click.UsageError("Missing argument 'PATH...': give a path, or a program with --from")
    imported = run(_import, Home.at(root), sources)
    reports = imported.sessions
    show(imported, _lines(reports), as_json=as_json)
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
        from ...formats.walk import UNKNOWN_SHOWN

        self.sessions += batch
        self.unknown += batch.unknown
        self.unknown_paths += batch.unknown_paths[: UNKNOWN_SHOWN - len(self.unknown_paths)]
        self.failed += batch.failed

    def refuse(self, path: str, why: str) -> None:
        """Add a path that could not be imported."""
        self.refused += 1
        self.failed.append(Finding(path, None, None, "refused", "error", why))


async def _import(home: Home, sources: Sequence[tuple[str, str | None]]) -> _Imported:
    """Import what each path holds of a format, with a progress bar at a terminal and what goes wrong on stderr."""
    from rich.markup import escape
    from rich.text import Text

    result = _Imported()
    with transient_progress() as bar:
        task = bar.add_task("importing", total=len(sources))
        async with home.opened() as host:
            for number, (path, format_) in enumerate(sources):
                bar.update(task, completed=number, description=f"importing {escape(line(path))}")
                try:
                    batch = await host.import_sessions(path, format=format_)
                except (TreeringError, OSError) as error:
                    message = sentence(error)
                    result.refuse(path, message)
                    named = message if path.rstrip(os.sep) in message else f"{path}: {message}"
                    problems = [f"treering: {named}"]
                else:
                    result.add(batch)
                    problems = list(_problems(batch))
                for each in problems:
                    bar.console.print(Text(line(each)), soft_wrap=True)
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


def _lines(reports: Sequence[ImportReport]) -> Iterator[str]:
    for each in reports:
        what = f"{each.added} of {counted(each.entries, 'line')} added" if each.added else "nothing to add"
        yield f"{click.style(short(each.id), bold=True)}  {each.format}  {what}  {line(each.source)}"
