"""LangGraph's values as its serializer writes them, read and written without it, and without making anything of them.

A value is a type and bytes: "msgpack" as a rule. An object in it is an extension that names a class and what that is
made with. It is passed on as it is: whatever a file says, nothing in it is imported or called. Only of messages is
looked at what they hold.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TypeAlias

import msgspec
from msgspec.msgpack import Ext

from .records import Typed

Value: TypeAlias = object
"""A value, in which objects are extensions."""

_PYDANTIC = 5  # LangGraph's number of the extension for a model: its module, its name, its fields, ...
_MESSAGES = "langchain_core.messages"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ext_hook=lambda code, data: Ext(code, bytes(data))).decode


class Unreadable(Exception):  # it says what a value is
    """A value that cannot be read without what wrote it, such as one that is encrypted or pickled."""


def load(kind: str, data: bytes) -> Value:
    """Return a stored value.

    Raises:
        Unreadable: It is of a kind that cannot be read, or damaged.
    """
    if kind == "msgpack":
        try:
            return _decode(data)
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


def shown(value: Value) -> Value:
    """Return a message with what it holds; anything else as it is."""
    fields: object = None
    if isinstance(value, Ext) and value.code == _PYDANTIC:
        try:
            parts = _decode(value.data)
        except (msgspec.DecodeError, RecursionError, TypeError, ValueError):
            return value
        if isinstance(parts, list) and len(parts) > 2 and str(parts[0]).startswith(_MESSAGES):
            fields = parts[2]
    elif isinstance(value, Mapping) and value.get("type") == "constructor":  # of early versions
        named = value.get("id")
        if isinstance(named, list) and named[:1] in (["langchain"], ["langchain_core"]):
            fields = value.get("kwargs")
    return SimpleNamespace(**{str(name): each for name, each in fields.items()}) if isinstance(fields, dict) else value
