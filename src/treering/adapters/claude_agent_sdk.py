"""A store for the transcripts of the Claude Agent SDK.

    from claude_agent_sdk import ClaudeAgentOptions, query
    from treering.adapters.claude_agent_sdk import TreeringSessionStore

    options = ClaudeAgentOptions(session_store=TreeringSessionStore("~/sessions"))
    async for message in query(prompt="Hello", options=options): ...

A transcript is a session, as is each one of a sub-agent, and shows what an import of the same transcript shows. Its
lines are kept beside it, as they came. It needs the extra `claude-agent-sdk`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote

from msgspec import Raw

from ..actors.host.host import SessionHost
from ..actors.session.session import Session
from ..events.entries import Custom, CustomEntry, Payload
from ..events.errors import SessionExists
from ..events.json_values import raw_object
from ..projections.summary import SessionSummary
from .claude_transcripts import ENTRY, SUMMARY, Transcript
from .hosting import Hosting, HostOrRoot, lock_of
from .session_index import SessionIndexes
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
        self._transcripts = SessionIndexes(Transcript)

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
                    summary = cast("SessionSummaryEntry", transcript.summary)
                    found.append({**summary, "mtime": _milliseconds(row)})
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
        raws = [raw_object(entry, "an entry") for entry in entries]
        transcript = await self._transcripts.made(host, _name(key), partial(self._create, host, key, entries, raws))
        async with lock_of(host, _name(key)), transcript.lock:  # other objects may append, too
            await transcript.catch_up()
            try:
                await self._append_fresh(transcript, key, entries, raws)
            except BaseException:
                transcript.forget()
                raise

    async def _append_fresh(
        self, transcript: Transcript, key: SessionKey, entries: Sequence[SessionStoreEntry], raws: Sequence[Raw]
    ) -> None:
        fresh: dict[object, tuple[SessionStoreEntry, Raw]] = {}
        for at, (entry, raw) in enumerate(zip(entries, raws, strict=True)):
            uuid = entry.get("uuid")
            if uuid not in transcript.uuids:
                fresh.setdefault(uuid if isinstance(uuid, str) else at, (entry, raw))
        if not fresh:
            return
        await transcript.append_read([bytes(raw) for _, raw in fresh.values()])
        lines: list[Payload] = [Custom(ENTRY, raw) for _, raw in fresh.values()]
        if key.get("subpath") is None:  # a sub-agent's entries are none of the session's
            known = cast("SessionSummaryEntry | None", transcript.summary)
            summary = fold_session_summary(known, key, [entry for entry, _ in fresh.values()])
            lines.append(Custom(SUMMARY, raw_object(summary, "the summary")))
            transcript.summary = cast("dict[str, Any]", summary)
        transcript.note_lines((await transcript.keep(lines))[: len(fresh)])
        transcript.uuids.update(uuid for uuid in fresh if isinstance(uuid, str))
        transcript.settle()

    async def _create(
        self, host: SessionHost, key: SessionKey, entries: Sequence[SessionStoreEntry], raws: Sequence[Raw]
    ) -> Session:
        """Create the session of a transcript: in the folder that its lines name, below the one that called it."""
        found = await host.find_by_key(_name(key))
        if found is not None:
            return found
        cwd = next((each for entry in entries if isinstance(each := entry.get("cwd"), str) and each), None)
        parent_session: str | None = None
        parent_entry: str | None = None
        subpath = key.get("subpath")
        if subpath is not None:
            main: SessionKey = {"project_key": key["project_key"], "session_id": key["session_id"]}
            caller = await self._transcripts.of(host, _name(main))
            if caller is not None:
                parent_session = caller.session.id
                async with caller.lock:
                    parent_entry = caller.caller_of(subpath.rpartition("/")[2], [bytes(raw) for raw in raws])
        try:
            return await host.create(key=_name(key), cwd=cwd, parent_session=parent_session, parent_entry=parent_entry)
        except SessionExists:  # it was created meanwhile
            return await host.get_or_create(_name(key))


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
