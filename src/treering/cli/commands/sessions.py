"""Commands that list, choose and name sessions."""

from __future__ import annotations

import click

from ...events.texts import counted
from ...projections.summary import CORRUPTED, SessionSummary
from ..home import Home
from ..options import Count, home_options, json_option, quiet_option, session_argument, session_completion
from ..output import echo_json, echo_lines, run, show, tell
from ..rows import name_of, named, table_of


@click.command()
@click.option(
    "-a", "--all", "everywhere", is_flag=True, help="List the sessions of all projects, and files that cannot be read."
)
@click.option("--archived", is_flag=True, help="List archived sessions instead.")
@click.option("-n", "--limit", metavar="N", type=Count(min=0), help="List at most N sessions.")
@json_option
@quiet_option
@home_options
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
    async with home.opened() as host:
        among = await host.list_sessions(status="any")
        of_project = among if everywhere else await host.list_sessions(project=home.project, status="any")
        current = await host.current_session(home.project)
    rows = [row for row in of_project if row.archived == archived][:limit]
    unlisted = [] if archived else [row for row in of_project if row.archived]
    elsewhere = [] if everywhere else [row for row in among if row.archived == archived]
    broken = [] if everywhere else [row for row in among if row.status == CORRUPTED]
    show(
        rows,
        table_of(rows, among=among, places=everywhere, current=None if current is None else current.ref),
        as_json=as_json,
    )
    if not rows and limit != 0:
        kind = "archived sessions" if archived else "sessions"
        others = len(elsewhere) - (0 if archived else len(broken))
        where = f"in {home.place}" if everywhere else _where_instead(others)
        also = f"; {len(unlisted)} archived: --archived lists them" if unlisted else ""
        tell(f"no {kind} {where}{also}")
    if broken:
        tell(f"{counted(len(broken), 'file')} cannot be read: --all lists them")


def _where_instead(others: int) -> str:
    """Return the end of a note that this project has no sessions, given the number of those in other projects."""
    return f"in this project; {others} in others: --all lists them" if others else "yet"


@click.command()
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=session_completion)
@click.option("--clear", is_flag=True, help="Unset the current session of the project.")
@json_option
@quiet_option
@home_options
def current(session: str | None, clear: bool, as_json: bool, root: str | None) -> None:
    """Show or set the current session of this project.

    `treering chat --continue` resumes it in preference to sessions that were used later. If there is none, nothing is
    printed.

    \b
    Examples:
      treering current
      treering current 5f0c12ab
      treering current --clear
    """
    if clear and session is not None:
        raise click.UsageError("give either a session or --clear, not both")
    run(_current, Home.at(root), session, clear, as_json)


async def _current(home: Home, session: str | None, clear: bool, as_json: bool) -> None:
    async with home.opened() as host:
        if clear:
            await host.set_current_session(home.project, None)
            if as_json:
                echo_json(None)
            return
        if session is not None:
            chosen = await host.resolve(session)
            await host.set_current_session(home.project, chosen)
            if as_json:
                echo_json(chosen)
            is_current = "is the current session of"
            if chosen.archived:
                is_current = "is archived; once unarchived, it is the current session of"
            tell(f"{name_of(chosen)} {is_current} {home.project}")
            return
        row = await host.current_session(home.project)
        among = await host.list_sessions(status="any")
    if as_json:
        echo_json(row)
    elif row is not None:
        echo_lines(table_of([row], among=among, places=False, current=row.ref))
    else:
        tell("this project has no current session")


@click.command()
@session_argument
@click.argument("name", metavar="NAME")
@json_option
@home_options
def rename(session: str, name: str, as_json: bool, root: str | None) -> None:
    """Give a session a name.

    Automatic titles never replace it. An empty name removes it.

    \b
    Examples:
      treering rename 5f0c12ab "Fix the cart"
      treering rename last ""
    """
    row = run(_rename, Home.at(root), session, name)
    if as_json:
        echo_json({**named(row), "name": row.name})


async def _rename(home: Home, session: str, name: str) -> SessionSummary:
    async with home.opened() as host:
        loaded = await host.load(await host.resolve(session))
        await loaded.update_metadata(name=name)
        return await host.resolve(loaded.file_path or loaded.id)
