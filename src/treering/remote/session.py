"""The handle of one session of a server.

It is a `Session`: whatever reads runs the library's own code, on the index that is kept here. What appends, moves the
leaf, copies or exports is a request to the server, and is seen here when the call returns.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import UNSET, Raw

from ..actors.commands import Append, MoveLeaf
from ..actors.host.core import HostCore
from ..actors.host.names import checked_id, checked_path
from ..actors.log.open_log import encode_leaf
from ..actors.log.source import Source, State
from ..actors.session.exporting import ExportFormat
from ..actors.session.open_calls import Recovery
from ..actors.session.session import Session
from ..actors.transfer.target import in_file, in_memory
from ..events.arguments import check_count, check_text, check_texts, is_text
from ..events.dialects.base import as_object
from ..events.dialects.native import NativeDialect
from ..events.entries import EPOCH, Compaction, ContextEdit, Entry, Label, Payload, ToolExecution, entry_of
from ..events.errors import AppendInDoubt, EntryNotFound, InvalidEntry, NotLive, ReadOnly, SessionNotFound
from ..events.index import LogIndex
from ..events.redaction import Redaction
from ..events.stores.base import Blob, Cursor
from ..projections.feed_events import transient
from ..wire import Appended, LeafReply, SessionRow
from .connection import Connection, segment
from .lines import WireDialect

_WITH_ENTRIES = {"prefer": "return=representation"}
_KEY_MAX = 255
_native = NativeDialect()


class RemoteSession(Session):
    """One session of a server; `RemoteHost` makes these.

    Its index is kept while the handle is open, and brought up to date by every call that is awaited; calls that are not
    awaited answer from it.
    """

    __slots__ = ("_connection", "_told")

    def __init__(
        self, core: HostCore, source: Source, session_id: str, connection: Connection, *, read_only: bool = False
    ) -> None:
        super().__init__(core, source, session_id, read_only=True)  # which keeps the index
        self._read_only = read_only
        self._connection = connection
        self._told: anyio.Event | None = None  # set when the event that was emitted last was sent

    @property
    def _path(self) -> str:
        return f"/v1/sessions/{segment(self.ref)}"

    def is_of(self, core: HostCore) -> bool:
        """Return whether this is a session of that host."""
        return self._core is core

    def _index(self) -> LogIndex:
        try:
            return super()._index()
        except NotLive:
            if self._source.state is not State.GONE:
                raise
            raise SessionNotFound(
                f"there is no session {self.ref!r}, or no longer: load or create another one"
            ) from None

    # -- commands

    async def _perform(self, command: Append | MoveLeaf) -> list[Entry]:
        """Have the server carry out a command, and see what came of it."""
        self._check()
        if self._read_only:
            raise ReadOnly(f"session {self.id!r} was opened read-only: load it without `read_only` to write")
        if isinstance(command, MoveLeaf):
            await self._move(command.leaf_id)
            return []
        if not command.payloads:
            await self._source.ready()  # which says if there is no such session any more
            raise InvalidEntry("nothing to append: give at least one payload")
        body, headers = _request(command, self._core.runtime.new_id)
        if self._told is not None:
            await self._told.wait()
        appended = await self._connection.ask(Appended, "POST", f"{self._path}/entries", body=body, headers=headers)
        return await self._see(appended)

    async def _move(self, leaf_id: str | None) -> None:
        if leaf_id is not None:
            _check_entry_id(leaf_id)
        body, headers = msgspec.json.encode({"entry_id": leaf_id}), self._fresh_key()
        try:
            leaf = await self._connection.ask(LeafReply, "PUT", f"{self._path}/leaf", body=body, headers=headers)
        except AppendInDoubt:
            await self._source.ready()  # it is in effect, but may not survive
            raise
        at, log = Cursor.parse(leaf.cursor), self._source.followed_log
        if log is not None and log.generation == at.generation and log.index.head == at.seq:
            log.follow_leaf(Blob(at, encode_leaf(leaf.leaf)))
        else:
            await self._source.ready()

    async def _see(self, appended: Appended) -> list[Entry]:
        """Fold what was appended into the log here, if it comes next; otherwise, read what comes before it, too."""
        log, end, first = self._source.followed_log, Cursor.parse(appended.cursor), appended.seqs[0]
        dialect = WireDialect(_native) if log is None else log.dialect
        lines = [bytes(each) for each in appended.entries]
        entries = [
            entry
            for seq, line in zip(appended.seqs, lines, strict=True)
            if (entry := dialect.decode(line, seq)) is not None
        ]
        is_known = log is not None and log.generation == end.generation and appended.seqs[-1] <= log.index.head
        if log is not None and log.generation in ("", end.generation) and first == log.index.seen + 1:
            log.generation = end.generation
            log.appended(entries, lines)
        elif not is_known:
            await self._source.ready()
        return entries

    # -- copies

    async def create_branched_session(self, leaf_id: str) -> Session:
        """Copy the path from the root to an entry into a new session; see `Session.create_branched_session`."""
        _check_entry_id(leaf_id)
        return await self._copied({"entry_id": leaf_id})

    async def fork(self, session_id: str | None = None) -> Session:
        """Copy the whole session into a new one; see `Session.fork`."""
        if session_id is not None:
            checked_id(session_id, is_new=True)
        return await self._copied({} if session_id is None else {"id": session_id})

    async def _copied(self, body: dict[str, Any]) -> Session:
        self._check()
        path, encoded, headers = f"{self._path}/fork", msgspec.json.encode(body), self._fresh_key()
        row = await self._connection.ask(SessionRow, "POST", path, body=encoded, headers=headers)
        return await opened(self._core, row.id, self._connection)

    def _fresh_key(self) -> dict[str, str]:
        """Return the header by which the repetitions of one request are known."""
        return {"idempotency-key": self._core.runtime.new_id()}

    # -- the rest

    async def export(  # type: ignore[override]  # the overloads of the one that it is a case of
        self,
        format: ExportFormat,
        destination: str | os.PathLike[str] | None = None,
        *,
        leaf_id: str | None = None,
        redact: Redaction | None = None,
        overwrite: bool = False,
    ) -> bytes | Path:
        """Write the session for others, as the server exports it; see `Session.export`."""
        from ..actors.transfer.exporting import foreign_format
        from ..formats.base import WritesFolder

        self._check()
        foreign = await self._core.runtime.offload(foreign_format, format)
        if redact is not None or isinstance(foreign, WritesFolder):  # the library's own work on the entries
            return await super().export(format, destination, leaf_id=leaf_id, redact=redact, overwrite=overwrite)
        check_text("leaf_id", leaf_id)
        query = {"format": format} if leaf_id is None else {"format": format, "leaf": leaf_id}
        path = None if destination is None else Path(checked_path(destination))
        offload = self._core.runtime.offload

        async def take(pieces: AsyncIterator[bytes]) -> bytes | Path:
            if path is None:
                return await in_memory(pieces)
            return await in_file(offload, path, pieces, overwrite=overwrite)

        return await self._connection.download(f"{self._path}/export", query, take)

    def emit(self, name: str, data: object) -> None:
        """Publish an event to the subscribers of the session, wherever they are; see `Session.emit`.

        It is sent soon after this call; one that does not arrive is lost, as events that are not stored may be.
        """
        self._check()
        check_texts(name=name)
        event = transient(name, data)
        self._tell({"name": event.name, "data": event.raw})

    def emit_text(self, name: str, text: str, *, message: str) -> None:
        """Publish the next piece of a text that is being written; pieces are sent in order. See `Session.emit_text`."""
        self._check()
        check_texts(name=name, text=text, message=message)
        self._tell({"name": name, "message": message, "text": text})

    def _tell(self, event: dict[str, object]) -> None:
        """Send an event after those before it; what is appended after this call waits until it was sent."""
        before, told = self._told, anyio.Event()
        body = msgspec.json.encode({"events": [event]})
        self._told = told
        until = anyio.current_time() + self._connection.retry_for_s  # however long those before it take

        async def tell() -> None:
            try:
                if before is not None:
                    await before.wait()
                await self._connection.tell(f"{self._path}/transients", body, until)
            finally:
                told.set()

        self._core.runtime.spawn(tell)

    async def recover(self) -> Recovery:
        """Close the calls that nothing will answer; torn tails are the server's to repair. See `Session.recover`."""
        self._check()
        calls, ids = await self._close_open_calls(suspended=False)
        return Recovery(None, tuple(calls), tuple(ids))


