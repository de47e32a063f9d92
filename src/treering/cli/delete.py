"""`treering delete`: sessions that are to be gone for good."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from ..events.findings import counted
from ..projections.summary import SessionSummary
from .home import Home, root_option, sessions_argument
from .output import quiet_option, run, tell
from .table import table_of


@click.command()
@sessions_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@quiet_option
@root_option
@click.pass_context
def delete(ctx: click.Context, sessions: tuple[str, ...], yes: bool, root: str | None) -> None:
    """Delete sessions for good.

    Their files go, and what is kept beside them. It asks first; where there is no terminal to ask on, --yes is needed.
    Archiving keeps them: see `treering archive`.

    \b
    Examples:
      treering delete 5f0c12ab
      treering delete 5f0c12ab 77aa01fe --yes
    """
    home = Home.at(root)
    rows = run(_found, home, sessions)
    if not yes:
        if not sys.stdin.isatty():
            click.echo("treering: there is no terminal to ask on: --yes deletes without asking", err=True)
            ctx.exit(2)
        click.echo("\n".join(table_of(rows, places=True)), err=True)
        click.confirm(f"Delete {counted(len(rows), 'session')} for good?", abort=True, err=True)
    run(_delete, home, rows)
    tell(f"{counted(len(rows), 'session')} deleted")


async def _found(home: Home, sessions: Sequence[str]) -> list[SessionSummary]:
    async with home.opened() as host:
        found = [await host.resolve(each) for each in sessions]
    return list({row.ref: row for row in found}.values())


async def _delete(home: Home, rows: Sequence[SessionSummary]) -> None:
    async with home.opened() as host:
        for row in rows:
            await host.delete(row.path or row.ref)
