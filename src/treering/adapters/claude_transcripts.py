"""The sessions of transcripts that the Claude Agent SDK mirrors: each shows what an import of the same file shows.

The lines that came are kept aside, as they came. What a conversation makes of them depends on lines that come later (an
answer takes several, a result may be late, a compaction says what it kept), so the reader of Claude Code's transcripts
reads all lines again after each batch, from a copy in a temporary folder, and what is new is appended.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ..actors.commands import AppendOptions
from ..actors.session.session import Session
from ..events.entries import (
    CompactionEntry,
    CustomEntry,
    Entry,
    Header,
    KnownEntry,
    MessageEntry,
    Payload,
    SessionInfo,
    SessionInfoEntry,
)
from ..events.errors import ForeignFormatError
from ..events.json_values import JSON, json_object, raw_object
from ..formats.base import ForeignSession
from ..formats.claude_code import ClaudeCodeFormat
from .session_index import SessionIndex

ENTRY = "claude_agent_sdk.entry"
SUMMARY = "claude_agent_sdk.summary"
"""The types of the custom entries: a line of a transcript, and the SDK's summary of all that came before it."""

PLACE = "claude_agent_sdk"
"""The key of an entry's metadata below which it says what it was made of."""

_AGENT_METADATA = "agent_metadata"
"""The type of the lines that say what a sub-agent is; Claude Code keeps them in a file of their own."""


class Place(NamedTuple):
    """Where something of a transcript stands in the session.

    Attributes:
        entry_id: The last entry with a part of it.
        parts: How many of its parts are there.
    """

    entry_id: str
    parts: int


