"""`treering delete`: delete sessions for good."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from ...events.texts import counted
from ...projections.summary import SessionSummary
from ..home import Home, do_each, resolve_each, root_option, sessions_argument
from ..opening import json_option
from ..output import confirmed, echo_json, quiet_option, run, tell
from ..rows import named
from ..table import table_of


@click.command()
@sessions_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@quiet_option
@root_option
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
