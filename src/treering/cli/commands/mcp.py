"""`treering mcp`: lets an agent look up sessions over stdio."""

from __future__ import annotations

import click

from ..home import Home
from ..options import home_options
from ..output import run


@click.command()
@click.option("--read-only", is_flag=True, help="Offer no tool that labels entries.")
@home_options
def mcp(read_only: bool, root: str | None) -> None:
    """Let an agent look up sessions, over the Model Context Protocol on stdin and stdout.

    The program that runs the agent starts it, and stops it by closing its stdin. It offers tools to search, list, read,
    draw the tree and label, and each session as a resource that updates. Secrets are removed from what it shows.

    \b
    Examples:
      claude mcp add treering -- treering mcp
      treering mcp --server http://127.0.0.1:8765 --read-only
    """
    run(_serve, Home.at(root), read_only)


async def _serve(home: Home, read_only: bool) -> None:
    from ...mcp.reach import HostReach
    from ...mcp.stdio import StdioServer

    async with home.opened() as host:
        await StdioServer(HostReach(host, may_write=not read_only)).run()
