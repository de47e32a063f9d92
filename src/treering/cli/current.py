"""`treering current`: which session of a project is the current one."""

from __future__ import annotations

import click

from .home import Home, root_option, session_completion
from .opening import json_option
from .output import echo_json, echo_lines, quiet_option, run, tell
from .rows import name_of
from .table import table_of


@click.command()
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=session_completion)
@click.option("--clear", is_flag=True, help="Let the project have no current session.")
@json_option
@quiet_option
@root_option
def current(session: str | None, clear: bool, as_json: bool, root: str | None) -> None:
    """Show or set the current session of this project.

    It is the one that `treering chat --continue` goes on with here, before those that were used later. Without one, nothing
    is printed.

    \b
    Examples:
      treering current
      treering current 5f0c12ab
      treering current --clear
    """
    if clear and session is not None:
        raise click.UsageError("a session and --clear: give one of them")
    run(_current, Home.at(root), session, clear, as_json)


async def _current(home: Home, session: str | None, clear: bool, as_json: bool) -> None:
    async with home.opened() as host:
        if clear:
            await host.set_current_session(home.project, None)
            if as_json:
                echo_json(None)
            return
        if session is not None:
            row = await host.resolve(session)
            await host.set_current_session(home.project, row)
            if as_json:
                echo_json(row)
            tell(f"{name_of(row)} is the current session of {home.project}")
            return
        found = await host.current_session(home.project)
        among = await host.list_sessions(status="any")
    if as_json:
        echo_json(found)
    elif found is not None:
        echo_lines(table_of([found], among=among, places=False, current=found.ref))
    else:
        tell("this project has no current session")
