"""`treering current`: show or set the current session of a project."""

from __future__ import annotations

import click

from ..home import Home, root_option, session_completion
from ..opening import json_option
from ..output import echo_json, echo_lines, quiet_option, run, tell
from ..rows import name_of
from ..table import table_of


@click.command()
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=session_completion)
@click.option("--clear", is_flag=True, help="Unset the current session of the project.")
@json_option
@quiet_option
@root_option
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
