"""The names of sessions and of their logs, and the keys by which programs identify conversations.

A key is any name that a program uses for a conversation: `telegram:123456`, `agent:main:telegram:-100123`. The
session's header holds it verbatim. The session's id, and so the name of its file, is derived from it:

    telegram:123456       telegram_123456.jsonl
    telegram:-100123      telegram_-100123.jsonl
    a:b                   a_b.jsonl
    a_b                   a_b~648fa9b31bc7ff7e.jsonl
    a/b                   a_b~c14cddc033f64b9d.jsonl

Keys of lower-case letters, digits, `.`, `-` and `:` are plain: their `:` becomes `_`, and no two of them collide. Every
other key gets a part of its hash after a `~`, which no plain name contains. Keys with capitals are not plain either,
since some file systems ignore case. Two keys with the same hash would still not share a session, since the header is
compared too.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from typing import cast

from msgspec import Struct

from ...events.dialects.base import Dialect
from ...events.dialects.detect import dialect_named
from ...events.entries import Header
from ...events.errors import InvalidInput, InvalidSessionId
from ...events.stores.base import Ref

SUFFIX = ".jsonl"
"""The suffix of a log's name."""

_ID_BYTES_MAX = 255 - len(SUFFIX)
_NEW_ID_BYTES_MAX = 180  # leaves room for the time in pi's file names, and for the longer names of files beside a log


def current(dialect: Dialect) -> Dialect:
    """Return the current version of a dialect, to which a log of an older version is migrated."""
    return dialect_named(dialect.name) if dialect.old else dialect


