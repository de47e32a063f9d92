"""Commands on a database of sessions: the hosts that share it; and for its operators, who look after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import anyio
import click

from ...events.arguments import scheme_of
from ...events.errors import ExtraMissing, InvalidInput, NotFound, Unavailable
from ...events.stores.hosts import HostRow, Hosts
from ...events.texts import counted
from ..columns import GAP, aligned
from ..command_list import Commands
from ..home import Home
from ..options import json_option, quiet_option, root_option
from ..output import clean, columns, echo_json, line, run, show, tell

if TYPE_CHECKING:
    from ...stores.postgres.administration import Administration, DatabaseStatus

_LOOK_S = 0.2
_root_option = click.option(
    "--root", metavar="URL", help="The address, such as postgresql://user@host/database; by default TREERING_ROOT."
)


def _administration(root: str | None) -> Administration:
    """Return the operators' side of the database that is the root.

    Raises:
        InvalidInput: The root is another place.
        ExtraMissing: The driver is not installed.
    """
    home = Home.at(root)
    if scheme_of(home.root) not in ("postgres", "postgresql"):
        raise InvalidInput(
            f"{home.place} is no database: give an address, such as --root postgresql://user@host/database, also by "
            f"TREERING_ROOT"
        )
    try:
        from ...stores.postgres.administration import Administration
        from ...stores.postgres.sharding import addresses_of
    except ModuleNotFoundError as error:
        raise ExtraMissing("a database needs the package psycopg: pip install 'treering[postgres]'") from error
    addresses = addresses_of(home.root)
    if len(addresses) > 1:
        raise InvalidInput(f"{len(addresses)} databases are named: give the address of one of them, by --root")
    return Administration(addresses[0])


@click.group(cls=Commands)
def postgres() -> None:
    """Look after a PostgreSQL database of sessions.

    \b
    Examples:
      treering postgres status --root postgresql://user@host/database
      treering postgres migrate
      treering postgres grants | psql
    """


@postgres.command()
@json_option
@_root_option
def status(as_json: bool, root: str | None) -> None:
    """Show the state of the server, of the schema, and the hosts that are alive.

    \b
    Examples:
      treering postgres status
      treering postgres status --json | jq .version
    """
    found = _administration(root).status()
    show(found, _lines(found), as_json=as_json)


def _lines(found: DatabaseStatus) -> Iterator[str]:
    if not found.version:
        version = "there is none yet: treering postgres migrate makes it"
    elif found.version < found.newest:
        version = f"version {found.version}; {found.newest} is the newest: treering postgres migrate changes it"
    elif found.version > found.newest:
        version = f"version {found.version}, of a newer program than this one, which knows {found.newest}"
    else:
        version = f"version {found.version}, the newest"
    commits = f"synchronous_commit is {found.synchronous_commit}"
    details = (
        ("place", found.place),
        ("role", found.role),
        ("server", f"PostgreSQL {found.server}, {'a standby' if found.standby else 'takes writes'}"),
        ("commits", commits + (f", and waits for {found.standbys}" if found.standbys else "")),
        ("schema", f"{found.schema}, {version}"),
        ("restored", "never" if not found.restored else counted(found.restored, "time")),
        ("size", f"{found.bytes:,} bytes"),
        ("archived", f"{counted(found.archived, 'session')} as objects, {found.archived_bytes:,} bytes"),
        *(
            ("host", f"{each.name}: {counted(each.sessions, 'session')}, lease {each.left_s:.0f} s")
            for each in found.hosts
        ),
    )
    for name, value in details:
        yield f"{click.style(f'{name:<9}', dim=True)} {line(value)}"


@postgres.command()
@json_option
@quiet_option
@_root_option
def migrate(as_json: bool, root: str | None) -> None:
    """Make the tables, or bring them to the version of this program.

    Hosts may run meanwhile. A host whose role may do so migrates by itself when it starts.

    \b
    Examples:
      treering postgres migrate --root postgresql://owner@host/database
    """
    migrated = _administration(root).migrate()
    if as_json:
        echo_json(migrated)
    if migrated.before == migrated.after:
        tell(f"schema {migrated.schema} has version {migrated.after} already")
    else:
        tell(f"schema {migrated.schema} has version {migrated.after} now, and had {migrated.before or 'none'}")


@postgres.command()
@click.option("--owner", default="treering_owner", show_default=True, help="The role that makes and migrates tables.")
@click.option("--runner", default="treering_runner", show_default=True, help="The role of hosts.")
@click.option("--reader", default="treering_reader", show_default=True, help="The role that reads only.")
@json_option
@_root_option
def grants(owner: str, runner: str, reader: str, as_json: bool, root: str | None) -> None:
    """Print the SQL that gives three roles their rights, for psql; nothing is executed.

    \b
    Examples:
      treering postgres grants
      treering postgres grants --runner agents | psql
    """
    text = _administration(root).grants(owner=owner, runner=runner, reader=reader)
    if as_json:
        echo_json({"sql": text})
    else:
        click.echo(text, nl=False)


@postgres.command()
@click.option("--dry-run", is_flag=True, help="Only tell which objects would be deleted.")
@json_option
@quiet_option
@_root_option
def sweep(dry_run: bool, as_json: bool, root: str | None) -> None:
    """Delete objects of archived sessions that nothing uses: what a host left that was killed while it archived.

    The address says where objects are, by its parameter 'archive'. Hosts may run meanwhile.

    \b
    Examples:
      treering postgres sweep --root 'postgresql://user@host/database?archive=s3://bucket/prefix' --dry-run
      treering postgres sweep
    """
    swept = _administration(root).sweep(dry_run=dry_run)
    if as_json:
        echo_json(swept)
    else:
        for uri in swept.unused:
            click.echo(line(uri))
    tell(
        f"{counted(swept.objects, 'object')} in {swept.place}, {len(swept.unused)} unused"
        + (": nothing was deleted" if dry_run else ", which were deleted" if swept.unused else "")
    )


@postgres.command()
@json_option
@quiet_option
@_root_option
def restored(as_json: bool, root: str | None) -> None:
    """Note that the database was restored from a backup: whoever follows a session begins anew.

    Run it after each restoring, before hosts use the sessions again. Places in a session that were noted before may
    hold other entries now, so every session gets a new generation. Hosts that run are cut off, and their leases end.

    \b
    Examples:
      treering postgres restored --root postgresql://owner@host/database
    """
    count = _administration(root).restored()
    if as_json:
        echo_json({"restored": count})
    tell(f"noted: the database was restored {counted(count, 'time')}; every session has a new generation")


# -- the hosts


@click.group(cls=Commands, invoke_without_command=True)
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
        show(found, _host_lines(found), as_json=as_json)
    else:
        ctx.default_map = {ctx.invoked_subcommand: {"root": root}}  # it may stand before the subcommand, too


@hosts.command()
@click.argument("name")
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    default=60.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="For how long to wait until it has let go of all.",
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


def _host_lines(found: Sequence[HostRow]) -> Iterator[str]:
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
