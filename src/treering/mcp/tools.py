"""The tools: what a model can ask for, each with the type of its arguments, and what answers it.

The arguments are structs, from which the JSON schemas are made that a model is shown. An answer is a struct, too: JSON
within `OUTPUT_CHARS_MAX`, of which `next`, `before` or `after` say how to get more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from ..events.errors import EntryNotFound, InvalidInput
from ..events.json_values import JSON
from ..events.redaction import Redaction
from .finding import Search, find
from .reach import Reach, Wanted
from .reading import ReadEntry, ReadSession, Tree, read_entry, read_path, read_tree
from .shown import ShownSession, session_shown, within

A = TypeVar("A", bound=Struct)


class ListSessions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions to list."""

    project: Annotated[str, Meta(description="Only sessions of this folder.", min_length=1)] | None = None
    status: (
        Annotated[str, Meta(description='"any", "archived", or a status; by default what is not archived.')] | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    page: Annotated[str, Meta(description="`next` of the page before.")] | None = None


class SessionsPage(Struct, frozen=True):
    """A page of sessions."""

    sessions: list[ShownSession]
    next: str | None


class LabelEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entry to label, and how."""

    session: Annotated[str, Meta(description="The id of the session.")]
    entry: Annotated[str, Meta(description="The id of the entry.")]
    label: Annotated[str, Meta(description="The label, a few words; null removes it.", max_length=200)] | None


class Labelled(Struct, frozen=True):
    """What became of a label."""

    session: str
    entry: str
    label: str | None


class Tool(Struct, Generic[A], frozen=True, kw_only=True):
    """A tool.

    Attributes:
        name: Its name.
        description: What a model is told of it.
        arguments: The type of its arguments.
        run: What answers a call.
        writes: Whether it changes a session.
    """

    name: str
    description: str
    arguments: type[A]
    run: Callable[[Reach, Redaction, A], Awaitable[Struct]]
    writes: bool = False

    def described(self) -> dict[str, object]:
        """Return the tool as a client gets it."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": _schema(self.arguments),
            "annotations": {"readOnlyHint": not self.writes, "destructiveHint": False, "openWorldHint": False},
        }

    async def call(self, reach: Reach, redaction: Redaction, arguments: JSON) -> Struct:
        """Answer a call.

        Raises:
            InvalidInput: The arguments are others than the schema says.
            TreeringError: What they name does not exist, or cannot be read or written.
        """
        try:
            asked = msgspec.convert(arguments, self.arguments)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"these arguments are not those of `{self.name}`: {error}") from error
        return await self.run(reach, redaction, asked)


async def list_sessions(reach: Reach, redaction: Redaction, asked: ListSessions) -> SessionsPage:
    """Return a page of the listing."""
    wanted = Wanted(project=asked.project, status=asked.status, page=asked.page, limit=asked.limit)
    rows, next_ = await reach.rows(wanted)
    shown = [session_shown(row, redaction) for row in rows]
    kept = within(shown)
    if len(kept) < len(shown):  # names are bounded, so that half as many fit
        return await list_sessions(reach, redaction, msgspec.structs.replace(asked, limit=max(1, asked.limit // 2)))
    return SessionsPage(shown, next_)


async def label_entry(reach: Reach, redaction: Redaction, asked: LabelEntry) -> Labelled:
    """Label an entry, or remove its label."""
    async with reach.writing(asked.session) as session:
        if await session.entry(asked.entry) is None:
            raise EntryNotFound(asked.entry)
        await session.set_label(asked.entry, asked.label)
        label = session.label(asked.entry)
    return Labelled(asked.session, asked.entry, None if label is None else redaction.text(label))


def _schema(kind: type[Struct]) -> dict[str, object]:
    (_, components) = msgspec.json.schema_components([kind], schema_hook=_hooked)
    schema = dict(components[kind.__name__])
    del schema["title"]
    return schema


def _hooked(kind: type) -> dict[str, Any]:  # JSON, as msgspec has it
    raise NotImplementedError


TOOLS: Mapping[str, Tool[Any]] = {  # each of arguments of its own
    tool.name: tool
    for tool in (
        Tool(
            name="search",
            description="Find entries of earlier and running sessions, your own and other agents', by words and "
            '"phrases", whatever their case; an entry matches if it has all of them.',
            arguments=Search,
            run=find,
        ),
        Tool(
            name="list_sessions",
            description="List sessions, the most recently used first.",
            arguments=ListSessions,
            run=list_sessions,
        ),
        Tool(
            name="read_session",
            description="Read a conversation, without more its end; `before` and `after` of an answer lead further, "
            "and `around` shows what stands beside a hit of `search`.",
            arguments=ReadSession,
            run=read_path,
        ),
        Tool(
            name="read_entry",
            description="Read one entry in full, piece by piece.",
            arguments=ReadEntry,
            run=read_entry,
        ),
        Tool(
            name="tree",
            description="Show where a session branches: its stretches without branches, each with where it begins and "
            "ends, and the labels.",
            arguments=Tree,
            run=read_tree,
        ),
        Tool(
            name="label",
            description="Label an entry, so that others and you find it again, or remove its label.",
            arguments=LabelEntry,
            run=label_entry,
            writes=True,
        ),
    )
}
"""All tools, by their names."""