def checked_id(session_id: str, *, is_new: bool = False) -> str:
    """Return a session id after checking that it can name a file.

    Args:
        session_id: The id.
        is_new: Whether a session is to be created with this id; the names of its files are then limited, too.

    Raises:
        InvalidSessionId: It is not a string, empty, too long, "." or "..", or contains a separator or a control
            character.
    """
    if not isinstance(session_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidSessionId(f"{session_id!r} is not a session id: give a string")
    if not session_id or session_id in (".", ".."):
        raise InvalidSessionId(f"{session_id!r} is not a session id: give one that can name a file")
    bytes_max = _NEW_ID_BYTES_MAX if is_new else _ID_BYTES_MAX
    if len(session_id.encode("utf-8", "surrogatepass")) > bytes_max:
        raise InvalidSessionId(f"the session id {session_id[:40]!r}... is longer than {bytes_max} bytes: shorten it")
    forbidden = next(
        (char for char in session_id if char in "/\\" or ord(char) < 32 or 0xD800 <= ord(char) < 0xE000), None
    )
    if forbidden is not None:
        raise InvalidSessionId(
            f"the session id {session_id!r} contains {forbidden!r}: leave out separators and control characters"
        )
    return session_id


def checked_path(path: str | os.PathLike[str]) -> str:
    """Return a path as a string, with a `~` at its beginning expanded.

    Raises:
        InvalidInput: It is not a path, is empty, is given as bytes, or contains what no path can.
    """
    value = cast("object", path)  # callers without a type checker may pass anything
    text: object = os.fspath(cast("os.PathLike[str]", value)) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise InvalidInput(f"{path!r} is not a path: give a string or a `pathlib.Path`")
    if not text:  # often a variable that is not set; as a path, it would silently mean the current directory
        raise InvalidInput("'' is not a path: give '.' for the current directory")
    try:
        impossible = b"\0" in os.fsencode(text)
    except UnicodeEncodeError:
        impossible = True
    if impossible:
        raise InvalidInput(f"{text!r} is not a path: leave out null characters and lone surrogates")
    return os.path.expanduser(text)


def absolute(folder: str | os.PathLike[str]) -> str:
    """Return the absolute path of a folder, as stored in headers, so that it means the same wherever it is read.

    Links and letter case are kept as written.

    Raises:
        InvalidInput: It is not a path.
    """
    return os.path.abspath(checked_path(folder))


def ref_of_key(key: str) -> Ref:
    """Return the name of the log of a key's session.

    Raises:
        InvalidSessionId: The key is invalid.
    """
    return id_of_key(key) + SUFFIX


def new_ref(dialect: Dialect, header: Header) -> Ref:
    """Return the name of the log of a new session: derived from its key, or as its dialect names files."""
    if header.key is not None:
        return ref_of_key(header.key)
    return dialect.file_name(header)


KEY_BYTES_MAX = 1024
"""The maximum length of a key, in bytes of UTF-8."""

AGENT = "agent"
"""The prefix of the keys of an agent's conversations."""

_FORM = f"write channel:chat or {AGENT}:name:channel:chat, with no part empty"
_PLAIN = re.compile(r"[a-z0-9:-][a-z0-9.:-]{0,119}")
_STEM_MAX = 120  # leaves room for the longer names of files beside it, within the 255 bytes of a name
_HASH_DIGITS = 16
_REPLACED = re.compile(r"[^A-Za-z0-9.-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")  # file names that Windows reserves


class SessionKey(Struct, frozen=True):
    """A key in its parts: `telegram:123456`, or with an agent `agent:main:telegram:123456`.

    Keys need not have this form; it is what chat programs use. `str(key)` is the key itself.

    Attributes:
        channel: Where the conversation is held, without a colon; not "agent".
        chat_id: The conversation within the channel; a group's may be negative, some contain colons.
        agent: The agent that the conversation belongs to, without a colon, if several agents share the channel.
    """

    channel: str
    chat_id: str
    agent: str | None = None

    def __post_init__(self) -> None:
        parts = (self.channel, self.chat_id) if self.agent is None else (self.agent, self.channel, self.chat_id)
        if not all(parts) or any(":" in part for part in parts[:-1]) or self.channel == AGENT:
            raise InvalidSessionId(f"{parts!r} are not the parts of a channel's key: {_FORM}")

    def __str__(self) -> str:
        key = f"{self.channel}:{self.chat_id}"
        return key if self.agent is None else f"{AGENT}:{self.agent}:{key}"

    @classmethod
    def parse(cls, key: str) -> SessionKey:
        """Parse a key into its parts.

        Raises:
            InvalidSessionId: It does not have the form of a channel's key.
        """
        first, _, rest = key.partition(":")
        agent = None
        if first == AGENT:
            agent, _, rest = rest.partition(":")
            first, _, rest = rest.partition(":")
        try:
            return cls(first, rest, agent)
        except InvalidSessionId:
            raise InvalidSessionId(f"{key!r} is not the key of a channel: {_FORM}") from None


def checked_key(key: str) -> str:
    """Return a key after checking that it is valid.

    Raises:
        InvalidSessionId: It is empty, "." or "..", too long, or not valid Unicode.
    """
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidSessionId(f"{key!r} is not a key: give a string; for a `SessionKey` that is `str(key)`")
    if not key or key in (".", ".."):
        raise InvalidSessionId(f"{key!r} is not a key: give a name, such as telegram:123456")
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise InvalidSessionId(f"the key {key[:40]!r} contains a lone surrogate: give valid Unicode") from error
    if size > KEY_BYTES_MAX:
        raise InvalidSessionId(f"the key {key[:40]!r}... takes {size} bytes: at most {KEY_BYTES_MAX} are allowed")
    return key


def id_of_key(key: str) -> str:
    """Return the id of a key's session, which is its file name without the suffix.

    Raises:
        InvalidSessionId: The key is invalid.
    """
    checked_key(key)
    if _PLAIN.fullmatch(key) and not key.endswith(".jsonl"):
        plain = key.replace(":", "_")
        if not _RESERVED.fullmatch(plain):
            return plain
    shown = _REPLACED.sub("_", key)[: _STEM_MAX - _HASH_DIGITS - 2]
    if shown.startswith(".") or _RESERVED.fullmatch(shown.lower()):
        shown = "_" + shown
    return f"{shown}~{sha256(key.encode()).hexdigest()[:_HASH_DIGITS]}"
