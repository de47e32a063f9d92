"""Sessions of other programs as they are in their files now: put whole in the place of what is there, or let grow."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from ...events.errors import ForeignFormatError, Where
from ...events.stores.base import Ref
from ...formats.base import ForeignSession, Format, KeptSession
from ...formats.walk import Found
from ..host.tasks import on_own_task
from .importing import put_lines, write_whole
from .incoming import Converted, Copied, Incoming

if TYPE_CHECKING:
    from ..host.core import HostCore


async def put(core: HostCore, ref: Ref, session: ForeignSession | KeptSession, path: Path, own_id: str) -> None:
    """Put a session in the place of the log that there is; who follows that begins anew.

    Args:
        core: The host.
        ref: The log.
        session: The session.
        path: The file that it comes from, for messages.
        own_id: The id that it has here.
    """
    await on_own_task(core.runtime, partial(_put, core, ref, _incoming(session, path, own_id), path))


async def grow(
    core: HostCore, ref: Ref, session: ForeignSession | KeptSession, format: Format, path: Path, own_id: str
) -> int:
    """Add what a session has more in its file than here, and return how many entries that were; see `put`."""
    incoming, found = _incoming(session, path, own_id), Found(format, path, session)
    report = await on_own_task(core.runtime, partial(write_whole, core, incoming, ref, found))
    return report.added


async def _put(core: HostCore, ref: Ref, incoming: Incoming, path: Path) -> None:
    async with core.registry.leased(ref) as lease:
        with anyio.CancelScope(shield=True):  # it is there whole, with its leaf, or as it was
            await put_lines(core, lease, incoming, path)
    core.runtime.touched.add(ref)
    if core.registry.feed_of(ref) is not None:
        await core.registry.actor(ref)  # so that its subscribers see that it was replaced


def _incoming(session: ForeignSession | KeptSession, path: Path, own_id: str) -> Incoming:
    if isinstance(session, ForeignSession):
        return Converted(replace(session, header=replace(session.header, id=own_id)), str(path))
    if session.header.id != own_id:
        raise ForeignFormatError("another program has a session of the same id", where=Where(str(path)))
    return Copied(session, str(path))
