"""Routes of OpenAI's Conversations API, for its clients: a conversation is a session, and an item a message.

client = OpenAI(base_url="http://127.0.0.1:8765/openai/v1", api_key=token)
client.conversations.items.list(client.conversations.create().id)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta, Raw, Struct

from ...actors.commands import AppendOptions
from ...actors.session.session import Session
from ...events.entries import ContextEdit, Message, Payload, SessionInfo
from ...events.errors import LeafMoved, SessionExists
from ...events.json_values import JSON, raw_object
from ...events.providers.responses import Item, items_of, message_of
from ..conversations import Include, ItemPlace, Listing, items_at, shown
from ..creation import NewSession, write_new
from ..http.fields import Name
from ..http.problems import Malformed
from ..http.wire import encode
from ..preconditions import REPEATED, appended, has_appended, once
from ..repeats import id_for, used_otherwise
from ..routing import Call, Nothing, Routes

routes = Routes()

Metadata: TypeAlias = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]], Meta(max_length=16)
]
"""Up to 16 texts by their names."""

_ITEM = {
    "type": "object",
    "anyOf": [
        {"required": [name], "properties": {name: {"type": "string", "minLength": 1}}} for name in ("type", "role")
    ],
}
_CONFLICTS = (404, 409)


class Conversation(Struct, frozen=True):
    """A conversation; `created_at` is in seconds since 1970."""

    id: str
    created_at: int
    metadata: dict[str, Any]
    object: Literal["conversation"] = "conversation"


class DeletedConversation(Struct, frozen=True):
    """A conversation that is no more."""

    id: str
    deleted: bool
    object: Literal["conversation.deleted"] = "conversation.deleted"


class ItemList(Struct, frozen=True):
    """Items, the ids of the first and the last of them, and whether there are more."""

    data: list[Raw]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: Literal["list"] = "list"


class NewConversation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation to create: its first items, and its metadata."""

    items: list[dict[str, Any]] | None = None
    metadata: Metadata | None = None


class ConversationChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The metadata of a conversation, instead of what it was."""

    metadata: Metadata | None


class NewItems(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Items to append."""

    items: list[dict[str, Any]]


class IncludeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to show of items that is left out otherwise."""

    include: tuple[Include, ...] = msgspec.field(name="include[]", default=())


class ItemsQuery(IncludeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which items to list, after which one, and from which end."""

    after: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"


# -- conversations


@routes.add(
    "POST",
    "/openai/v1/conversations",
    right="write",
    body=NewConversation,
    schema={"properties": {"items": {"anyOf": [{"type": "null"}, {"type": "array", "items": _ITEM}]}}},
    reply=Conversation,
    errors=(409,),
    keyed=True,
)
async def create_conversation(call: Call[Nothing, NewConversation]) -> Conversation:
    """Create a conversation, as a session with its first items.

    For a token with a prefix it has a key, which begins with that.
    """
    service, body, principal = call.service, call.body, call.principal
    service.check_writable()
    first: list[Payload] = [] if not body.metadata else [_metadata(body.metadata)]
    first += _messages(body.items or [], service.limits.batch_max)
    made = id_for(principal, call.key) or service.host.core.runtime.new_id()
    name = f"conv_{made.replace('-', '')}"
    prefix = principal.prefix
    new = NewSession(id=name) if prefix is None else NewSession(key=f"{prefix}{name}")  # which tells the id
    options: AppendOptions = {} if call.key is None else {"command_id": call.key}
    try:
        session = await write_new(service.host, new, new.id, first, **options)
    except SessionExists:
        if call.key is None:
            raise
        session = await service.host.get_or_create(new.key) if new.key else await service.writing(principal, name)
        if bool(first) != await has_appended(call, session):
            raise used_otherwise("conversation") from None
        if first:
            await session.append_many(first, **options)  # refused if the key was used for others
        call.reply_headers |= REPEATED
    return _shown(session)


@routes.add("GET", "/openai/v1/conversations/{session_id}", right="read", reply=Conversation, errors=_CONFLICTS)
async def retrieve_conversation(call: Call[Nothing, None]) -> Conversation:
    """Return a conversation."""
    return _shown(await call.reading())


@routes.add(
    "POST",
    "/openai/v1/conversations/{session_id}",
    right="write",
    body=ConversationChange,
    reply=Conversation,
    errors=(*_CONFLICTS, 507),
    keyed=True,
)
async def update_conversation(call: Call[Nothing, ConversationChange]) -> Conversation:
    """Replace the metadata of a conversation."""
    session = await call.writing()
    metadata = _metadata(call.body.metadata or {})
    await appended(call, session, lambda options: session.append(metadata, **options))
    return _shown(session)


@routes.add(
    "DELETE", "/openai/v1/conversations/{session_id}", right="admin", reply=DeletedConversation, errors=_CONFLICTS
)
async def delete_conversation(call: Call[Nothing, None]) -> DeletedConversation:
    """Delete a conversation permanently, with every copy of its content."""
    call.service.check_writable()
    row = await call.service.row(call.principal, call.session_id)
    await call.service.host.delete(row)
    call.service.forget(row.id)  # whose handle would keep its entries in memory
    return DeletedConversation(row.id, deleted=True)


def _shown(session: Session) -> Conversation:
    return Conversation(session.id, int(session.created.timestamp()), session.metadata.info.metadata)


def _metadata(metadata: dict[str, str]) -> SessionInfo:
    return SessionInfo(raw_metadata=raw_object(metadata, "metadata"))


# -- items


