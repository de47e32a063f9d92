"""`treering archive` and `treering unarchive`: leave sessions out of the listing, and restore them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from ...events.errors import TreeringError
from ...events.texts import counted
from ...projections.summary import SessionSummary
from ..home import Home, do_each, resolve_each, root_option, sessions_argument
from ..opening import json_option
from ..output import echo_json, line, quiet_option, run, sentence, tell
from ..rows import Named, name_of, named

if TYPE_CHECKING:
    from ...actors.host.host import SessionHost


@click.command()
@sessions_argument
@json_option
@quiet_option
@root_option
@click.pass_context
def archive(ctx: click.Context, sessions: tuple[str, ...], as_json: bool, root: str | None) -> None:
    """Archive sessions: leave them out of the listing, and keep everything.

    Their files are compressed if possible. `treering sessions --archived` lists them; they can be searched, shown and
    exported as before. Continuing an archived session restores it.

    \b
    Examples:
      treering archive 5f0c12ab
      treering archive last
    """
    changed, others, failed = run(_archive, Home.at(root), sessions)
    if as_json:
        echo_json({"archived": changed, "archived_before": others})
    _report("archived", "already archived", changed, others)
    ctx.exit(int(failed))


@click.command()
@sessions_argument
@json_option
@quiet_option
@root_option
@click.pass_context
def unarchive(ctx: click.Context, sessions: tuple[str, ...], as_json: bool, root: str | None) -> None:
    """Restore archived sessions.

    \b
    Examples:
      treering unarchive 5f0c12ab
    """
    changed, others, failed = run(_unarchive, Home.at(root), sessions)
    if as_json:
        echo_json({"brought_back": changed, "active_before": others})
    _report("restored", "not archived", changed, others)
    ctx.exit(int(failed))


async def _archive(home: Home, sessions: Sequence[str]) -> tuple[list[Named], list[Named], bool]:
    """Archive sessions; return those that were not archived before, those that were, and whether any failed."""
    async with home.opened() as host:
        rows = await resolve_each(host, sessions)
        done = await do_each(rows, lambda row: _archive_one(host, row))
    return *_split(done, lambda row: not row.archived), len(done) < len(rows)


async def _archive_one(host: SessionHost, row: SessionSummary) -> None:
    """Archive a session; if its file cannot be compressed, report that it is archived all the same."""
    try:
        await host.archive(row)
    except OSError as error:
        if isinstance(error, TreeringError) or not (await host.resolve(row)).archived:
            raise
        click.echo(f"{line(name_of(row))}: archived, but not compressed: {sentence(error)}", err=True)


async def _unarchive(home: Home, sessions: Sequence[str]) -> tuple[list[Named], list[Named], bool]:
    """Restore sessions; return those that were archived before, those that were not, and whether any failed."""
    async with home.opened() as host:
        rows = await resolve_each(host, sessions)
        done = await do_each(rows, host.unarchive)
    return *_split(done, lambda row: row.archived), len(done) < len(rows)


def _split(
    rows: Sequence[SessionSummary], changes: Callable[[SessionSummary], bool]
) -> tuple[list[Named], list[Named]]:
    return [named(row) for row in rows if changes(row)], [named(row) for row in rows if not changes(row)]


def _report(done: str, before: str, changed: Sequence[Named], others: Sequence[Named]) -> None:
    parts = [f"{counted(len(changed), 'session')} {done}"] if changed or not others else []
    if others:
        parts.append(f"{counted(len(others), 'session')} {'was' if len(others) == 1 else 'were'} {before}")
    tell(", ".join(parts))
