"""What a request relies on: its Idempotency-Key and its If-Match, and the tags by which it names a state."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import quote, unquote

from ..actors.commands import AppendOptions
from ..actors.decide import command_entry_id
from ..actors.session.session import Session
from .http.fields import CURSOR_PATTERN, cursor_of
from .http.problems import Stale
from .repeats import used_otherwise
from .routing import Call, as_sent

T = TypeVar("T")

REPEATED = {"Idempotent-Replayed": "true"}
"""The header of a reply to a request that had been carried out before."""

_TAG = re.compile(r'(?:W/)?"[^"]*"|[^\s,][^,]*')


@asynccontextmanager
async def appending(call: Call[object, object], session: Session) -> AsyncGenerator[AppendOptions]:
    """Yield what an append of a request relies on, its Idempotency-Key and its If-Match, when it is this one's turn.

    The session's actor checks both at the moment of the append, the key first: a repeated request gets its old reply,
    whatever the state is now.
    """
    async with call.service.repeats.request(call.principal, call.key, "append", session.id):
        options: AppendOptions = {} if call.key is None else {"command_id": call.key}
        yield options | await _wanted(call, session)


async def appended(call: Call[object, object], session: Session, append: Callable[[AppendOptions], Awaitable[T]]) -> T:
    """Append what a request asks for, and say in its reply if it was there already; see `appending`."""
    async with appending(call, session) as options:
        is_there = await has_appended(call, session)
        result = await append(options)
    if is_there:
        call.reply_headers |= REPEATED
    return result


async def once(call: Call[object, object], session: Session, what: str, do: Callable[[], Awaitable[None]]) -> None:
    """Do what no log tells of, unless this very request did it before, of which its reply tells; see `Repeats`."""
    async with call.service.repeats.request(call.principal, call.key, what, session.id) as request:
        if request.result is not None:
            call.reply_headers |= REPEATED
            return
        if await has_appended(call, session):
            raise used_otherwise("request")
        await do()
        request.result = ""


async def has_appended(call: Call[object, object], session: Session) -> bool:
    """Return whether a session's log has what a request with this Idempotency-Key appends."""
    if call.key is None:
        return False
    index = (await session.log()).index
    return index.find(command_entry_id(index.header.id, call.key, 0)) > 0


def _state(tag: str, session: Session) -> AppendOptions:
    """Return the state that a tag names; one that is no state of this log matches nothing."""
    if tag.startswith("leaf:"):
        return {"expected_leaf": unquote(tag.removeprefix("leaf:")) or None}
    text, *leaf = tag.removeprefix("head:").split("/")  # and what was read in that state
    if re.fullmatch(CURSOR_PATTERN, text) and (cursor := cursor_of(text)).generation == session.cursor.generation:
        state: AppendOptions = {"expected_seq": cursor.seq}
        return state | {"expected_leaf": unquote(leaf[0]) or None} if leaf else state
    return {"expected_leaf": tag}  # which is no entry's id


async def check_match(call: Call[object, object], session: Session) -> None:
    """Refuse a request that is no append if its If-Match names another leaf or head than the session has.

    Raises:
        Stale: It does; the error says what they are now.
    """
    if b"if-match" in call.headers:
        await session.refresh()  # another process may have written to it
    if not _holds(await _wanted(call, session), session):
        given, leaf, cursor = call.header(b"if-match"), session.leaf_id, str(session.cursor)
        raise Stale(
            f"the session is not at {given}: its leaf is {leaf!r}, its head {cursor!r}, and If-Match takes "
            '"leaf:ENTRY", "leaf:" for no entry, "head:CURSOR" and the ETag of a reply, or a list of them',
            leaf=leaf,
            cursor=cursor,
        )


def _holds(state: AppendOptions, session: Session) -> bool:
    leaf, seq = session.leaf_id, session.cursor.seq
    return state.get("expected_leaf", leaf) == leaf and state.get("expected_seq", seq) == seq


async def _wanted(call: Call[object, object], session: Session) -> AppendOptions:
    """Return the state that the If-Match of a request names: if it is a list, one that holds, if any does."""
    given = call.header(b"if-match")
    if given is None or given.strip() == "*":
        return {}
    tags = _TAG.findall(given) or [""]
    if len(tags) > 1:  # the session's actor checks one alone
        await session.refresh()
    states = [_state(as_sent(tag).strip('"'), session) for tag in tags]
    return next((each for each in states if _holds(each, session)), states[-1])


def state_tag(session: Session) -> str:
    """Return the tag of a session's state: its generation, head and leaf."""
    return f"{session.cursor}/{quote(session.leaf_id or '', safe='')}"