@routes.add(
    "GET",
    "/openai/v1/conversations/{session_id}/items",
    right="read",
    query=ItemsQuery,
    reply=ItemList,
    errors=_CONFLICTS,
)
async def list_items(call: Call[ItemsQuery, None]) -> ItemList:
    """List the items of a conversation, by default the last ones first, page by page."""
    session, query = await call.reading(), call.query
    listing = await call.service.conversations.listing(session)
    step = 1 if query.order == "asc" else -1
    places = listing.places[::step]
    start = 0
    if query.after is not None:
        position = listing.find(query.after)
        start = (position if step == 1 else len(places) - 1 - position) + 1
    wanted = places[start : start + query.limit]
    return await _page(call, session, wanted, query.include, len(places) - start)


@routes.add(
    "POST",
    "/openai/v1/conversations/{session_id}/items",
    right="write",
    query=IncludeQuery,
    body=NewItems,
    schema={"properties": {"items": {"type": "array", "items": _ITEM, "minItems": 1}}},
    reply=ItemList,
    errors=(*_CONFLICTS, 507),
    keyed=True,
)
async def create_items(call: Call[IncludeQuery, NewItems]) -> ItemList:
    """Append items to a conversation, all or none, and return them."""
    messages = _messages(call.body.items, call.service.limits.batch_max)
    if not messages:
        raise Malformed("give at least one item - at `$.items`")
    session = await call.writing()
    await call.service.conversations.listing(session)  # so that only what is new is read below
    ids = await appended(call, session, lambda options: session.append_many(messages, **options))
    listing = await call.service.conversations.appended(session, ids, messages)
    of = frozenset(ids)
    found = [place for place in listing.places[-len(ids) :] if place.entry_id in of]
    if len(found) < len(ids):  # it is a repeated request, and others have appended or taken out items since
        there = {(place.entry_id, place.at): place for place in listing.places if place.entry_id in of}
        alone = Listing()
        for entry_id, each in zip(ids, messages, strict=True):
            alone.add(entry_id, each)
        found = [there.get((place.entry_id, place.at), place) for place in alone.places]
    made = [item for message in messages for item in items_of(message)]
    data = [_raw(shown(item, place.item_id, call.query.include)) for item, place in zip(made, found, strict=True)]
    return ItemList(data, found[0].item_id, found[-1].item_id, has_more=False)


@routes.add(
    "GET",
    "/openai/v1/conversations/{session_id}/items/{item_id}",
    right="read",
    query=IncludeQuery,
    reply=Raw,
    errors=_CONFLICTS,
)
async def retrieve_item(call: Call[IncludeQuery, None]) -> Raw:
    """Return an item of a conversation."""
    session = await call.reading()
    listing = await call.service.conversations.listing(session)
    place = listing.places[listing.find(call.names["item_id"])]
    (item,) = await items_at(session, [place], call.query.include)
    return _raw(item)


@routes.add(
    "DELETE",
    "/openai/v1/conversations/{session_id}/items/{item_id}",
    right="write",
    reply=Conversation,
    errors=(*_CONFLICTS, 507),
    keyed=True,
)
async def delete_item(call: Call[Nothing, None]) -> Conversation:
    """Take an item out of a conversation; it stays readable in the tree of its session."""
    session, item_id = await call.writing(), call.names["item_id"]

    async def delete() -> None:
        leaf = session.leaf_id
        listing = await call.service.conversations.listing(session)
        place = listing.places[listing.find(item_id)]
        others = [each for each in listing.places if each.entry_id == place.entry_id and each != place]
        rest = [message_of(each) for each in await _items(session, others)]
        entry = await session.entry(place.entry_id)
        if entry is None or session.leaf_id != leaf:
            raise LeafMoved("the conversation changes just now: repeat the request")
        if place.entry_id != leaf:
            content = tuple(part for each in rest for part in each.content)
            await session.append(ContextEdit(place.entry_id, content or None), expected_leaf=leaf)
        elif rest:
            await session.append_many(rest, below=entry.parent_id, expected_leaf=leaf)
        elif entry.parent_id is None:
            await session.reset_leaf()
        else:
            await session.branch(entry.parent_id)

    await once(call, session, f"delete item {item_id!r}", delete)
    return _shown(session)


def _messages(items: Sequence[dict[str, Any]], items_max: int) -> list[Message]:
    """Return the messages of items.

    Raises:
        Malformed: One is no item, or there are too many.
    """
    if len(items) > items_max:
        raise Malformed(f"one request appends up to {items_max} items, not {len(items)} - at `$.items`")
    for number, item in enumerate(items):
        if not any(isinstance(item.get(name), str) and item[name] for name in ("type", "role")):
            raise Malformed(f"an item has a `type`, or a `role` if it is a message - at `$.items[{number}]`")
    return [message_of(item) for item in items]


async def _items(session: Session, places: Sequence[ItemPlace]) -> list[Item]:
    """Return items as they are stored."""
    found: list[Item] = []
    for place in places:
        each = next(each for each in (await session.context()).messages if each.entry_id == place.entry_id)
        found.append(items_of(each.message)[place.at])
    return found


async def _page(
    call: Call[Any, Any], session: Session, wanted: Sequence[ItemPlace], include: tuple[Include, ...], left: int
) -> ItemList:
    """Return a page of items, up to the bound of its bytes."""
    data: list[Raw] = []
    size = 0
    for item in await items_at(session, wanted, include):
        data.append(raw := _raw(item))
        size += len(memoryview(raw))
        if size >= call.service.limits.page_bytes_max:
            break
    told = wanted[: len(data)]
    first, last = (told[0].item_id, told[-1].item_id) if told else (None, None)
    return ItemList(data, first, last, has_more=len(told) < left)


def _raw(item: Item) -> Raw:
    return Raw(encode(cast("JSON", item)))
