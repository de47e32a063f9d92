"""`treering doctor`: report damage by file, line and byte, and repair it on request."""

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
from ..events.session_ids import SessionIds
from ..events.wording import counted
from .foreign_files import advice_on
from .opening import json_option
from .output import clean, echo_json, echo_lines

_NO_SESSION = ("no_header", "empty")
_COLORS = {"error": "red", "warning": "yellow", "note": "blue"}


@click.command()
@click.argument("paths", metavar="PATH...", type=click.Path(readable=False), nargs=-1, required=True)
@click.option("--repair", "repairing", is_flag=True, help="Repair what can be repaired; nothing is deleted.")
@click.option(
    "--all", "everything", is_flag=True, help="Also report what a repair has noted and kept, and what is in order."
)
@json_option
@click.pass_context
def doctor(ctx: click.Context, paths: tuple[str, ...], repairing: bool, everything: bool, as_json: bool) -> None:
    """Check session files, alone or in directories at any depth, and the files that belong to them.

    Without --repair, nothing is changed. The exit status is 1 if any finding worse than a note remains, other than
    damage that a repair has noted.

    A file that was merely copied has the session id of the original, so the id does not tell them apart. That is
    reported, and no repair changes it: remove one of the files, or replace one by a fork (SessionHost.fork_from).

    With --repair, an unfinished last line is moved to a separate file (in pi's files, it gets a newline), snapshots and
    checkpoints that do not fit and leftover temporary files are moved to .treering/aside, journals that no host holds
    are replayed, and an index with wrong lines is rewritten. A session that another process owns is left alone. Whole
    lines are never moved or changed: damage in the middle of a file stays in place. A repair notes it in
    .treering/known-damage.json, and later checks report it only with --all.

    \b
    Examples:
      treering doctor session.jsonl
      treering doctor ~/sessions --json
      treering doctor ~/sessions --repair
    """
    disk = OsDisk()
    repairs_done, all_findings = list[Repair](), list[Finding]()
    if repairing:
        surgeon = Surgeon(disk)

        def mend(subject: Subject) -> list[str]:
            repairs = surgeon.mend(subject)
            if subject.kind == "folder":
                repairs += IndexCheck(disk, subject.path).repair()
            repairs_done.extend(repairs)
            return [] if as_json else list(map(_repair_line, repairs))

        _each("repairing", surgeon.in_order(list(subjects(*paths))), mend)
        noted = surgeon.note()
        repairs_done += noted
        if not as_json:
            echo_lines(map(_repair_line, noted))
    known, ids = KnownDamage(disk), SessionIds(disk)
    sessions = others = 0

    def look(subject: Subject) -> list[str]:
        nonlocal sessions, others
        findings = list(map(_advised, examine_subject(subject, disk, ids=ids)))
        if subject.kind in ("session", "archive"):
            is_session = not any(each.code in _NO_SESSION and each.path == subject.path for each in findings)
            sessions, others = sessions + is_session, others + (not is_session)
        if not everything:
            findings = news_of(findings, known)
        if subject.kind == "folder":
            findings += IndexCheck(disk, subject.path).findings()
        all_findings.extend(findings)
        return [] if as_json else list(map(_finding_line, findings))

    _each("examining", list(subjects(*paths)), look)
    if as_json:
        echo_json({"repairs": repairs_done, "findings": all_findings} if repairing else all_findings)
    summary = [counted(sessions, "session"), *([counted(others, "other file")] if others else [])]
    if repairing:
        summary.append(counted(sum(each.done and each.action != "noted" for each in repairs_done), "repair"))
        if notes := sum(each.action == "noted" for each in repairs_done):
            summary.append(f"{counted(notes, 'finding')} noted and kept")
    summary.append(counted(len(all_findings), "finding") + (" left" if repairing else ""))
    click.echo(", ".join(summary), err=True)
    ctx.exit(int(any(finding.severity != "note" and not known.has(finding) for finding in all_findings)))


def _each(what: str, targets: Sequence[Subject], visit: Callable[[Subject], list[str]]) -> None:
    """Visit each subject and print its lines, with a progress bar if stderr is a terminal."""
    if len(targets) < 2 or not sys.stderr.isatty():
        for subject in targets:
            echo_lines(visit(subject))
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)
    with bar:
        for subject in bar.track(targets, description=what):
            if lines := visit(subject):
                bar.stop()  # clears its line, so that the output does not start in the middle of it
                echo_lines(lines)
                bar.start()


def _advised(finding: Finding) -> Finding:
    """Add advice to a finding on a file of another program."""
    advice = advice_on(finding.path) if finding.code == "no_header" else None
    return finding if advice is None else replace(finding, message=f"{finding.message}; {advice}")


def _repair_line(each: Repair) -> str:
    target = f" -> {each.target}" if each.target is not None else ""
    action = click.style(each.action, fg="green" if each.done else "yellow")
    return f"{clean(str(each.where))}: {action}: {clean(each.message + target)}"


def _finding_line(finding: Finding) -> str:
    severity = click.style(finding.severity, fg=_COLORS[finding.severity])
    return f"{clean(str(finding.where))}: {severity}: {clean(finding.message)}"
