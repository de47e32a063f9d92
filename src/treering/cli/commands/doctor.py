"""`treering doctor`: report damage by file, line and byte, and repair it on request."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import click
from msgspec.structs import replace

from ...actors.catalog.check import IndexCheck
from ...actors.host.runtime import random_id
from ...events.arguments import scheme_of, without_file_scheme
from ...events.disk import OsDisk
from ...events.errors import InvalidInput
from ...events.findings import Finding, Repair
from ...events.health.doctor import SessionIds, Subject, examine_subject, news_of, subjects
from ...events.health.known_damage import KnownDamage
from ...events.health.repair import Repairer
from ...events.offload import ThreadOffload
from ...events.stores.capabilities import Health
from ...events.stores.opening import check_scheme, store_of_scheme
from ...events.texts import counted
from ..messages import advice_on
from ..options import json_option
from ..output import echo_json, echo_lines, line, transient_progress

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
    """Check sessions and what belongs to them, in files or whole directories.

    A database, given by its address, examines itself: whether sessions have all of their entries, what belongs to none,
    whether objects of archived sessions are as they were written, and leases that are over.

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
      treering doctor postgresql://user@host/database
    """
    checkup = _Checkup(everything=everything, as_json=as_json)
    urls = [path for path in paths if scheme_of(path) not in (None, "file") and not os.path.lexists(path)]
    files = [os.fspath(without_file_scheme(path)) for path in paths if path not in urls]
    if repairing:
        checkup.repair(files)
    checkup.examine(files)
    for url in urls:
        checkup.examine_store(url, repairing=repairing)
    if as_json:
        findings = checkup.findings
        echo_json({"repairs": checkup.repairs, "findings": findings} if repairing else findings)
    click.echo(checkup.summary(repaired=repairing), err=True)
    ctx.exit(int(checkup.needs_attention))


class _Checkup:
    """One run of the command, which prints lines for people as it proceeds.

    Args:
        everything: Also report known damage.
        as_json: Print no lines for people.

    Attributes:
        repairs: What was repaired, noted, or could not be repaired.
        findings: What was found after that.
    """

    def __init__(self, *, everything: bool, as_json: bool) -> None:
        self._everything = everything
        self._as_json = as_json
        self._disk = OsDisk()
        self._repairer = Repairer(self._disk)
        self._known = KnownDamage(self._disk)
        self._ids = SessionIds(self._disk)
        self._sessions = 0
        self._other_files = 0
        self._stores = 0
        self.repairs: list[Repair] = []
        self.findings: list[Finding] = []

    def repair(self, paths: Sequence[str]) -> None:
        """Repair what can be repaired, and note the rest."""
        _each("repairing", self._repairer.in_order(list(subjects(*paths))), self._repair)
        echo_lines(self._report_repairs(self._repairer.note()))

    def examine(self, paths: Sequence[str]) -> None:
        """Find what is damaged."""
        _each("examining", list(subjects(*paths)), self._examine)

    def examine_store(self, url: str, *, repairing: bool) -> None:
        """Let a store that is not a directory examine itself, and repair itself before that.

        Raises:
            InvalidInput: There is no store of this URL, or it cannot examine itself.
        """
        health = _health_of(url)
        self._stores += 1
        if repairing:
            echo_lines(self._report_repairs(health.repair()))
        findings = health.examine()
        self.findings += findings
        echo_lines([] if self._as_json else map(_finding_line, findings))

    def summary(self, *, repaired: bool) -> str:
        """Return the counts on one line."""
        parts = [] if self._stores and not self._sessions else [counted(self._sessions, "session")]
        if self._stores:
            parts.append(counted(self._stores, "store"))
        if self._other_files:
            parts.append(counted(self._other_files, "other file"))
        if repaired:
            parts.append(counted(sum(each.done and each.action != "noted" for each in self.repairs), "repair"))
            if notes := sum(each.action == "noted" for each in self.repairs):
                parts.append(f"{counted(notes, 'finding')} noted and kept")
        parts.append(counted(len(self.findings), "finding") + (" left" if repaired else ""))
        return ", ".join(parts)

    @property
    def needs_attention(self) -> bool:
        """Whether there is a finding worse than a note that is not known damage."""
        return any(finding.severity != "note" and not self._known.has(finding) for finding in self.findings)

    def _repair(self, subject: Subject) -> list[str]:
        repairs = self._repairer.repair(subject)
        if subject.kind == "folder":
            repairs += IndexCheck(self._disk, subject.path).repair()
        return self._report_repairs(repairs)

    def _report_repairs(self, repairs: Sequence[Repair]) -> list[str]:
        self.repairs += repairs
        return [] if self._as_json else list(map(_repair_line, repairs))

    def _examine(self, subject: Subject) -> list[str]:
        findings = list(map(_advised, examine_subject(subject, self._disk, ids=self._ids)))
        if subject.kind in ("session", "archive"):
            is_session = not any(each.code in _NO_SESSION and each.path == subject.path for each in findings)
            self._sessions += is_session
            self._other_files += not is_session
        if not self._everything:
            findings = news_of(findings, self._known)
        if subject.kind == "folder":
            findings += IndexCheck(self._disk, subject.path).findings()
        self.findings += findings
        return [] if self._as_json else list(map(_finding_line, findings))


def _health_of(url: str) -> Health:
    check_scheme(url)
    store = store_of_scheme(url, durability="os", offload=ThreadOffload(), new_id=random_id)
    health = store.capability(Health)
    if health is None:
        raise InvalidInput(f"the store of '{scheme_of(url)}:' cannot examine itself: give files, or directories")
    return health


def _each(what: str, targets: Sequence[Subject], visit: Callable[[Subject], list[str]]) -> None:
    """Visit each subject and print its lines, with a progress bar if stderr is a terminal."""
    if len(targets) < 2 or not sys.stderr.isatty():
        for subject in targets:
            echo_lines(visit(subject))
        return
    bar = transient_progress()
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
    return f"{line(str(each.where))}: {action}: {line(each.message + target)}"


def _finding_line(finding: Finding) -> str:
    severity = click.style(finding.severity, fg=_COLORS[finding.severity])
    return f"{line(str(finding.where))}: {severity}: {line(finding.message)}"
