"""The sessions of transcripts that the Claude Agent SDK mirrors: each shows what an import of the same file shows.

The lines that came are kept aside, as they came. What a conversation makes of them depends on lines that come later (an
answer takes several, a result may be late, a compaction says what it kept), so the reader that imports Claude Code's
transcripts gets each batch, and tells which entries it makes or adds to. These are appended; their earlier lines, if
they have any, are read again from the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from ..actors.commands import AppendOptions
from ..actors.session.session import Session
from ..events.entries import (
    EPOCH,
    CompactionEntry,
    CustomEntry,
    Entry,
    KnownEntry,
    MessageEntry,
    Payload,
    SessionInfo,
    SessionInfoEntry,
)
from ..events.json_values import JSON, json_object, raw_object
from ..formats.claude_code.agents import PREFIX, Callers
from ..formats.claude_code.entries import EntryMaker
from ..formats.claude_code.reader import Reader
from ..formats.claude_code.steps import Step
from ..formats.json_lines import unheard
from .session_index import SessionIndex

ENTRY = "claude_agent_sdk.entry"
SUMMARY = "claude_agent_sdk.summary"
"""The types of the custom entries: a line of a transcript, and the SDK's summary of all that came before it."""

PLACE = "claude_agent_sdk"
"""The key of an entry's metadata below which it says what it was made of."""


class StoredParts(NamedTuple):
    """Where something of a transcript stands in the session.

    Attributes:
        entry_id: The last entry with a part of it.
        parts: How many of its parts are there.
    """

    entry_id: str
    parts: int


class Transcript(SessionIndex):
    """What a store knows of one session.

    Args:
        session: The session.

    Attributes:
        reader: The reader of its lines.
        uuids: The ids of its lines.
        summary: The SDK's summary of all of them.
        stored: Where what was read stands, by the id that the reader gives it.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.reader = Reader(Path())
        self.uuids: set[str] = set()
        self.summary: dict[str, Any] | None = None
        self.stored: dict[str, StoredParts] = {}
        self._maker = EntryMaker(EPOCH, unheard())
        self._kept: list[str] = []  # the entries that hold the lines, in the order in which the reader got them
        self._appended = 0  # how many entries since all were known
        self._title: str | None = None

    def _see(self, entry: Entry) -> None:
        if isinstance(entry, CustomEntry) and (raw := entry.custom.raw_data) is not None:
            if entry.custom.custom_type == ENTRY:
                uuid = json_object(raw).get("uuid")
                if uuid not in self.uuids:
                    self.reader.add([bytes(raw)])
                    self._kept.append(entry.id)
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
            self.stored[str(place["of"])] = StoredParts(entry_id, int(str(place["parts"])))

    def forget(self) -> None:
        """Forget everything, so that it is read anew: what was begun failed."""
        self.read_to = self._appended = 0
        self.reader = Reader(Path())
        self.uuids.clear()
        self.stored.clear()
        self._kept.clear()
        self.summary = self._title = None

    def caller_of(self, agent: str, lines: Sequence[bytes]) -> str | None:
        """Return the entry that called a sub-agent, None if that is not known.

        Args:
            agent: The name of the sub-agent's transcript.
            lines: Its first lines.
        """
        reader = Reader(Path(agent))
        reader.add(lines)
        called = next((each for each in reader.tree.conversations if PREFIX + each.agent == agent), None)
        if called is None:
            return None
        own = [each for each in self.reader.tree.conversations if not each.agent]
        caller = Callers(self.reader.scan, own).of(called, reader.scan.meta)
        return self.stored[caller[1].id].entry_id if caller is not None and caller[1].id in self.stored else None

    def note_lines(self, ids: Sequence[str]) -> None:
        """Take note of the entries that hold the lines which were read last."""
        self._kept += ids

    def settle(self) -> None:
        """Take note that all that was appended is known."""
        self.skip(self._appended)
        self._appended = 0

    async def append_read(self, fresh: Sequence[bytes]) -> None:
        """Append what fresh lines make, in runs of which each entry follows the one before it."""
        self.reader.add(fresh)
        entries = [self._maker.entry(step, await self._lines_of(step, fresh)) for step in self._changed()]
        run: list[tuple[str, int, Payload]] = []
        below: str | None = None
        last: str | None = None
        for entry in entries:
            parts = len(entry.message.content) if isinstance(entry, MessageEntry) else 0
            stored = self.stored.get(entry.id)
            if stored is not None and stored.parts >= parts:
                continue
            parent = entry.parent_id if stored is None else entry.id
            if run and (parent != last or isinstance(entry, CompactionEntry)):
                await self._append_run(run, below)
                run = []
            if not run:
                below = self.stored[parent].entry_id if parent in self.stored else None
            run.append((entry.id, parts, self._payload(entry, parts, 0 if stored is None else stored.parts)))
            last = entry.id
        if run:
            await self._append_run(run, below)
        title = self.reader.title
        if title and title != self._title:
            await self.keep([SessionInfo(name=title)])
            self._title = title

    def _changed(self) -> list[Step]:
        """Return the steps that have fresh lines, or no entry; each entry was appended before the lines were kept."""
        known = len(self._kept)
        return [step for step in self.reader.changed() if step.nodes[-1].number > known or step.id not in self.stored]

    async def _lines_of(self, step: Step, fresh: Sequence[bytes]) -> list[bytes]:
        """Return the lines of a step, those that are not fresh as the session holds them."""
        lines: list[bytes] = []
        for node in step.nodes:
            if node.number > len(self._kept):
                lines.append(fresh[node.number - len(self._kept) - 1])
            else:
                entry = await self.session.entry(self._kept[node.number - 1])
                assert isinstance(entry, CustomEntry)  # no entry is ever removed
                assert entry.custom.raw_data is not None
                lines.append(bytes(entry.custom.raw_data))
        return lines

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
            self.stored[source_id] = StoredParts(entry_id, parts)

    def _payload(self, entry: KnownEntry, parts: int, there: int) -> Payload:
        place: dict[str, JSON] = {PLACE: {"of": entry.id, "parts": parts}}
        if isinstance(entry, CompactionEntry):
            details = entry.compaction.details
            kept = self.stored.get(entry.compaction.first_kept_entry_id or "")
            return replace(
                entry.compaction,
                first_kept_entry_id=None if kept is None else kept.entry_id,
                raw_details=raw_object({**(details if isinstance(details, dict) else {}), **place}, "the details"),
            )
        assert isinstance(entry, MessageEntry)  # the reader makes nothing else, besides titles
        message = entry.message
        metadata = raw_object({**message.metadata, **place}, "the metadata")
        return replace(message, content=message.content[there:], raw_metadata=metadata)
