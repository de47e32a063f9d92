"""Keys: the names under which programs ask for conversations, and what the files of those are called.

A key is whatever a program calls a conversation by: `telegram:123456`, `agent:main:telegram:-100123`. It stands letter
for letter in the session's header. The session's id, and so the name of its file, is made of it:

    telegram:123456       telegram_123456.jsonl
    telegram:-100123      telegram_-100123.jsonl
    a:b                   a_b.jsonl
    a_b                   a_b~648fa9b31bc7ff7e.jsonl
    a/b                   a_b~c14cddc033f64b9d.jsonl

Keys of lower-case letters, digits, `.`, `-` and `:` are plain: their `:` becomes `_`, and no two of them meet. Every
other key has a part of its hash behind a `~`, which no plain name holds: capitals too, since some file systems take
them for small letters. Two keys whose hashes agree would still not share a session, since the header is looked at.
"""

from __future__ import annotations

import re
from hashlib import sha256

from msgspec import Struct

from ..events.errors import InvalidSessionId

KEY_BYTES_MAX = 1024
"""How long a key may be, in bytes of UTF-8."""

AGENT = "agent"
"""How keys of one agent's conversations begin."""

_PLAIN = re.compile(r"[a-z0-9:-][a-z0-9.:-]{0,119}")
_STEM_MAX = 120  # what stands beside a file has a longer name than the file, and 255 bytes are all there is
_HASH_DIGITS = 16
_REPLACED = re.compile(r"[^A-Za-z0-9.-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")  # files that Windows does not let anybody make


class SessionKey(Struct, frozen=True):
    """A key in its parts: `telegram:123456`, or with an agent `agent:main:telegram:123456`.

    Keys need not have this form; it is what chat programs use. `str(key)` is the key itself.

    Attributes:
        channel: Where the conversation is held, without a colon; not "agent".
        chat_id: Which conversation of the channel it is; a group's may be negative, some hold colons.
        agent: Whose conversation it is, without a colon, where several agents share the channel.
    """

    channel: str
    chat_id: str
    agent: str | None = None

    def __post_init__(self) -> None:
        parts = (self.channel, self.chat_id) if self.agent is None else (self.agent, self.channel, self.chat_id)
        if not all(parts) or any(":" in part for part in parts[:-1]) or self.channel == AGENT:
            raise InvalidSessionId(
                f"{':'.join(parts)!r} is no key of a channel: write channel:chat or {AGENT}:name:channel:chat, "
                "with no part empty"
            )

    def __str__(self) -> str:
        key = f"{self.channel}:{self.chat_id}"
        return key if self.agent is None else f"{AGENT}:{self.agent}:{key}"

    @classmethod
    def parse(cls, key: str) -> SessionKey:
        """Take a key apart.

        Raises:
            InvalidSessionId: It has not the form of a channel's key.
        """
        first, _, rest = key.partition(":")
        if first != AGENT:
            return cls(first, rest)
        agent, _, rest = rest.partition(":")
        channel, _, chat_id = rest.partition(":")
        return cls(channel, chat_id, agent)


def checked_key(key: str) -> str:
    """Return a key that a session can be asked for by.

    Raises:
        InvalidSessionId: It is empty, a name of directories, too long, or no valid Unicode.
    """
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidSessionId(f"{key!r} is no key: give a string; that of a `SessionKey` is `str(key)`")
    if not key or key in (".", ".."):
        raise InvalidSessionId(f"{key!r} is no key: give a name, such as telegram:123456")
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise InvalidSessionId(f"the key {key[:40]!r} holds half a character: give valid Unicode") from error
    if size > KEY_BYTES_MAX:
        raise InvalidSessionId(f"the key {key[:40]!r}... takes {size} bytes: {KEY_BYTES_MAX} are allowed")
    return key


def id_of_key(key: str) -> str:
    """Return the id of the session that a key means, which is the name of its file without the ending.

    Raises:
        InvalidSessionId: It is no key.
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
