"""`treering search`: entries of all sessions, by what they say."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from msgspec import Struct

from ..actors.hits import Hit
from ..events.entries import ROLES
from ..events.kinds import TYPE_NAMES
from ..events.wording import counted
from .home import Home, root_option
from .moments import Moment
from .opening import json_option
from .output import as_json as encoded
from .output import clean, line, quiet_option, run, tell
from .prefixes import Prefixes
from .rows import NAMELESS
from .telling import colored, short
from .when import when

_ROLES = sorted({*ROLES, *TYPE_NAMES.values()} - {"message", "damaged", "aborted"})


@click.command()
@click.argument("query", metavar="QUERY...", nargs=-1, required=True)
@click.option(
    "--project", metavar="DIRECTORY", type=click.Path(), help="Only sessions of this folder; `.` is this one."
)
@click.option("--role", metavar="ROLE", help="Only messages of this role; or entries of this type, such as compaction.")
@click.option("--tool", metavar="NAME", help="Only messages that call this tool, or that come from it.")
@click.option("--after", metavar="TIME", type=Moment(), help="Only what was appended then or later: a date, or 7d.")
@click.option("--before", metavar="TIME", type=Moment(), help="Only what was appended earlier.")
@click.option(
    "-n", "--limit", metavar="N", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many."
)
@click.option(
    "--index/--no-index",
    default=None,
    help="Answer from the search index, which is made where it is not there; or read the sessions. Else it is used if it is there.",
)
@json_option
@quiet_option
@root_option
def search(
    query: tuple[str, ...],
    project: str | None,
    role: str | None,
    tool: str | None,
    after: datetime | None,
    before: datetime | None,
    limit: int,
    index: bool | None,
    as_json: bool,
    root: str | None,
) -> None:
    """Find entries of all sessions by what they say.

    An entry is found when it holds all words and "phrases", also in the middle of words, in any letter case. The session used
    last comes first; archived ones are searched too. With --json, each hit is one line, written as it is found.

    \b
    Examples:
      treering search timeout
      treering search '"connection lost"' --project . --after 7d
      treering search TODO --role user --json | jq -r .entry_id
    """
    wanted = _Wanted(" ".join(query), project, role, tool, after, before, limit, index)
    run(_search, Home.at(root), wanted, as_json)


class _Wanted(Struct, frozen=True):
    query: str
    project: str | None
    role: str | None
    tool: str | None
    after: datetime | None
    before: datetime | None
    limit: int
    index: bool | None


async def _search(home: Home, wanted: _Wanted, as_json: bool) -> None:
    count, session, now = 0, "", datetime.now(UTC)
    async with home.opened() as host:
        rows = await host.list_sessions(status="any")
        titles = {row.ref: row.title for row in rows}
        prefixes = Prefixes(row.id for row in rows)
        found = host.search(
            wanted.query,
            project=wanted.project,
            role=wanted.role,
            tool=wanted.tool,
            after=wanted.after,
            before=wanted.before,
            limit=wanted.limit,
            index=wanted.index,
        )
        async for hit in found:
            if as_json:
                click.echo(encoded(hit))
            else:
                if hit.ref != session:
                    click.echo(_heading(prefixes.of(hit.session_id), titles.get(hit.ref), first=not count))
                click.echo(_line(hit, now))
            count, session = count + 1, hit.ref
    for finding in found.findings:
        click.echo(f"{clean(str(finding.where))}: {finding.severity}: {clean(finding.message)}", err=True)
    more = "; --limit shows more" if count == wanted.limit else ""
    tell(f"{counted(count, 'hit')}{more}" if count else f"nothing found{_doubt(wanted.role)}")


def _doubt(role: str | None) -> str:
    """Return what may be wrong with a role of which nothing was found; a program may have roles of its own."""
    if role is None or role in _ROLES:
        return ""
    return f"; {clean(role)!r} is none of the usual roles: those are {', '.join(_ROLES)}"


def _heading(shown_id: str, title: str | None, *, first: bool) -> str:
    name = click.style(line(title or NAMELESS), bold=True)
    return f"{'' if first else chr(10)}{name}  {click.style(shown_id, dim=True)}"


def _line(hit: Hit, now: datetime) -> str:
    told, at = "", 0
    for start, end in hit.ranges:
        told += clean(hit.snippet[at:start]) + click.style(clean(hit.snippet[start:end]), fg="red", bold=True)
        at = end
    time = click.style(when(hit.timestamp, now), dim=True)
    place = click.style(short(hit.entry_id), dim=True)
    return f"  {place}  {time}  {colored(clean(hit.role))}: {told}{clean(hit.snippet[at:])}"