async def opened(core: HostCore, session_id: str, connection: Connection, *, read_only: bool = False) -> RemoteSession:
    """Return a handle of a session whose index has been read.

    Raises:
        SessionNotFound: There is none.
    """
    source = core.registry.source(session_id)
    session = RemoteSession(core, source, session_id, connection, read_only=read_only)
    await source.ready()
    return session


def _request(command: Append, new_id: Any) -> tuple[bytes, dict[str, str]]:  # noqa: ANN401
    """Return the body of the request for an append, and its headers."""
    body: dict[str, object] = {"entries": [_checked(each) for each in command.payloads]}
    if command.below is not UNSET:
        if command.below is not None:
            _check_entry_id(command.below)
        body["below"] = command.below
    if command.aside:
        if command.below is UNSET:
            raise InvalidEntry("an entry that is appended aside needs a parent: give `below`")
        body["aside"] = True
    if command.expected_leaf is not UNSET:
        body["expected_leaf"] = command.expected_leaf
    if command.expected_seq is not None:
        check_count("expected_seq", command.expected_seq)
        body["expected_seq"] = command.expected_seq
    headers = dict(_WITH_ENTRIES)
    key = command.command_id if command.command_id is not None else new_id()
    if key.isascii() and key.isprintable() and " " not in key and 1 <= len(key) <= _KEY_MAX:
        headers["idempotency-key"] = key
    else:
        body["command_id"] = key
    return msgspec.json.encode(body), headers


_REFERENCES: dict[type[Payload], str] = {
    Label: "target_id",
    ContextEdit: "target_id",
    Compaction: "first_kept_entry_id",
    ToolExecution: "message_id",
}
"""The field of a payload that names an entry."""


def _check_entry_id(entry_id: str) -> None:
    """Refuse what no entry has as its id, and what a request could not carry.

    Raises:
        EntryNotFound: It is none.
    """
    is_str = isinstance(entry_id, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_str or not entry_id or not is_text(entry_id):
        raise EntryNotFound(entry_id)


def _checked(payload: Payload) -> dict[str, object]:
    """Return a payload as the server takes it, after checking that it can be written."""
    name = _REFERENCES.get(type(payload))
    if name is not None and (entry_id := getattr(payload, name)) is not None:
        _check_entry_id(entry_id)
    entry = entry_of(payload, id="new", parent_id=None, timestamp=EPOCH)
    line, _ = _native.write(entry)
    return {"type": entry.type, entry.type: as_object(line).get(entry.type, Raw(b"{}"))}
