"""Commands that keep a root small: leave sessions out of the listing, restore them, delete them for good."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

import click

from ...actors.catalog.archiving import RetentionReport
from ...actors.host.host import SessionHost
from ...events.errors import TreeringError
from ...events.texts import counted
from ...projections.summary import SessionSummary
from ..home import Home, do_each, resolve_each
from ..messages import sentence
from ..options import home_options, json_option, quiet_option, sessions_argument
from ..output import confirmed, echo_json, line, run, short_line, show, tell
from ..rows import name_of, named, short, table_of, when

_Named: TypeAlias = dict[str, str | None]


@click.command()
@sessions_argument
@json_option
@quiet_option
@home_options
@click.pass_context
def archive(ctx: click.Context, sessions: tuple[str, ...], as_json: bool, root: str | None) -> None:
    """Archive sessions: keep them, and leave them out of the listing.

    Their files are compressed if possible. `treering sessions --archived` lists them; they can be searched, shown and
    exported as before. Continuing an archived session restores it.

    \b
    Examples:
      treering archive 5f0c12ab
      treering archive last
    """
    changed, others, failed = run(_change_each, Home.at(root), sessions, False)
    if as_json:
        echo_json({"archived": changed, "archived_before": others})
    _report("archived", "already archived", changed, others)
    ctx.exit(int(failed))


@click.command()
@sessions_argument
@json_option
@quiet_option
@home_options
@click.pass_context
def unarchive(ctx: click.Context, sessions: tuple[str, ...], as_json: bool, root: str | None) -> None:
    """Restore archived sessions.

    \b
    Examples:
      treering unarchive 5f0c12ab
    """
    changed, others, failed = run(_change_each, Home.at(root), sessions, True)
    if as_json:
        echo_json({"brought_back": changed, "active_before": others})
    _report("restored", "not archived", changed, others)
    ctx.exit(int(failed))


async def _change_each(
    home: Home,
    sessions: Sequence[str],
    when_archived: bool,
) -> tuple[list[_Named], list[_Named], bool]:
    """Archive or restore sessions; return those that needed it, those that did not, and whether any failed.

    Args:
        home: The root.
        sessions: The sessions, as a person names them.
        when_archived: Whether archived sessions are those that need it, to be restored.
    """
    async with home.opened() as host:
        rows = await resolve_each(host, sessions)
        change = host.unarchive if when_archived else partial(_archive, host)
        done = await do_each(rows, change)
    needed = [named(row) for row in done if row.archived == when_archived]
    return needed, [named(row) for row in done if row.archived != when_archived], len(done) < len(rows)


async def _archive(host: SessionHost, row: SessionSummary) -> None:
    """Archive a session; if its file cannot be compressed, report that it is archived all the same."""
    try:
        await host.archive(row)
    except OSError as error:
        if isinstance(error, TreeringError) or not (await host.resolve(row)).archived:
            raise
        click.echo(f"{line(name_of(row))}: archived, but not compressed: {sentence(error)}", err=True)


def _report(done: str, before: str, changed: Sequence[_Named], others: Sequence[_Named]) -> None:
    parts = [f"{counted(len(changed), 'session')} {done}"] if changed or not others else []
    if others:
        parts.append(f"{counted(len(others), 'session')} {'was' if len(others) == 1 else 'were'} {before}")
    tell(", ".join(parts))


@click.command()
@sessions_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@quiet_option
@home_options
@click.pass_context
def delete(ctx: click.Context, sessions: tuple[str, ...], yes: bool, as_json: bool, root: str | None) -> None:
    """Delete sessions for good.

    This deletes their files and every copy beside them, such as old versions and fragments that a crash left. It asks
    for confirmation; without a terminal, --yes is required. To keep sessions out of the listing instead, use `treering
    archive`.

    \b
    Examples:
      treering delete 5f0c12ab
      treering delete 5f0c12ab 77aa01fe --yes
    """
    home = Home.at(root)
    rows, among = run(_resolve, home, sessions)
    if not yes:
        if not sys.stdin.isatty():
            click.echo(
                "treering: there is no terminal to ask for confirmation: pass --yes to delete without asking", err=True
            )
            ctx.exit(2)
        click.echo("\n".join(table_of(rows, among=among, places=True)), err=True)
        try:
            agreed = confirmed(f"Delete {counted(len(rows), 'session')} for good?")
        except KeyboardInterrupt:
            click.echo("nothing was deleted", err=True)
            raise
        if not agreed:
            click.echo("nothing was deleted", err=True)
            ctx.exit(1)
    deleted = run(_delete, home, rows)
    if as_json:
        echo_json({"deleted": [named(row) for row in deleted]})
    tell(f"{counted(len(deleted), 'session')} deleted")
    ctx.exit(int(len(deleted) < len(rows)))


async def _resolve(home: Home, sessions: Sequence[str]) -> tuple[list[SessionSummary], list[SessionSummary]]:
    """Resolve the sessions, each once, and return them with all sessions."""
    async with home.opened() as host:
        return await resolve_each(host, sessions), await host.list_sessions(status="any")


async def _delete(home: Home, rows: Sequence[SessionSummary]) -> list[SessionSummary]:
    async with home.opened() as host:
        return await do_each(rows, host.delete)


_WHY = {"inactive": "nothing was appended for a long time", "too_many": "too many sessions of its project are newer"}


@click.command()
@click.option(
    "--apply/--dry-run", "applying", default=False, help="Archive, or only report what would be archived (the default)."
)
@json_option
@quiet_option
@home_options
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
    show(report, _lines(report), as_json=as_json)
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
