"""`treering info`: what is known of a session as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import click
from msgspec import Struct

from ..actors.host import SessionHost
from ..events.entries import Usage
from ..events.errors import SessionNotFound
from ..events.kinds import Kind
from ..projections.context import ModelRef
from ..projections.summary import CORRUPTED, SessionSummary
from .home import Home, root_option, session_completion
from .opening import json_option
from .output import echo_json, echo_lines, line, run
from .rows import name_of, place_of, status_of, used
from .telling import short
from .when import when


class Info(Struct, frozen=True, kw_only=True):
    """What is known of a session.

    Attributes:
        session: Its row in the listing.
        description: What a person said that it is about, else how the first user message begins.
        extra: The free JSON object that programs keep with it.
        entries: How many lines its log has.
        branches: How many entries have nothing below them.
        leaf_id: The entry that the next append goes below.
        model: The model that answers at the leaf, where one was named.
        thinking_level: How much it thinks there.
        tool_executions: The records of runs of tools.
        tool_results: The messages that hold the results of tools, on all branches.
        total_tokens: What all messages take, on all branches, estimated by bytes.
        usage: What the session has used, on all branches, as its providers counted and charged.
        labels: The bookmarks: an entry's id and its label.
    """

    session: SessionSummary
    description: str | None
    extra: dict[str, object]
    entries: int
    branches: int
    leaf_id: str | None
    model: ModelRef | None
    thinking_level: str
    tool_executions: int
    tool_results: int
    total_tokens: int
    usage: Usage
    labels: list[tuple[str, str]]


@click.command()
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=session_completion)
@json_option
@root_option
def info(session: str | None, as_json: bool, root: str | None) -> None:
    """Show what is known of a session.

    Without SESSION, of this project's current one, or of the one that was used last here.

    \b
    Examples:
      treering info
      treering info 5f0c12ab --json
    """
    found = run(_info, Home.at(root), session)
    if as_json:
        echo_json(found)
    else:
        echo_lines(_lines(found))


async def _info(home: Home, text: str | None) -> Info:
    async with home.opened() as host:
        return await info_of(host, await chosen(host, home, text))


async def chosen(host: SessionHost, home: Home, text: str | None) -> SessionSummary:
    """Return the session that is meant: the one that is named, else the project's current one, else the one used last there.

    Raises:
        SessionNotFound: There is none.
        AmbiguousSession: The text means several.
    """
    if text is not None:
        return await host.resolve(text)
    current = await host.current_session(home.project)
    if current is not None and current.status != CORRUPTED:
        return current
    for row in await host.list_sessions(project=home.project):
        return row
    raise SessionNotFound(f"there is no session of {home.project}: name one of another project")


async def info_of(host: SessionHost, row: SessionSummary) -> Info:
    """Gather what is known of a session; it is read and not taken up.

    Raises:
        TreeringError: It cannot be read.
    """
    async with await host.load(row, read_only=True) as session:
        context = await session.context()
        stats = await session.stats()
        metadata = session.metadata
        return Info(
            session=row,
            description=metadata.description,
            extra=dict(metadata.extra),
            entries=session.cursor.seq,
            branches=sum(not node.children for node in session.tree().nodes),
            leaf_id=session.leaf_id,
            model=context.model,
            thinking_level=context.thinking_level,
            tool_executions=stats.tool_execution_count,
            tool_results=(await session.log()).index.message_counts[Kind.TOOL],
            total_tokens=stats.total_tokens,
            usage=await session.total_usage(),
            labels=session.labels(),
        )


def info_lines(found: Info) -> Iterator[tuple[str, str]]:
    """Yield what is known as names and values, for people; what is not known is left out."""
    row, now = found.session, datetime.now(UTC)
    others = row.message_count - row.user_count - row.assistant_count - found.tool_results
    said = f"{row.user_count} by the user, {row.assistant_count} by the assistant, {found.tool_results} by tools"
    said += f", {others} others" if others else ""
    if row.name is not None:
        yield "name", name_of(row)
    if (about := found.description or row.title) and about != row.name:
        yield "about", about
    yield "id", row.id
    if row.key is not None:
        yield "key", row.key
    yield "project", place_of(row)
    yield "created", when(row.created, now)
    yield "used", used(row, now)
    yield "messages", f"{row.message_count}: {said}"
    yield "entries", f"{found.entries:,} on {found.branches:,} {'branch' if found.branches == 1 else 'branches'}"
    yield "tool runs", str(max(found.tool_executions, found.tool_results))
    yield "tokens", f"about {found.total_tokens:,} in all messages"
    if found.usage != Usage():
        used_tokens = f"{found.usage.input_tokens:,} tokens in, {found.usage.output_tokens:,} out"
        yield "usage", used_tokens + (f", cost {found.usage.cost:,.4f}" if found.usage.cost else "")
    if found.model is not None:
        yield "model", f"{found.model.provider}/{found.model.model_id}, thinking {found.thinking_level}"
    yield "leaf", short(found.leaf_id)
    if found.labels:
        yield "labels", ", ".join(f"{label} ({short(entry_id)})" for entry_id, label in found.labels)
    if row.parent_session is not None:
        yield "parent", row.parent_session
    if status_of(row):
        yield "status", status_of(row)
    yield "file", f"{row.path or row.ref} ({row.dialect})"


def _lines(found: Info) -> Iterator[str]:
    for name, value in info_lines(found):
        yield f"{click.style(f'{name:<9}', dim=True)}  {line(value)}"
