"""A store for the transcripts of the Claude Agent SDK.

    from claude_agent_sdk import ClaudeAgentOptions, query
    from treering.adapters.claude_agent_sdk import TreeringSessionStore

    options = ClaudeAgentOptions(session_store=TreeringSessionStore("~/sessions"))
    async for message in query(prompt="Hello", options=options): ...

A transcript is a session, as is each one of a sub-agent. Its entries are kept as they came, each below the one that it
names as its parent; prompts and answers stand before theirs as messages, for people, searches and other programs. It
needs the extra `claude-agent-sdk`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote

from ..actors.commands import AppendOptions
from ..actors.host.host import SessionHost
from ..actors.session.session import Session
from ..events.entries import Custom, CustomEntry, Message, Payload
from ..events.errors import InvalidEntry
from ..events.json_values import raw_object
from ..events.providers.anthropic import from_anthropic
from ..projections.summary import SessionSummary
from .hosting import Hosting, HostOrRoot
from .session_index import CustomIndex, SessionIndexes
from .versions import CLAUDE_AGENT_SDK

try:
    from claude_agent_sdk import fold_session_summary
except ImportError as error:
    raise CLAUDE_AGENT_SDK.missing(error, "a store for it needs the Claude Agent SDK") from error

CLAUDE_AGENT_SDK.check()

if TYPE_CHECKING:
    from claude_agent_sdk.types import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

__all__ = ["TreeringSessionStore"]

ENTRY = "claude_agent_sdk.entry"
SUMMARY = "claude_agent_sdk.summary"
"""The types of the custom entries: an entry of a transcript, and the SDK's summary of all that came before it."""


