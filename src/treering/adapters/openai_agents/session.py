"""A session of the Agents SDK: the items of one conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ...actors.host.host import SessionHost
from ...actors.session.session import Session
from ...events.entries import ContextEdit, ContextEditEntry, Payload
from ...events.providers.responses import items_of, message_of
from ...projections.context import ContextMessage
from ..hosting import Hosting, HostOrRoot, lock_of
from ..versions import OPENAI_AGENTS

try:
    from agents.memory import SessionSettings
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
except ImportError as error:
    raise OPENAI_AGENTS.missing(error, "sessions for it need OpenAI's Agents SDK") from error

OPENAI_AGENTS.check()

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

T = TypeVar("T")


class TreeringSession:
    """A conversation of the Agents SDK in a treering session, which its id names as a key.

    It may be used in any event loop and any thread, and so may others with the same id and host: all see the same
    items. Programs that use the host directly find it by `host.find_by_key(session_id)`.

    Args:
        session_id: Any name of up to 1 KiB, such as "user:42".
        host: An open host, or a root: a directory or a URL. Objects with the same root share one host.
        session_settings: The SDK's: `SessionSettings(limit=50)` gives an agent only the last 50 items; a dict of its
            fields will do.

    Raises:
        InvalidInput: The host is none. An id that is no key is refused at first use, as `InvalidSessionId`.
    """

    def __init__(
        self, session_id: str, host: HostOrRoot, *, session_settings: SessionSettings | dict[str, Any] | None = None
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self._hosting = Hosting(host)

    def __repr__(self) -> str:
        return f"TreeringSession({self.session_id!r}, {self._hosting!r})"

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items that the context shows, oldest first.

        Args:
            limit: Return only so many of the last ones; None for what the session's settings say.

        Raises:
            TreeringError: The session cannot be read; see `SessionHost.find_by_key`.
        """
        most = self._most(limit)

        async def read(host: SessionHost) -> list[TResponseInputItem]:
            session = await host.find_by_key(self.session_id)
            return [] if session is None else latest((await session.context()).messages, most)

        return await self._hosting.run(read)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items, all of them or none.

        Raises:
            InvalidEntry: An item is no JSON object; nothing was written.
            TreeringError: The write failed; see `Session.append`.
        """
        messages = [message_of(cast("dict[str, object]", item)) for item in items]  # the SDK types them by kind
        if messages:
            await self._with_session(lambda session: session.append_many(messages))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take back the last item and return it, or None if there is none; it stays readable on its branch.

        Raises:
            TreeringError: The session cannot be read or written.
        """

        async def pop(session: Session) -> TResponseInputItem | None:
            messages = (await session.context()).messages
            if not messages:
                return None
            last = messages[-1]
            *kept, item = _items(last)
            entry = await session.entry(last.entry_id)
            above = None if entry is None else entry.parent_id
            staying: list[Payload] = [message_of(cast("dict[str, object]", each)) for each in kept]
            staying += await edits_of_others(session, last.entry_id)
            if staying:  # also if something else wrote several items as one message
                await session.append_many(staying, below=above)
            elif above is None:
                await session.reset_leaf()
            else:
                await session.branch(above)
            return item

        return await self._with_session(pop)

    async def clear_session(self) -> None:
        """Begin anew with no items; the former ones stay readable on their branch.

        Raises:
            TreeringError: The move could not be recorded.
        """
        await self._with_session(lambda session: session.reset_leaf())

    def _most(self, limit: int | None) -> int | None:
        most: int | None = resolve_session_limit(limit, self.session_settings)
        return None if most is not None and most < 0 else most  # as the SDK's own sessions take it

    async def _with_session(self, work: Callable[[Session], Awaitable[T]]) -> T:
        async def run(host: SessionHost) -> T:
            async with lock_of(host, self.session_id):  # what is added meanwhile must not be taken back with an item
                return await work(await host.get_or_create(self.session_id))

        return await self._hosting.run(run)


async def edits_of_others(session: Session, entry_id: str, leaf_id: str | None = None) -> list[ContextEdit]:
    """Return the edits on the path below an entry that change how others are shown, and so outlive it.

    Args:
        session: The session.
        entry_id: The entry, on the path.
        leaf_id: The end of the path, by default the leaf.
    """
    path = session.path(leaf_id)
    below = [await session.entry(each) for each in path[path.index(entry_id) + 1 :]]
    edits = [each.context_edit for each in below if isinstance(each, ContextEditEntry)]
    return [edit for edit in edits if edit.target_id != entry_id]


def latest(messages: Sequence[ContextMessage], most: int | None) -> list[TResponseInputItem]:
    """Return the items of messages, or only so many of the last ones."""
    found: list[TResponseInputItem] = []
    for each in reversed(messages):
        if most is not None and len(found) >= most:
            break
        found += reversed(_items(each))
    found.reverse()
    return found if most is None else found[max(0, len(found) - most) :]


def _items(message: ContextMessage) -> list[TResponseInputItem]:
    return cast("list[TResponseInputItem]", items_of(message.message))  # an item that was read is one of the SDK's
