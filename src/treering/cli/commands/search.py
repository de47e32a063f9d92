"""`treering search`: full-text search over all sessions."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ...actors.search.hits import Hit, Search
from ...events.entries import ROLES
from ...events.kinds import TYPE_NAMES
from ...events.texts import counted
from ..home import Home
from ..messages import warn
from ..options import Count, Moment, home_options, json_option, quiet_option
from ..output import as_json as encoded
from ..output import clean, run, short_line, tell
from ..rows import NAMELESS, ROLE_CHARS_MAX, Prefixes, colored, short, when

if TYPE_CHECKING:
    from ...actors.host.host import SessionHost

_ROLES = sorted({*ROLES, *TYPE_NAMES.values()} - {"message", "damaged", "aborted"})


@click.command()
@click.argument("query", metavar="QUERY...", nargs=-1, required=True)
@click.option(
    "--project",
    metavar="DIRECTORY",
    type=click.Path(),
    help="Search only sessions of this directory; `.` is the current one.",
)
@click.option(
    "--role", metavar="ROLE", help="Search only messages with this role, or entries of this type, such as compaction."
)
@click.option("--tool", metavar="NAME", help="Search only messages that call this tool or hold its result.")
@click.option("--after", type=Moment(), help="Search only entries appended at this time or later: a date, or 7d.")
@click.option("--before", type=Moment(), help="Search only entries appended earlier.")
@click.option(
    "-n", "--limit", metavar="N", type=Count(min=1), default=50, show_default=True, help="Show at most N hits."
)
@click.option(
    "--index/--no-index",
    default=None,
    help="Use the search index, creating it if necessary, or read the sessions; by default, use an existing index.",
)
@json_option
@quiet_option
@home_options
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
    """Search the entries of all sessions.

    An entry matches if it contains all words and "phrases", also in the middle of words, in any letter case. The most
    recently used session comes first; archived ones are searched too. With --json, each hit is one line, written as it
    is found.

    \b
    Examples:
      treering search timeout
      treering search '"connection lost"' --project . --after 7d
      treering search TODO --role user --json | jq -r .entry_id
    """

    def hits_of(host: SessionHost) -> Search:
        return host.search(
            " ".join(query),
            project=project,
            role=role,
            tool=tool,
            after=after,
            before=before,
            limit=limit + 1,  # one more tells whether there are more
            index=index,
        )

    run(_search, Home.at(root), hits_of, project, role, limit, as_json)


async def _search(
    home: Home,
    hits_of: Callable[[SessionHost], Search],
    project: str | None,
    role: str | None,
    limit: int,
    as_json: bool,
) -> None:
    count, session, more, now = 0, "", "", datetime.now(UTC)
    async with home.opened() as host:
        rows = await host.list_sessions(status="any")
        titles = {row.ref: row.title for row in rows}
        prefixes = Prefixes(row.id for row in rows)
        async with hits_of(host) as hits:
            async for hit in hits:
                if count == limit:
                    more = "; --limit shows more"
                    break
                if hit.ref != session and not as_json:
                    click.echo(_heading(prefixes.of(hit.session_id), titles.get(hit.ref), first=not count))
                click.echo(encoded(hit) if as_json else _line(hit, now))
                count, session = count + 1, hit.ref
        hint = "" if count else await _hint(home, host, project, role)
    for finding in hits.findings:
        warn(f"{finding.where}: {finding.message}")
    tell(f"{counted(count, 'hit')}{more}" if count else f"nothing found{hint}")


async def _hint(home: Home, host: SessionHost, project: str | None, role: str | None) -> str:
    """Name what makes hits impossible or unlikely: a project without sessions, or a role that is none of the usual."""
    if project is not None and not await host.list_sessions(project=project, status="any", limit=1):
        return f"; no session belongs to the project {clean(os.path.join(home.project, project))}"
    if role is not None and role not in _ROLES:  # programs may have roles of their own
        return f"; {clean(role)!r} is not one of the usual roles: {', '.join(_ROLES)}"
    return ""


def _heading(shown_id: str, title: str | None, *, first: bool) -> str:
    name = click.style(short_line(title or NAMELESS), bold=True)
    return f"{'' if first else chr(10)}{name}  {click.style(shown_id, dim=True)}"


def _line(hit: Hit, now: datetime) -> str:
    snippet, at = "", 0
    for start, end in hit.ranges:
        snippet += clean(hit.snippet[at:start]) + click.style(clean(hit.snippet[start:end]), fg="red", bold=True)
        at = end
    time = click.style(when(hit.timestamp, now), dim=True)
    place = click.style(short(hit.entry_id), dim=True)
    return f"  {place}  {time}  {colored(short_line(hit.role, ROLE_CHARS_MAX))}: {snippet}{clean(hit.snippet[at:])}"
