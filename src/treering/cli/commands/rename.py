"""`treering rename`: give a session a name."""

from __future__ import annotations

import click
from msgspec import to_builtins

from ...projections.summary import SessionSummary
from ..home import Home, root_option, session_argument
from ..opening import json_option
from ..output import echo_json, run
from ..rows import named


@click.command()
@session_argument
@click.argument("name", metavar="NAME")
@json_option
@root_option
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
        echo_json({**to_builtins(named(row)), "name": row.name})


async def _rename(home: Home, session: str, name: str) -> SessionSummary:
    async with home.opened() as host:
        loaded = await host.load(session)
        await loaded.update_metadata(name=name)
        return await host.resolve(loaded.file_path or loaded.id)
