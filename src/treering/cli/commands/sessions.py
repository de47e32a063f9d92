"""`treering sessions`: the sessions of a project, or of all projects."""

from __future__ import annotations

import click

from ...events.entries import ARCHIVED
from ...events.texts import counted
from ...projections.summary import CORRUPTED
from ..home import Home, root_option
from ..number_input import Count
from ..opening import json_option
from ..output import echo_json, echo_lines, quiet_option, run, tell
from ..table import table_of


@click.command()
@click.option(
    "-a", "--all", "everywhere", is_flag=True, help="List the sessions of all projects, and files that cannot be read."
)
@click.option("--archived", is_flag=True, help="List archived sessions instead.")
@click.option("-n", "--limit", metavar="N", type=Count(min=0), help="List at most N sessions.")
@json_option
@quiet_option
@root_option
def sessions(everywhere: bool, archived: bool, limit: int | None, as_json: bool, root: str | None) -> None:
    """List the sessions of this project, or of all projects.

    The most recently used session, resumed or appended to, comes first. A row shows the session's name or the beginning
    of its first message, when it was used, how many messages it has, and a unique prefix of its id. A narrow terminal
    shows fewer columns, but always the id. A `*` marks the current session of the project.

    \b
    Examples:
      treering sessions
      treering sessions --all --limit 20
      treering sessions --json | jq -r '.[].id'
    """
    run(_sessions, Home.at(root), everywhere, archived, limit, as_json)


async def _sessions(home: Home, everywhere: bool, archived: bool, limit: int | None, as_json: bool) -> None:
    status = ARCHIVED if archived else None
    project = None if everywhere else home.project
    async with home.opened() as host:
        rows = await host.list_sessions(project=project, status=status, limit=limit)
        current = await host.current_session(home.project)
        among = await host.list_sessions(status="any")
        unlisted = [] if archived or rows else await host.list_sessions(project=project, status=ARCHIVED)
    elsewhere = [] if everywhere else [row for row in among if row.archived == archived]
    broken = [] if everywhere else [row for row in among if row.status == CORRUPTED]
    if as_json:
        echo_json(rows)
    else:
        echo_lines(table_of(rows, among=among, places=everywhere, current=None if current is None else current.ref))
    if not rows and limit != 0:
        kind = "archived sessions" if archived else "sessions"
        others = len(elsewhere) - (0 if archived else len(broken))
        where = f"in {home.root}" if everywhere else _where_instead(others)
        also = f"; {len(unlisted)} archived: --archived lists them" if unlisted else ""
        tell(f"no {kind} {where}{also}")
    if broken:
        tell(f"{counted(len(broken), 'file')} cannot be read: --all lists them")


def _where_instead(others: int) -> str:
    """Return the end of a note that this project has no sessions, given the number of those in other projects."""
    return f"in this project; {others} in others: --all lists them" if others else "yet"
