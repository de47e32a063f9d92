"""`treering rename`: a session's name."""

from __future__ import annotations

import click

from .home import Home, root_option, session_argument
from .output import run


@click.command()
@session_argument
@click.argument("name", metavar="NAME")
@root_option
def rename(session: str, name: str, root: str | None) -> None:
    """Give a session a name.

    No automatic title replaces it from then on. An empty name takes it away.

    \b
    Examples:
      treering rename 5f0c12ab "Fix the cart"
      treering rename last ""
    """
    run(_rename, Home.at(root), session, name)


async def _rename(home: Home, session: str, name: str) -> None:
    async with home.opened() as host:
        loaded = await host.load(session)
        await loaded.update_metadata(name=name)
