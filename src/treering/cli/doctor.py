"""`treering doctor`: what is damaged, by file, line and byte; and what is done about it, where that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import click
from msgspec.structs import replace

from ..actors.catalog.check import IndexCheck
from ..events.disk import OsDisk
from ..events.doctor import Subject, examine_subject, news_of, subjects
from ..events.findings import Finding
from ..events.known_damage import KnownDamage
from ..events.repair import Repair, Surgeon
from ..events.wording import counted
from .foreign_files import advice_on
from .opening import json_option
from .output import clean, echo_json, echo_lines

_NO_SESSION = ("no_header", "empty")
_COLORS = {"error": "red", "warning": "yellow", "note": "blue"}


@click.command()
@click.argument("paths", metavar="PATH...", type=click.Path(readable=False), nargs=-1, required=True)
@click.option("--repair", "repairing", is_flag=True, help="Put right what can be put right; nothing is deleted.")
@click.option(
    "--all", "everything", is_flag=True, help="Say also what a repair has seen and kept, and what is in order."
)
@json_option
@click.pass_context
def doctor(ctx: click.Context, paths: tuple[str, ...], repairing: bool, everything: bool, as_json: bool) -> None:
    """Examine session files, and those in directories at any depth, with what belongs to them.

    Without --repair, nothing is changed. The exit status is 1 where anything worse than a note is left.

    With --repair, an unfinished last line is moved to a file of its own (in pi's files, it is closed by a newline),
    snapshots and checkpoints that do not fit and left-over temporary files are moved to .treering/aside, journals that no
    host holds are replayed, and an index that is wrong about sessions is written anew. A session that somebody owns is left
    alone. Whole lines are never moved or changed: damage in the midst of a file stays there, is noted in
    .treering/known-damage.json, and from then on is said with --all alone.

    \b
    Examples:
      treering doctor session.jsonl
      treering doctor ~/sessions --json
      treering doctor ~/sessions --repair
    """
    disk = OsDisk()
    done, found = list[Repair](), list[Finding]()
    if repairing:
        surgeon = Surgeon(disk)

        def mend(subject: Subject) -> list[str]:
            repairs = surgeon.mend(subject)
            if subject.kind == "folder":
                repairs += IndexCheck(disk, subject.path).repair()
            done.extend(repairs)
            return [] if as_json else list(map(_told, repairs))

        _each("repairing", surgeon.in_order(list(subjects(*paths))), mend)
        noted = surgeon.note()
        done += noted
        if not as_json:
            echo_lines(map(_told, noted))
    known = KnownDamage(disk)
    sessions = others = 0

    def look(subject: Subject) -> list[str]:
        nonlocal sessions, others
        findings = list(map(_advised, examine_subject(subject, disk)))
        if subject.kind in ("session", "archive"):
            is_session = not any(each.code in _NO_SESSION and each.path == subject.path for each in findings)
            sessions, others = sessions + is_session, others + (not is_session)
        if not everything:
            findings = news_of(findings, known)
        if subject.kind == "folder":
            findings += IndexCheck(disk, subject.path).findings()
        found.extend(findings)
        return [] if as_json else list(map(_line, findings))

    _each("examining", list(subjects(*paths)), look)
    if as_json:
        echo_json({"repairs": done, "findings": found} if repairing else found)
    told = [counted(sessions, "session"), *([counted(others, "other file")] if others else [])]
    if repairing:
        told.append(counted(sum(each.done and each.action != "noted" for each in done), "repair"))
        if notes := sum(each.action == "noted" for each in done):
            told.append(f"{counted(notes, 'finding')} noted and kept")
    told.append(counted(len(found), "finding") + (" left" if repairing else ""))
    click.echo(", ".join(told), err=True)
    ctx.exit(int(any(finding.severity != "note" and not known.has(finding) for finding in found)))


def _each(what: str, patients: Sequence[Subject], visit: Callable[[Subject], list[str]]) -> None:
    """Visit one after the other and write what is said of each; show how far it is, where stderr is a terminal."""
    if len(patients) < 2 or not sys.stderr.isatty():
        for subject in patients:
            echo_lines(visit(subject))
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)
    with bar:
        for subject in bar.track(patients, description=what):
            if lines := visit(subject):
                bar.stop()  # it gives its line back, so that what is said does not begin in the midst of it
                echo_lines(lines)
                bar.start()


def _advised(finding: Finding) -> Finding:
    """Say of a file that another program wrote what it is."""
    advice = advice_on(finding.path) if finding.code == "no_header" else None
    return finding if advice is None else replace(finding, message=f"{finding.message}; {advice}")


def _told(each: Repair) -> str:
    target = f" -> {each.target}" if each.target is not None else ""
    action = click.style(each.action, fg="green" if each.done else "yellow")
    return f"{clean(str(each.where))}: {action}: {clean(each.message + target)}"


def _line(finding: Finding) -> str:
    severity = click.style(finding.severity, fg=_COLORS[finding.severity])
    return f"{clean(str(finding.where))}: {severity}: {clean(finding.message)}"
