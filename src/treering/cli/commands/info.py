"""`treering info`: the details of a session."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import click
from msgspec import Struct

from ...actors.host.host import SessionHost
from ...events.entries import Usage
from ...events.errors import SessionNotFound
from ...events.index import LogIndex
from ...events.kinds import Kind
from ...projections.context import DEFAULT_THINKING_LEVEL, ModelRef, level_of, model_of
from ...projections.summary import CORRUPTED, SessionSummary
from ..home import Home
from ..options import home_options, json_option, session_completion
from ..output import run, short_line, show
from ..rows import LABEL_CHARS_MAX, name_of, place_of, short, status_of, used, when

_VALUE_CHARS_MAX = 1000


class Info(Struct, frozen=True, kw_only=True):
    """The details of a session.

    Attributes:
        session: Its row in the listing.
        description: The description that a person gave, else the beginning of the first user message.
        metadata: The free JSON object of programs.
        entries: The number of lines in its log.
        branches: The number of entries without children.
        leaf_id: The entry under which the next append goes.
        model: The model at the leaf, if one was named.
        thinking_level: The thinking level at the leaf.
        tool_executions: The number of tool execution records.
        tool_results: The number of messages with tool results, on all branches.
        total_tokens: The estimated tokens of all messages, on all branches.
        usage: The usage on all branches, as counted and charged by the providers.
        labels: The labels, as pairs of an entry's id and its label.
    """

    session: SessionSummary
    description: str | None
    metadata: dict[str, object]
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
@home_options
def info(session: str | None, as_json: bool, root: str | None) -> None:
    """Show the details of a session.

    By default, this is the current session of this project, or else the most recently used one.

    \b
    Examples:
      treering info
      treering info 5f0c12ab --json
    """
    details = run(_info, Home.at(root), session)
    show(details, info_lines(details), as_json=as_json)


async def _info(home: Home, text: str | None) -> Info:
    async with home.opened() as host:
        return await info_of(host, await _session_or_default(host, home, text))


async def _session_or_default(host: SessionHost, home: Home, text: str | None) -> SessionSummary:
    """Return the named session, else the project's current one, else the one that was used last there.

    Raises:
        SessionNotFound: There is no such session.
        AmbiguousSession: The text matches several sessions.
    """
    if text is not None:
        return await host.resolve(text)
    current = await host.current_session(home.project)
    if current is not None and current.status != CORRUPTED:
        return current
    for row in await host.list_sessions(project=home.project):
        return row
    if not await host.list_sessions(status="any", limit=1):
        raise SessionNotFound(f"there are no sessions in {home.place} yet: start one with treering chat")
    raise SessionNotFound(
        f"there is no session in the project {home.project}: name one of another project, as `treering sessions --all` "
        "lists them, or an archived one, as `treering sessions --archived` does"
    )


async def info_of(host: SessionHost, row: SessionSummary) -> Info:
    """Gather the details of a session, which is opened read-only.

    Raises:
        TreeringError: The session cannot be read.
    """
    async with await host.load(row, read_only=True) as session:
        log = await session.log()
        model, level = log.index.models[log.index.leaf], log.index.levels[log.index.leaf]
        entries_by_seq = await log.entries_at(sorted({model, level} - {0}))
        stats = await session.stats()
        described = session.metadata
        return Info(
            session=row,
            description=described.description,
            metadata=dict(described.metadata),
            entries=session.cursor.seq,
            branches=_branch_count(log.index),
            leaf_id=session.leaf_id,
            model=model_of(entries_by_seq.get(model)),
            thinking_level=level_of(entries_by_seq.get(level)) or DEFAULT_THINKING_LEVEL,
            tool_executions=stats.tool_execution_count,
            tool_results=log.index.message_counts[Kind.TOOL],
            total_tokens=stats.total_tokens,
            usage=await session.total_usage(),
            labels=session.labels(),
        )


def _branch_count(index: LogIndex) -> int:
    """Return the number of entries without children."""
    seqs = [seq for seq in range(1, index.head + 1) if index.is_entry(seq)]
    parents = {index.parents[seq] for seq in seqs}
    return sum(seq not in parents for seq in seqs)


def info_lines(details: Info, *more: tuple[str, str]) -> Iterator[str]:
    """Yield a line for each detail that is known, then for more names and values."""
    for name, value in (*_values(details), *more):
        yield f"{click.style(f'{name:<9}', dim=True)}  {short_line(value, _VALUE_CHARS_MAX)}"


def _values(details: Info) -> Iterator[tuple[str, str]]:
    row, now = details.session, datetime.now(UTC)
    others = row.message_count - row.user_count - row.assistant_count - details.tool_results
    by_role = f"{row.user_count:,} by the user, {row.assistant_count:,} by the assistant, "
    by_role += f"{details.tool_results:,} by tools" + (f", {others:,} others" if others else "")
    if row.name is not None:
        yield "name", name_of(row)
    if (about := details.description or row.title) and about != row.name:
        yield "about", short_line(about)
    yield "id", row.id
    if row.key is not None:
        yield "key", row.key
    yield "project", place_of(row)
    yield "created", when(row.created, now)
    yield "used", used(row, now)
    yield "messages", f"{row.message_count:,}: {by_role}"
    yield "entries", f"{details.entries:,} on {details.branches:,} {'branch' if details.branches == 1 else 'branches'}"
    yield "tool runs", f"{max(details.tool_executions, details.tool_results):,}"
    yield "tokens", f"about {details.total_tokens:,} in all messages"
    if details.usage != Usage():
        used_tokens = f"{details.usage.input_tokens:,} tokens in, {details.usage.output_tokens:,} out"
        yield "usage", used_tokens + (f", cost {details.usage.cost:,.4f}" if details.usage.cost else "")
    if details.model is not None:
        yield "model", f"{details.model.provider}/{details.model.model_id}, thinking {details.thinking_level}"
    yield "leaf", short(details.leaf_id)
    if details.labels:
        yield (
            "labels",
            ", ".join(
                f"{short_line(label, LABEL_CHARS_MAX)} ({short(entry_id)})" for entry_id, label in details.labels
            ),
        )
    if row.parent_session is not None:
        yield "parent", row.parent_session
    if status_of(row):
        yield "status", status_of(row)
    yield "file", f"{row.path or row.ref} ({row.dialect})"
