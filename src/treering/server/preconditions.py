"""What a request relies on: its Idempotency-Key and its If-Match, and the tags by which it names a state."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from ..actors.commands import AppendOptions
from ..actors.session.session import Session
from .http.fields import CURSOR_PATTERN, cursor_of
from .http.problems import Stale
from .routing import Call, as_sent

REPEATED = {"Idempotent-Replayed": "true"}
"""The header of a reply to a request that had been carried out before."""


def append_options(call: Call[object, object], session: Session) -> AppendOptions:
    """Return what an append of a request relies on: its Idempotency-Key and its If-Match.

    The session's actor checks both at the moment of the append, the key first: a repeated request gets its old reply,
    whatever the state is now.

    A tag that is no state of this log matches nothing.
    """
    options: AppendOptions = {}
    if call.key is not None:
        options["command_id"] = call.key
    tag = _wanted(call)
    return options if tag is None else options | _state(tag, session)


def _state(tag: str, session: Session) -> AppendOptions:
    """Return the state that a tag names; see `append_options`."""
    if tag.startswith("leaf:"):
        return {"expected_leaf": unquote(tag.removeprefix("leaf:")) or None}
    text, *leaf = tag.removeprefix("head:").split("/")  # and what was read in that state
    if re.fullmatch(CURSOR_PATTERN, text) and (cursor := cursor_of(text)).generation == session.cursor.generation:
        state: AppendOptions = {"expected_seq": cursor.seq}
        return state | {"expected_leaf": unquote(leaf[0]) or None} if leaf else state
    return {"expected_leaf": tag}  # which is no entry's id


def check_match(call: Call[object, object], session: Session) -> None:
    """Refuse a request that is no append if its If-Match names another leaf or head than the session has.

    Raises:
        Stale: It does; the error says what they are now.
    """
    tag, leaf, seq = _wanted(call), session.leaf_id, session.cursor.seq
    if tag is not None:
        state = _state(tag, session)
        if state.get("expected_leaf", leaf) != leaf or state.get("expected_seq", seq) != seq:
            cursor = str(session.cursor)
            raise Stale(
                f"the session is not at {tag!r}: its leaf is {leaf!r}, its head {cursor!r}, and If-Match takes one of "
                f'"leaf:ENTRY", "leaf:" for no entry, "head:CURSOR" and the ETag of a reply',
                leaf=leaf,
                cursor=cursor,
            )


def _wanted(call: Call[object, object]) -> str | None:
    """Return the state that the If-Match of a request names, without quotes."""
    given = call.header(b"if-match")
    if given is None or given.strip() == "*":
        return None
    return as_sent(given).strip('"')


def state_tag(session: Session) -> str:
    """Return the tag of a session's state: its generation, head and leaf."""
    return f"{session.cursor}/{quote(session.leaf_id or '', safe='')}"
