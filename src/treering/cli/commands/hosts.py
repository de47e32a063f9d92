"""Commands about the hosts that share a database: list them, and have one let go of its sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import anyio
import click

from ...events.errors import InvalidInput, NotFound, Unavailable
from ...events.stores.hosts import HostRow, Hosts
from ...events.texts import counted
from ..columns import GAP, aligned
from ..home import Home
from ..options import json_option, quiet_option, root_option
from ..output import clean, columns, run, show, tell

_LOOK_S = 0.2


@click.group(invoke_without_command=True)
@json_option
@root_option
@click.pass_context
def hosts(ctx: click.Context, as_json: bool, root: str | None) -> None:
    """List the hosts that share a database, and drain one of them.

    Each line says how many sessions a host holds, for how long it has given no sign of life, how long its lease still
    lasts, and where it answers other hosts. Programs are listed while they hold sessions, servers with --advertise as
    long as they run.

    \b
    Examples:
      treering hosts --root postgresql://user@host/database
      treering hosts --json
      treering hosts drain agents-2:4711
    """
    if ctx.invoked_subcommand is None:
        found = run(_hosts, Home.at(root))
        show(found, _lines(found), as_json=as_json)


@hosts.command()
@click.argument("name")
@click.option(
    "--wait",
    "wait_s",
    default=60.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="For how many seconds to wait until it has let go of all.",
)
@quiet_option
@root_option
def drain(name: str, wait_s: float, root: str | None) -> None:
    """Have a host take no more sessions, and let go of those that it has.

    It answers the commands that it has accepted, and releases each session then; the next request for one goes to
    another host. What follows a session goes on. The host runs on until it is stopped, and passes requests on.

    \b
    Examples:
      treering hosts drain agents-2:4711
      treering hosts drain agents-2:4711 --wait 300
    """
    run(_drain, Home.at(root), name, wait_s)
    tell(f"{name} has let go of all its sessions, and takes no more: it can be stopped")


async def _hosts(home: Home) -> list[HostRow]:
    async with home.opened() as host:
        runtime = host.core.runtime
        return await runtime.blocking(_known(runtime.store.capability(Hosts)).hosts)


async def _drain(home: Home, name: str, wait_s: float) -> None:
    async with home.opened() as host:
        runtime = host.core.runtime
        known = _known(runtime.store.capability(Hosts))
        if not await runtime.blocking(known.drain, name):
            raise NotFound(f"no host lives that is called {name!r}: `treering hosts` lists them")
        until = anyio.current_time() + wait_s
        while left := _sessions_of(name, await runtime.blocking(known.hosts)):
            if anyio.current_time() > until:
                raise Unavailable(
                    f"{name} still has {counted(left, 'session')} after {wait_s:g} s, and goes on releasing them: look "
                    f"with `treering hosts`"
                )
            await anyio.sleep(_LOOK_S)


def _known(known: Hosts | None) -> Hosts:
    if known is None:
        raise InvalidInput("hosts share a database: give its address by --root, such as 'postgresql://host/database'")
    return known


def _sessions_of(name: str, found: Sequence[HostRow]) -> int:
    return sum(each.sessions for each in found if each.name == name and each.left_s > 0)


def _lines(found: Sequence[HostRow]) -> Iterator[str]:
    rows = [
        (
            clean(each.name),
            counted(each.sessions, "session"),
            f"seen {each.lag_s:.0f} s ago",
            f"lease {each.left_s:.0f} s" if each.left_s > 0 else "gone",
            "draining" if each.draining else "",
            clean(each.address or ""),
        )
        for each in found
    ]
    for cells in aligned(rows, columns()) if rows else ():
        yield GAP.join(cells).rstrip()
