"""`treering archive` and `treering unarchive`: sessions that are kept and no longer listed among the others."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..events.findings import counted
from .home import Home, root_option, sessions_argument
from .output import quiet_option, run, tell


@click.command()
@sessions_argument
@quiet_option
@root_option
def archive(sessions: tuple[str, ...], root: str | None) -> None:
    """Take sessions out of the listing; nothing of them is lost.

    Their files are compressed where that is possible. `treering sessions --archived` lists them; they are searched, shown and
    exported as before, and whoever goes on with one brings it back.

    \b
    Examples:
      treering archive 5f0c12ab
      treering archive last
    """
    run(_archive, Home.at(root), sessions)
    tell(f"{counted(len(sessions), 'session')} archived")


@click.command()
@sessions_argument
@quiet_option
@root_option
def unarchive(sessions: tuple[str, ...], root: str | None) -> None:
    """Bring archived sessions back.

    \b
    Examples:
      treering unarchive 5f0c12ab
    """
    run(_unarchive, Home.at(root), sessions)
    tell(f"{counted(len(sessions), 'session')} brought back")


async def _archive(home: Home, sessions: Sequence[str]) -> None:
    async with home.opened() as host:
        for row in [await host.resolve(each) for each in sessions]:  # all of them are there, before anything is done
            await host.archive(row.path or row.ref)


async def _unarchive(home: Home, sessions: Sequence[str]) -> None:
    async with home.opened() as host:
        for row in [await host.resolve(each) for each in sessions]:
            await host.unarchive(row.path or row.ref)
