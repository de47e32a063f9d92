"""A session as a conversation of OpenAI's API: its items, their ids, and how its clients are shown them.

An item keeps the id that it came with; one without, or with one that the conversation has already, gets an id from its
entry. The ids of the conversations that were asked for last are kept, so that a page costs what it shows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

import anyio.lowlevel

from ..actors.session.session import Session
from ..events.entries import Message
from ..events.errors import NotFound
from ..events.json_values import JSON
from ..events.providers.responses import Item, items_of
from ..projections.context import ContextMessage
from ..projections.context_edits import edits_on, last_edits

Include: TypeAlias = Literal[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
]
"""What items are shown with if it is asked for. Images are always there: agents do not ask for them, and need them."""

INCLUDES: tuple[Include, ...] = get_args(Include)

_KEPT_MAX = 64
_TURN = 500
"""Messages after which others get their turn."""

_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}
_WITH_STATUS = frozenset({"message", "function_call", "function_call_output"})


class ItemPlace(NamedTuple):
    """Where an item is: in which message of the context, and which of its items it is."""

    item_id: str
    entry_id: str
    at: int


class Listing:
    """The items of a conversation in one state of its session.

    Attributes:
        places: Where they are, in order.
    """

    def __init__(self) -> None:
        self.places: list[ItemPlace] = []
        self._by_id: dict[str, int] = {}

    def add(self, entry_id: str, message: Message) -> None:
        """Add the items of a message."""
        for at, item in enumerate(items_of(message)):
            own = item.get("id")
            item_id = own if isinstance(own, str) and own and own not in self._by_id else _id_of(item, entry_id, at)
            while item_id in self._by_id:
                item_id += "_"
            self._by_id[item_id] = len(self.places)
            self.places.append(ItemPlace(item_id, entry_id, at))

    def find(self, item_id: str) -> int:
        """Return the position of an item.

        Raises:
            NotFound: The conversation has no such item.
        """
        found = self._by_id.get(item_id)
        if found is None:
            raise NotFound(f"the conversation has no item with the id {item_id[:200]!r}: list its items")
        return found


class Conversations:
    """The items of the conversations that were asked for last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[str, Listing]] = OrderedDict()

    async def listing(self, session: Session) -> Listing:
        """Return the items of a session as they are now."""
        while True:
            state = _state(session)
            known = self._kept.get(session.ref)
            if known is not None and known[0] == state:
                self._kept.move_to_end(session.ref)
                return known[1]
            listing = Listing()
            for number, each in enumerate(await _messages(session), 1):
                listing.add(each.entry_id, each.message)
                if not number % _TURN:
                    await anyio.lowlevel.checkpoint()
            if state == _state(session):
                self._keep(session, listing)
                return listing

    async def appended(self, session: Session, ids: Sequence[str], messages: Sequence[Message]) -> Listing:
        """Return the items of a session to which messages were just appended.

        Args:
            session: The session.
            ids: The entries of the messages.
            messages: The messages.
        """
        known = self._kept.get(session.ref)
        parent = session.path()[-len(ids) - 1 : -len(ids)] if session.leaf_id == ids[-1] else None
        if known is None or parent is None or known[0] != _state_of(session, len(ids), parent[0] if parent else ""):
            return await self.listing(session)
        for entry_id, message in zip(ids, messages, strict=True):
            known[1].add(entry_id, message)
        self._keep(session, known[1])
        return known[1]

    def _keep(self, session: Session, listing: Listing) -> None:
        self._kept[session.ref] = _state(session), listing
        self._kept.move_to_end(session.ref)
        if len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)


def _state(session: Session) -> str:
    return _state_of(session, 0, session.leaf_id or "")


def _state_of(session: Session, before: int, leaf: str) -> str:
    """Return the name of the state in which a session was so many entries before, with a leaf."""
    cursor = session.cursor
    return f"{cursor.generation} {cursor.seq - before} {leaf}"


async def _messages(session: Session) -> list[ContextMessage]:
    """Return the messages that are items: those that the context shows, without what stands for hidden ones."""
    log = await session.log()
    edits = last_edits(log.index, await log.entries_in(edits_on(log.index, log.index.path_end(None))))
    hidden = {log.index.ids[seq] for seq, edit in edits.items() if edit.replacement is None}
    return [each for each in (await session.context()).messages if each.entry_id not in hidden]


async def items_at(session: Session, places: Sequence[ItemPlace], include: Collection[Include]) -> list[Item]:
    """Return items as clients are shown them."""
    wanted = {place.entry_id for place in places}
    by_entry = {each.entry_id: each.message for each in await _messages(session) if each.entry_id in wanted}
    found: list[Item] = []
    for place in places:
        message = by_entry.get(place.entry_id)
        if message is None:
            raise NotFound(f"the item {place.item_id!r} was there a moment ago: list the items again")
        found.append(shown(items_of(message)[place.at], place.item_id, include))
    return found


def shown(item: Item, item_id: str, include: Collection[Include]) -> Item:
    """Return an item with an id and with all that the API says of it, but without what is to be asked for."""
    kind = item.get("type") or ("message" if "role" in item else "unknown")
    value: Item = {**item, "id": item_id, "type": kind}
    if kind in _WITH_STATUS:
        value["status"] = item.get("status") or "completed"
    if kind == "message":
        value["content"] = _content(item, with_logprobs="message.output_text.logprobs" in include)
    elif kind == "reasoning":
        value.setdefault("summary", [])
    elif kind == "web_search_call" and "web_search_call.action.sources" not in include:
        action = value.get("action")
        if isinstance(action, dict):
            value["action"] = {name: each for name, each in action.items() if name != "sources"}
    for name in ("encrypted_content", "outputs", "results"):
        if f"{kind}.{name}" in INCLUDES and f"{kind}.{name}" not in include:
            value.pop(name, None)
    return value


def _content(item: Item, *, with_logprobs: bool) -> JSON:
    content = item.get("content")
    if isinstance(content, str):
        kind = "output_text" if item.get("role") == "assistant" else "input_text"
        return [_part({"type": kind, "text": content}, with_logprobs=with_logprobs)]
    if not isinstance(content, list):
        return []
    return [_part(part, with_logprobs=with_logprobs) for part in content]


def _part(part: JSON, *, with_logprobs: bool) -> JSON:
    if not isinstance(part, dict) or part.get("type") != "output_text":
        return part
    shown_part: Item = {"annotations": [], **part}
    if not with_logprobs:
        shown_part.pop("logprobs", None)
    return shown_part


def _id_of(item: Item, entry_id: str, at: int) -> str:
    kind = item.get("type") or "message"
    stem = f"{_PREFIXES.get(str(kind), 'item')}_{entry_id}"
    return f"{stem}_{at}" if at else stem
