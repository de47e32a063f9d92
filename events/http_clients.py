"""What clients of HTTP share: which certificates they trust, and server-sent events, as they come in a stream.

To read the certificates of the machine's authorities takes longer than many requests, so that nothing here makes a
client that reads them in vain. An event is a block of lines; one that was cut off before its blank line is discarded:

    id: 17-2f81a.9c01e77b.0
    event: entry
    data: {"type":"message", ...}
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from .errors import Unavailable

EVENT_BYTES_MAX = 64 * 1024 * 1024
"""The most bytes of one event that are held: no entry or answer comes near it, and no server may exhaust the memory."""


def verify_for(url: str) -> ssl.SSLContext | bool:
    """Return the argument `verify` of a client of httpx2 for the servers of an address.

    Args:
        url: The address. Without TLS nobody is trusted, and a client for it refuses every server that has TLS.
    """
    return True if urlsplit(url).scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Event(NamedTuple):
    """One event: its kind, the place after it, if it has one, and its data."""

    event: str
    id: str | None
    data: bytes


class Events:
    """Takes events from the pieces of a stream."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._held = 0
        self._lines: list[bytes] = []

    def take(self, piece: bytes) -> Iterator[Event]:
        """Yield the events that a piece completes.

        Raises:
            Unavailable: An event is larger than any that a server sends.
        """
        self._held += len(piece)
        if self._held > EVENT_BYTES_MAX:
            raise Unavailable(f"the server sent an event of more than {EVENT_BYTES_MAX} bytes: the stream was left")
        end, *others = piece.split(b"\n")
        self._rest.append(end)
        if not others:
            return
        *lines, rest = b"".join(self._rest), *others
        self._rest = [rest]
        for line in lines:
            if line and line != b"\r":
                self._lines.append(line.removesuffix(b"\r"))
            elif self._lines:
                event = _event(self._lines)
                self._lines = []
                if event is not None:
                    yield event
        self._held = len(rest) + sum(map(len, self._lines))


def _event(lines: list[bytes]) -> Event | None:
    """Return the event of a block; None if it has no data, as a comment has not."""
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        fields[name] = fields[name] + b"\n" + value if name == b"data" and b"data" in fields else value
    if b"data" not in fields:
        return None
    place = fields.get(b"id")
    kind = fields.get(b"event", b"message")
    return Event(_text(kind), None if place is None else _text(place), fields[b"data"])


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
