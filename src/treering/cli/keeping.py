"""`treering archive` and `treering unarchive`: sessions that are kept and no longer listed among the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from ..events.errors import TreeringError
from ..events.wording import counted
from ..projections.summary import ARCHIVED, SessionSummary
from .home import Home, root_option, sessions_argument
from .opening import json_option
from .output import echo_json, line, quiet_option, run, sentence, tell
from .rows import Named, name_of, named

if TYPE_CHECKING:
    from ..actors.host import SessionHost


@click.command()
@sessions_argument
@json_option
@quiet_option
@root_option
def archive(sessions: tuple[str, ...], as_json: bool, root: str | None) -> None:
    """Take sessions out of the listing; nothing of them is lost.

    Their files are compressed where that is possible. `treering sessions --archived` lists them; they are searched, shown and
    exported as before, and whoever goes on with one brings it back.

    \b
    Examples:
      treering archive 5f0c12ab
      treering archive last
    """
    changed, others = run(_archive, Home.at(root), sessions)
    if as_json:
        echo_json({"archived": changed, "archived_before": others})
    _tell("archived", "archived already", changed, others)


@click.command()
@sessions_argument
@json_option
@quiet_option
@root_option
def unarchive(sessions: tuple[str, ...], as_json: bool, root: str | None) -> None:
    """Bring archived sessions back.

    \b
    Examples:
      treering unarchive 5f0c12ab
    """
    changed, others = run(_unarchive, Home.at(root), sessions)
    if as_json:
        echo_json({"brought_back": changed, "active_before": others})
    _tell("brought back", "not archived", changed, others)


async def _archive(home: Home, sessions: Sequence[str]) -> tuple[list[Named], list[Named]]:
    """Archive sessions; return those that were not archived before, and those that were."""
    async with home.opened() as host:
        rows = await _meant(host, sessions)
        for row in rows:
            await _archive_one(host, row)
    return _parted(rows, lambda row: row.status != ARCHIVED)


async def _archive_one(host: SessionHost, row: SessionSummary) -> None:
    """Archive a session; where its file cannot be compressed, say so: it is archived all the same."""
    try:
        await host.archive(row)
    except OSError as error:
        if isinstance(error, TreeringError) or (await host.resolve(row)).status != ARCHIVED:
            raise
        click.echo(f"{line(name_of(row))}: archived, but not compressed: {sentence(error)}", err=True)


async def _unarchive(home: Home, sessions: Sequence[str]) -> tuple[list[Named], list[Named]]:
    """Bring sessions back; return those that were archived before, and those that were not."""
    async with home.opened() as host:
        rows = await _meant(host, sessions)
        for row in rows:
            await host.unarchive(row)
    return _parted(rows, lambda row: row.status == ARCHIVED)


async def _meant(host: SessionHost, sessions: Sequence[str]) -> list[SessionSummary]:
    """Return the sessions that are meant, each once; all of them are there, before anything is done."""
    rows = [await host.resolve(each) for each in sessions]
    return list({row.ref: row for row in rows}.values())


def _parted(
    rows: Sequence[SessionSummary], changes: Callable[[SessionSummary], bool]
) -> tuple[list[Named], list[Named]]:
    return [named(row) for row in rows if changes(row)], [named(row) for row in rows if not changes(row)]


def _tell(done: str, before: str, changed: Sequence[Named], others: Sequence[Named]) -> None:
    told = [f"{counted(len(changed), 'session')} {done}"] if changed or not others else []
    if others:
        told.append(f"{counted(len(others), 'session')} {'was' if len(others) == 1 else 'were'} {before}")
    tell(", ".join(told))
