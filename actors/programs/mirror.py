"""The sessions of programs in a host of its own, to be shown: a digest of each, and those whole that somebody opened.

The host's root is to be a temporary one: everything in it comes from the programs' files, and is written anew whenever
it is needed. Nothing may be written there by others: what the programs say next counts.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import current_time

from ...events.dialects.native import NativeDialect
from ...events.entries import EPOCH, NATIVE_VERSION, Header
from ...events.errors import ForeignFormatError, InvalidSessionId, SessionNotFound, TreeringError, Where
from ...events.stores.base import Ref
from ...events.telemetry import failure_of, logger
from ...formats.chain import derived_id
from ...formats.glances import read_whole
from ...formats.programs import format_named
from ..host.names import checked_id, new_ref
from ..transfer.mirroring import grow, put
from .digests import Digest, digest
from .sessions import BUSY_FOR_S, Key, ProgramChange, ProgramSession, ProgramSessions

if TYPE_CHECKING:
    from ..host.host import SessionHost

WHOLE_MAX = 64
"""How many sessions are held whole, those that were asked for last."""

WHOLE_BYTES_MAX = 1024 * 1024 * 1024
"""How large their files may be together; one is always held."""

_SHARE = 10  # a session that grows is read at most for one part in so many of the time
_STIRS_EVERY_S = 15.0


class ProgramMirror:
    """Shows the sessions of programs in a host.

    Args:
        host: The host, which is open and holds nothing else.
        sessions: The sessions.
        whole_max: How many are held whole.

    Attributes:
        host: The host.
    """

    def __init__(self, host: SessionHost, sessions: ProgramSessions, *, whole_max: int = WHOLE_MAX) -> None:
        self.host = host
        self._sessions = sessions
        self._whole_max = whole_max
        self._keys: dict[str, Key] = {}
        self._ids: dict[Key, str] = {}
        self._refs: dict[Ref, Key] = {}
        self._digests: dict[Key, Digest] = {}
        self._whole: OrderedDict[Key, int] = OrderedDict()  # with the sizes of their files
        self._grown: dict[Key, float] = {}  # those to read again, and from when on
        self._not_before: dict[Key, float] = {}
        self._wakeup = anyio.Event()
        self._turn = anyio.Lock()

    async def run(self) -> None:
        """Show what the programs write, until it is cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow_whole)
            tasks.start_soon(self._stir)
            with self._sessions as sessions:
                while True:
                    for change in await sessions.receive_many():
                        await self._show(change)

    # -- what is shown

    def row(self, session_id: str) -> ProgramSession | None:
        """Return the program's row of a session of the host."""
        key = self._keys.get(session_id)
        return None if key is None else self._sessions.rows.get(key)

    def is_whole(self, session_id: str) -> bool:
        """Return whether a session is here whole, and not only as it begins and ends."""
        return self._keys.get(session_id) in self._whole

    def is_live(self, ref: Ref) -> bool:
        """Return whether a program was at work on a session a short while ago."""
        row = self._sessions.rows.get(self._refs.get(ref, ("", "")))
        return row is not None and self._is_recent(row, self.host.core.runtime.now())

    def live_refs(self) -> frozenset[Ref]:
        """Return the logs of all sessions that `is_live` tells of."""
        now = self.host.core.runtime.now()
        rows = self._sessions.rows
        return frozenset(ref for ref, key in self._refs.items() if key in rows and self._is_recent(rows[key], now))

    @staticmethod
    def _is_recent(row: ProgramSession, now: datetime) -> bool:
        return (now - row.updated).total_seconds() <= BUSY_FOR_S

    async def open(self, session_id: str) -> None:
        """Read a session whole, unless it is here whole.

        Raises:
            ForeignFormatError: It cannot be read, or no longer.
            UnsupportedVersion: A newer program wrote it.
        """
        key = self._keys.get(session_id)
        if key is None:
            return
        if key in self._whole:
            self._whole.move_to_end(key)
            return
        async with self._turn:
            row = self._sessions.rows.get(key)
            if row is not None and key not in self._whole:
                if row.state is None:
                    raise ForeignFormatError(row.problem or "it cannot be read", where=Where(row.path))
                await self._read(key, row, is_new=True)
                await self._make_room()

    # -- keeping it as the programs have it

    async def _show(self, change: ProgramChange) -> None:
        key, row = change.key, change.row
        try:
            async with self._turn:  # nobody opens it meanwhile
                if row is None:
                    await self._remove(key)
                elif key in self._whole:
                    if change.glance is not None:
                        self._digests[key] = digest(row, change.glance, self.host.core.runtime.now())
                    self._grown.setdefault(key, self._not_before.get(key, 0.0))
                    self._wakeup.set()
                else:
                    await self._put_digest(key, row, change)
        except (TreeringError, OSError) as error:
            logger().warning("program_not_shown", program=key[0], session_id=key[1], **failure_of(error))

    async def _put_digest(self, key: Key, row: ProgramSession, change: ProgramChange) -> None:
        if change.glance is None and key in self._ids:  # what was read before stands, with its problem
            self.host.core.runtime.touched.add(self._ref(self._ids[key]))
            return
        self._own_id(key)
        self._digests[key] = digest(row, change.glance, self.host.core.runtime.now())
        await self._put(key, Path(row.path))

    async def _put(self, key: Key, path: Path) -> None:
        own_id = self._ids[key]
        await put(self.host.core, self._ref(own_id), self._digests[key].session(), path, own_id)

    def _own_id(self, key: Key) -> str:
        """Return the id of a session here: its own, unless another program has one with it."""
        known = self._ids.get(key)
        if known is not None:
            return known
        own_id = key[1]
        try:
            checked_id(own_id, is_new=True)
        except InvalidSessionId:
            own_id = derived_id(*key)
        if own_id in self._keys:
            own_id = derived_id(*key)
        self._ids[key] = own_id
        self._keys[own_id] = key
        self._refs[self._ref(own_id)] = key
        return own_id

    @staticmethod
    def _ref(own_id: str) -> Ref:
        return new_ref(NativeDialect(), Header(id=own_id, version=NATIVE_VERSION, timestamp=EPOCH))

    async def _remove(self, key: Key) -> None:
        own_id = self._ids.pop(key, None)
        if own_id is None:
            return
        ref = self._ref(own_id)
        self._whole.pop(key, None)
        self._digests.pop(key, None)
        self._grown.pop(key, None)
        self._not_before.pop(key, None)
        del self._keys[own_id], self._refs[ref]
        await self.host.delete(own_id)

    async def _read(self, key: Key, row: ProgramSession, *, is_new: bool) -> None:
        """Read a session whole, and put it in the place of its digest, or add what is new in it."""
        core, path, own_id = self.host.core, Path(row.path), self._own_id(key)
        begun = current_time()
        format = await core.runtime.offload(format_named, key[0])
        session = await core.runtime.offload(read_whole, format, path, key[1])
        if is_new:
            await put(core, self._ref(own_id), session, path, own_id)
        else:
            await grow(core, self._ref(own_id), session, format, path, own_id)
        self._whole[key] = await core.runtime.offload(_size_of, path)
        self._not_before[key] = current_time() + _SHARE * (current_time() - begun)

    async def _make_room(self) -> None:
        """Let the digests stand again for the sessions that were asked for longest ago, if there are too many."""
        while len(self._whole) > 1 and (
            len(self._whole) > self._whole_max or sum(self._whole.values()) > WHOLE_BYTES_MAX
        ):
            key, _ = self._whole.popitem(last=False)
            self._grown.pop(key, None)
            await self.host.delete(self._ids[key])  # with what a log that is replaced leaves
            row = self._sessions.rows.get(key)
            if row is not None:
                await self._put(key, Path(row.path))

    async def _follow_whole(self) -> None:
        """Add what programs write to the sessions that are here whole."""
        while True:
            now = current_time()
            ripe = [key for key, at in self._grown.items() if at <= now]
            for key in ripe:
                self._grown.pop(key, None)
                await self._grow(key)
            if not ripe:
                self._wakeup = anyio.Event()
                with anyio.move_on_after(max(0.0, min(self._grown.values(), default=math.inf) - now)):
                    await self._wakeup.wait()

    async def _grow(self, key: Key) -> None:
        try:
            async with self._turn:
                row = self._sessions.rows.get(key)
                if row is None or key not in self._whole:
                    return
                if row.state is not None:
                    await self._read(key, row, is_new=False)
                self.host.core.runtime.touched.add(self._ref(self._ids[key]))
        except SessionNotFound:  # it was removed meanwhile
            return
        except (TreeringError, OSError) as error:
            logger().warning("program_not_shown", program=key[0], session_id=key[1], **failure_of(error))

    async def _stir(self) -> None:
        """Tell of sessions on which no program is at work any more: nothing is written when one stops."""
        before = self.live_refs()
        while True:
            await anyio.sleep(_STIRS_EVERY_S)
            now = self.live_refs()
            for ref in before - now:
                self.host.core.runtime.touched.add(ref)
            before = now


def _size_of(path: Path) -> int:
    return path.stat().st_size