class Copies:
    """Copies of transcripts as files, in folders as Claude Code has them; they are gone when this object is."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="treering-transcripts-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def path(self, project: str, session: str, subpath: str | None) -> Path:
        """Return where the copy of a transcript is."""
        parts = [quote(project, safe=""), quote(session, safe=""), *(subpath or "").split("/")]
        named = [part if part.strip(".") else quote(part, safe="").replace(".", "%2E") for part in parts if part]
        return self._folder.joinpath(*named[:-1], named[-1] + ".jsonl")


class Transcript(SessionIndex):
    """What a store knows of one session.

    Args:
        session: The session.

    Attributes:
        uuids: The ids of its lines.
        summary: The SDK's summary of all of them.
        places: Where what was read stands, by the id that the reader gives it.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.uuids: set[str] = set()
        self.summary: dict[str, Any] | None = None
        self.places: dict[str, Place] = {}
        self._lines: list[bytes] = []  # those that are kept, but not in the copy
        self._copied = 0
        self._appended = 0  # how many entries since all were known
        self._title: str | None = None

    def _see(self, entry: Entry) -> None:
        if isinstance(entry, CustomEntry) and (raw := entry.custom.raw_data) is not None:
            if entry.custom.custom_type == ENTRY:
                uuid = json_object(raw).get("uuid")
                if uuid not in self.uuids:
                    self._lines.append(bytes(raw))
                self.uuids.update([uuid] if isinstance(uuid, str) else [])
            elif entry.custom.custom_type == SUMMARY:
                self.summary = msgspec.json.decode(raw)
        elif isinstance(entry, MessageEntry):
            self._note(entry.id, entry.message.metadata.get(PLACE))
        elif isinstance(entry, CompactionEntry):
            details = entry.compaction.details
            self._note(entry.id, details.get(PLACE) if isinstance(details, dict) else None)
        elif isinstance(entry, SessionInfoEntry):
            self._title = entry.session_info.name or self._title

    def _note(self, entry_id: str, place: JSON) -> None:
        if isinstance(place, dict) and isinstance(place.get("of"), str) and isinstance(place.get("parts"), int):
            self.places[str(place["of"])] = Place(entry_id, int(str(place["parts"])))

    def forget(self) -> None:
        """Forget everything, so that it is read anew: what was begun failed."""
        self.read_to = self._copied = self._appended = 0
        self.uuids.clear()
        self.places.clear()
        self._lines.clear()
        self.summary = self._title = None

    def read(self, path: Path, fresh: Sequence[bytes]) -> tuple[Header, list[KnownEntry]] | None:
        """Read the lines that are kept and fresh ones; None if nothing was said so far.

        It reads and writes files, and so belongs in a thread.

        Args:
            path: Where the copy of the transcript is.
            fresh: The lines that were not kept yet.
        """
        self._write(path, fresh)
        return next(read_copy(path), None)

    def caller_of(self, path: Path, agent: Path, lines: Sequence[bytes]) -> str | None:
        """Return the entry that called a sub-agent, None if that is not known; it belongs in a thread, too.

        Args:
            path: Where the copy of the transcript is.
            agent: Where that of the sub-agent is.
            lines: The sub-agent's first lines.
        """
        self._write(path, [])
        agent.parent.mkdir(parents=True, exist_ok=True)
        agent.write_bytes(b"".join(line + b"\n" for line in lines))
        for header, _ in read_copy(path):
            if header.id.endswith(agent.stem) and header.parent_entry in self.places:
                return self.places[header.parent_entry].entry_id
        return None

    def settle(self) -> None:
        """Take note that all that was appended is known."""
        self.skip(self._appended)
        self._appended = 0

    def _write(self, path: Path, fresh: Sequence[bytes]) -> None:
        lines = [*self._lines, *fresh]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if self._copied else "wb") as file:
            file.writelines(line + b"\n" for line in lines)
        for line in lines:
            told = json_object(Raw(line))
            if told.get("type") == _AGENT_METADATA:
                path.with_suffix(".meta.json").write_bytes(line)
        self._copied += len(lines)
        self._lines.clear()

    async def append_read(self, header: Header, entries: Sequence[KnownEntry]) -> None:
        """Append what is not there of what was read, in runs of which each entry follows the one before it."""
        run: list[tuple[str, int, Payload]] = []
        below: str | None = None
        last: str | None = None
        for entry in entries:
            if isinstance(entry, SessionInfoEntry):
                continue
            parts = len(entry.message.content) if isinstance(entry, MessageEntry) else 0
            place = self.places.get(entry.id)
            if place is not None and place.parts >= parts:
                continue
            parent = entry.parent_id if place is None else entry.id
            if run and (parent != last or isinstance(entry, CompactionEntry)):
                await self._append_run(run, below)
                run = []
            if not run:
                below = self.places[parent].entry_id if parent in self.places else None
            run.append((entry.id, parts, self._payload(entry, parts, 0 if place is None else place.parts)))
            last = entry.id
        if run:
            await self._append_run(run, below)
        titles = [each.session_info.name for each in entries if isinstance(each, SessionInfoEntry)]
        title = titles[-1] if titles else header.title
        if title and title != self._title:
            await self.keep([SessionInfo(name=title)])
            self._title = title

    async def keep(self, payloads: Sequence[Payload]) -> list[str]:
        """Append what is no part of the conversation, beside it once there is one."""
        leaf = self.session.leaf_id
        options: AppendOptions = {} if leaf is None else {"below": leaf, "aside": True}
        ids = await self.session.append_many(payloads, **options)
        self._appended += len(ids)
        return ids

    async def _append_run(self, run: Sequence[tuple[str, int, Payload]], below: str | None) -> None:
        ids = await self.session.append_many([payload for _, _, payload in run], below=below)
        self._appended += len(ids)
        for entry_id, (source_id, parts, _) in zip(ids, run, strict=True):
            self.places[source_id] = Place(entry_id, parts)

    def _payload(self, entry: KnownEntry, parts: int, there: int) -> Payload:
        place: dict[str, JSON] = {PLACE: {"of": entry.id, "parts": parts}}
        if isinstance(entry, CompactionEntry):
            details = entry.compaction.details
            kept = self.places.get(entry.compaction.first_kept_entry_id or "")
            return replace(
                entry.compaction,
                first_kept_entry_id=None if kept is None else kept.entry_id,
                raw_details=raw_object({**(details if isinstance(details, dict) else {}), **place}, "the details"),
            )
        assert isinstance(entry, MessageEntry)  # the reader makes nothing else, besides titles
        message = entry.message
        metadata = raw_object({**message.metadata, **place}, "the metadata")
        return replace(message, content=message.content[there:], raw_metadata=metadata)


def read_copy(path: Path) -> Iterator[tuple[Header, list[KnownEntry]]]:
    """Yield the sessions of a transcript, its own first; none if nothing was said in it."""
    try:
        for each in ClaudeCodeFormat().read(path):
            assert isinstance(each, ForeignSession)
            yield each.header, list(each.entries)
    except ForeignFormatError:  # such as titles alone
        return