class TreeringSessionStore:
    """A session store of the SDK, with all that it may ask of one.

    An entry with a `uuid` that is there already is not appended again, so a batch may be sent again; one without is
    appended each time. It may be used in any event loop, by any number of objects.

    Args:
        host: An open host, or a root: a directory or a URL. Objects with the same root share one host.

    Raises:
        InvalidInput: The host is none.
    """

    def __init__(self, host: HostOrRoot) -> None:
        self._hosting = Hosting(host)
        self._transcripts = SessionIndexes(_Transcript)

    def __repr__(self) -> str:
        return f"TreeringSessionStore({self._hosting!r})"

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append a batch of entries to a transcript, in order.

        Raises:
            InvalidEntry: An entry is no JSON object; nothing was written.
            TreeringError: The write failed; see `Session.append`.
        """
        if entries:
            await self._hosting.run(lambda host: self._append(host, key, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all entries of a transcript in the order in which they came; None if there are none."""

        async def read(host: SessionHost) -> list[SessionStoreEntry] | None:
            session = await host.find_by_key(_name(key))
            found = [] if session is None else await session.entries(custom_type=ENTRY)
            kept = [entry.custom.data for entry in found if isinstance(entry, CustomEntry)]
            return cast("list[SessionStoreEntry]", kept) or None

        return await self._hosting.run(read)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the ids of a project's transcripts, and when each was last appended to."""
        rows = await self._hosting.run(lambda host: _rows(host, project_key))
        return [{"session_id": session_id, "mtime": _milliseconds(row)} for session_id, row in rows]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the SDK's summaries of a project's transcripts, which are kept up to date by each append."""

        async def read(host: SessionHost) -> list[SessionSummaryEntry]:
            found: list[SessionSummaryEntry] = []
            for session_id, row in await _rows(host, project_key):
                transcript = await self._transcripts.of(
                    host, _name({"project_key": project_key, "session_id": session_id})
                )
                if transcript is not None and transcript.summary is not None:
                    found.append({**transcript.summary, "mtime": _milliseconds(row)})
            return found

        return await self._hosting.run(read)

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript, with those of its sub-agents if the key names none of them; see `SessionHost.delete`."""

        async def run(host: SessionHost) -> None:
            name = _name(key)
            doomed = [row for row in await _all_rows(host) if row.key == name or (row.key or "").startswith(name + "/")]
            for row in doomed if key.get("subpath") is None else [row for row in doomed if row.key == name]:
                self._transcripts.forget(row.key or "")
                await host.delete(row)

        await self._hosting.run(run)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the sub-paths of a session: the transcripts of its sub-agents."""
        above = _name(cast("SessionKey", key)) + "/"
        rows = await self._hosting.run(_all_rows)
        return [unquote((row.key or "").removeprefix(above)) for row in rows if (row.key or "").startswith(above)]

    # -- on the host's loop

    async def _append(self, host: SessionHost, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        for entry in entries:
            raw_object(entry, "an entry")
        transcript = await self._transcripts.made(host, _name(key))
        await transcript.append(key, entries)


class _Transcript(CustomIndex):
    """What a store knows of one session: which entries are there, and the summary of them."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.summary: SessionSummaryEntry | None = None
        self._ids: dict[str, str] = {}

    async def append(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        """Append the entries that are not there, in runs of which each entry follows the one before it."""
        async with self.lock:
            await self.refresh()
            fresh: dict[object, dict[str, Any]] = {}
            for at, entry in enumerate(cast("Sequence[dict[str, Any]]", entries)):
                uuid = entry.get("uuid")
                if not isinstance(uuid, str):
                    fresh[at] = entry
                elif uuid not in self._ids:
                    fresh.setdefault(uuid, entry)
            runs: list[list[dict[str, Any]]] = []
            last: object = None
            for entry in fresh.values():
                parent = entry.get("parentUuid")
                branches = parent not in (None, last) and (parent in self._ids or parent in fresh)
                if not runs or branches:
                    runs.append([])
                runs[-1].append(entry)
                last = entry.get("uuid") or last
            for run in runs:
                await self._append_run(key, run)

    async def _append_run(self, key: SessionKey, run: Sequence[dict[str, Any]]) -> None:
        payloads: list[Payload] = []
        for entry in run:
            message = _message(entry)
            payloads += [] if message is None else [message]
            payloads.append(Custom(ENTRY, raw_object(entry, "an entry")))
        if key.get("subpath") is None:  # a sub-agent's entries are none of the session's
            batch: list[Any] = [*run]
            summary = fold_session_summary(self.summary, key, batch)
            payloads.append(Custom(SUMMARY, raw_object(summary, "the summary")))
        options: AppendOptions = {}
        parent = self._ids.get(str(run[0].get("parentUuid")))
        if parent is not None:
            options["below"] = parent
        ids = await self.session.append_many(payloads, **options)
        for entry_id, payload in zip(ids, payloads, strict=True):
            if isinstance(payload, Custom):
                self._note(entry_id, payload)

    def _note(self, entry_id: str, custom: Custom) -> None:
        data = custom.data
        if custom.custom_type == SUMMARY:
            self.summary = cast("SessionSummaryEntry", data)
        elif custom.custom_type == ENTRY and isinstance(data, dict) and isinstance(uuid := data.get("uuid"), str):
            self._ids[uuid] = entry_id


def _message(entry: dict[str, Any]) -> Message | None:
    """Return the message of a prompt, an answer or a result; None if the entry is none, or is for no model."""
    said = entry.get("message")
    if entry.get("type") not in ("user", "assistant") or not isinstance(said, dict) or entry.get("isMeta"):
        return None
    try:
        return from_anthropic(said)
    except InvalidEntry:  # of another shape: it is kept, and shows nothing
        return None


def _name(key: SessionKey) -> str:
    """Return the key of a transcript's session."""
    parts = [key["project_key"], key["session_id"], *([key["subpath"]] if key.get("subpath") else [])]
    return "/".join(quote(part, safe="") for part in parts)


async def _all_rows(host: SessionHost) -> list[SessionSummary]:
    return await host.list_sessions(status="any")


async def _rows(host: SessionHost, project_key: str) -> list[tuple[str, SessionSummary]]:
    """Return the ids and rows of a project's transcripts, without those of sub-agents."""
    above = quote(project_key, safe="") + "/"
    keys = [
        ((row.key or "").removeprefix(above), row) for row in await _all_rows(host) if (row.key or "").startswith(above)
    ]
    return [(unquote(name), row) for name, row in keys if "/" not in name]


def _milliseconds(row: SessionSummary) -> int:
    return int(row.last_entry.timestamp() * 1000)
