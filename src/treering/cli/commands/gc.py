"""`treering gc`: preview retention, or apply it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import click

from ...actors.catalog.archiving import RetentionReport
from ...events.texts import counted
from ..descriptions import short
from ..home import Home, root_option
from ..opening import json_option
from ..output import echo_json, echo_lines, line, quiet_option, run, short_line, tell
from ..time_output import when

_WHY = {"inactive": "nothing was appended for a long time", "too_many": "too many sessions of its project are newer"}


@click.command()
@click.option(
    "--apply/--dry-run", "applying", default=False, help="Archive, or only report what would be archived (the default)."
)
@json_option
@quiet_option
@root_option
def gc(applying: bool, as_json: bool, root: str | None) -> None:
    """Archive old sessions, according to the settings.

    This concerns sessions to which nothing was appended for `auto_archive_after_days`, and sessions beyond
    `max_sessions_per_project`. Nothing is ever deleted. Sessions in use are spared, and so is the current session of
    each project.

    \b
    Examples:
      treering gc
      treering gc --apply
    """
    report = run(_gc, Home.at(root), applying)
    if as_json:
        echo_json(report)
    else:
        echo_lines(_lines(report))
    archived = counted(len(report.archived), "session")
    tell(f"{archived} archived" if applying else f"{archived} would be archived: pass --apply to archive")


async def _gc(home: Home, applying: bool) -> RetentionReport:
    async with home.opened() as host:
        return await host.apply_retention(dry_run=not applying)


def _lines(report: RetentionReport) -> Iterator[str]:
    now = datetime.now(UTC)
    verb = "would archive" if report.dry_run else "archived"
    for each in report.archived:
        name = f"  {short_line(each.name)}" if each.name else ""
        yield f"{verb} {short(each.session_id)}{name}  {when(each.last_entry, now)}: {_WHY[each.reason]}"
    for spared in report.spared:
        yield f"spared {short(spared.session_id)}: {line(spared.why)}"
