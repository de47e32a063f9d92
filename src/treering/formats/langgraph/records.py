"""The checkpoints of a LangGraph thread as entries: what the custom entries hold, and what a checkpoint changes.

A checkpoint is a custom entry below that of its parent. Its values are stored as what differs from the parent's: a list
that grew costs what was added to it. The messages of a list stand before the checkpoint as messages; the checkpoint
itself keeps its own bytes of them, by which it is read back exactly.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ...events.entries import Message
from .messages import Value, decode, message_of

CHECKPOINT = "langgraph.checkpoint"
WRITES = "langgraph.writes"
HIDDEN = "langgraph.hidden"
"""The types of the custom entries: a checkpoint; what tasks wrote after it; checkpoints that are shown no more."""

_encode = msgspec.msgpack.Encoder().encode

DEPTH_MAX = 128
LENGTH_PER_DEPTH = 8
"""Of how many checkpoints a list is made at most, or of an eighth of its length if that is more. Then it is stored
whole, so that reading it costs what it holds, and all that is stored of it grows with its length nevertheless."""

Typed: TypeAlias = tuple[str, str]
"""A value as LangGraph's serializer gives it: a type, and its bytes in base64."""


class Whole(Struct, frozen=True, tag_field="form", tag="whole"):
    """A value by itself."""

    value: Typed


class Grown(Struct, frozen=True, tag_field="form", tag="grown"):
    """A list that begins as the parent's did: so many of its elements, and then others."""

    keep: int
    add: tuple[Typed, ...]


class Record(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a custom entry holds of a checkpoint.

    Attributes:
        namespace: The namespace; sub-graphs have their own.
        id: The checkpoint's id; later ones have greater ones.
        parent: The id of the one before it in the namespace.
        checkpoint: The checkpoint without its values.
        metadata: Its metadata.
        run_id: The run that made it.
        values: What differs from the values of the parent.
        same: The channels whose values are the parent's.
    """

    namespace: str = ""
    id: str
    parent: str | None = None
    checkpoint: Typed
    metadata: Typed
    run_id: str | None = None
    values: dict[str, Whole | Grown] = {}
    same: tuple[str, ...] = ()


class Written(Struct, frozen=True, omit_defaults=True):
    """What a custom entry holds of the writes of a task: their places, channels and values."""

    namespace: str
    id: str
    task_id: str
    task_path: str
    writes: tuple[tuple[int, str, Typed], ...]


class Hidden(Struct, frozen=True):
    """What a custom entry holds of checkpoints that are shown no more."""

    checkpoints: tuple[tuple[str, str], ...]


class Change(NamedTuple):
    """How a value differs from the parent's: what is stored of it, and how many elements of a list are the parent's."""

    stored: Whole | Grown
    keep: int = 0


def change_of(new: Typed | list[Typed], old: Typed | Sequence[Typed] | None, depth: int) -> Change | None:
    """Return how a value differs from the parent's; None if it does not.

    Args:
        new: The value, or the elements of a list.
        old: The parent's; None if it has none.
        depth: Of how many checkpoints the parent's is made.
    """
    if new == old:
        return None
    if not isinstance(new, list):
        return Change(Whole(new))
    keep = _common(old, new) if isinstance(old, list) else 0
    start = 0 if depth >= max(DEPTH_MAX, len(new) // LENGTH_PER_DEPTH) else keep
    return Change(Grown(start, tuple(new[start:])), keep)


def shown_messages(channel: str, added: Sequence[object], first: int) -> Iterator[Message]:
    """Yield the messages among the elements that a list has from one on, with their places in it."""
    for at, value in enumerate(added, first):
        message = message_of(value)
        if message is not None:
            metadata = Raw(msgspec.json.encode({"langgraph": {"channel": channel, "at": at}}))
            yield msgspec.structs.replace(message, raw_metadata=metadata)


def _common(old: Sequence[Typed], new: Sequence[Typed]) -> int:
    """Return how many elements two lists have in common at their beginnings."""
    for at, (one, other) in enumerate(zip(old, new, strict=False)):
        if one != other:
            return at
    return min(len(old), len(new))


# -- values as the serializer writes them


class Unreadable(Exception):  # it says what a value is
    """A value that cannot be read without what wrote it, such as one that is encrypted or pickled."""


def load(kind: str, data: bytes) -> Value:
    """Return a stored value.

    Raises:
        Unreadable: It is of a kind that cannot be read, or damaged.
    """
    if kind == "msgpack":
        try:
            return decode(data)
        except (msgspec.DecodeError, RecursionError, TypeError, ValueError) as error:
            raise Unreadable(f"it is damaged ({error})") from error
    if kind == "json":
        try:
            return msgspec.json.decode(data)
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"it is damaged ({error})") from error
    raise Unreadable(f"it is of the kind {kind!r}, which only its program can read")


def dump(value: Value, kind: str = "msgpack") -> Typed:
    """Return a value as LangGraph's serializer writes it.

    Args:
        value: The value.
        kind: The kind of the value that it was a part of.
    """
    if value is None:
        return "null", ""
    if isinstance(value, bytes):
        return "bytes", b64encode(value).decode()
    return kind, b64encode(msgspec.json.encode(value) if kind == "json" else _encode(value)).decode()
