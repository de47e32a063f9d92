"""What a request says, within bounds: its head, its path, its query and its body."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import anyio
from msgspec import Struct
from starlette.requests import Request
from starlette.types import Message, Receive, Scope

from ...events.errors import TooLarge
from .limits import ServerLimits
from .problems import Malformed
from .uploads import Upload, received, remove
from .wire import parse, read, read_query

_NAMES_MAX = 100
_PREFERENCE = re.compile(r'(?:"(?:\\.?|[^"\\])*(?:"|$)|[^,"])+')
_TOLD = re.compile(r'\s*([^\s=;"]+)\s*=\s*"?([^\s;"]*)')
_JSON = b"application/json"
_PLAIN = (_JSON, b"application/json; charset=utf-8")
_NO_EXTENSIONS: Mapping[str, dict[str, bytes]] = {}
_BODY_TOO_LARGE = "the body is larger than the server accepts: GET /v1 tells the bounds"


class Incoming:
    """A request as it comes in.

    Args:
        scope: What ASGI says of it.
        receive: Receives its body.
        limits: The bounds.

    Attributes:
        headers: Its headers, by their names in lower case.
        scope: What ASGI says of it.
        whole: The bytes of its body, once it was read as a whole.
        uploaded: The file that its body is, once it was received.
    """

    __slots__ = ("_left", "_limits", "_receive", "headers", "scope", "uploaded", "whole")

    def __init__(self, scope: Scope, receive: Receive, limits: ServerLimits) -> None:
        self.scope = scope
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        if len(self.headers) < len(scope["headers"]):  # lines of one name are one list (RFC 9110, 5.3)
            self.headers = {
                name: b", ".join(v for each, v in scope["headers"] if each == name) for name in self.headers
            }
        self._receive = receive
        self._limits = limits
        self._left = 0
        self.whole: bytes | None = None
        self.uploaded: Upload | None = None

    def request(self) -> Request:
        """Return the request as starlette sees it, for what is asked of it seldom."""
        return Request(self.scope, self.receive)

    def preferred(self, name: str) -> str | None:
        """Return what the client prefers (RFC 7240) of a name, in lower case; the first, if it says several."""
        for each in _PREFERENCE.findall(self.headers.get(b"prefer", b"").decode("latin-1").lower()):
            if (told := _TOLD.match(each)) is not None and told[1] == name:
                return told[2]
        return None

    def raw_path(self) -> bytes:
        """Return the path below that of a mounted application, percent-encoded."""
        scope = self.scope
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        root_path = scope.get("root_path")
        if not root_path:
            return raw
        root = root_path.encode()
        raw = raw.removeprefix(root)
        return raw.removeprefix(root) if raw.startswith(root + b"/") else raw  # a proxy may pass it on, too

    def check_head(self) -> None:
        """Refuse a request whose head is too large.

        Raises:
            TooLarge: Its address or its headers exceed their bound.
        """
        limits, scope = self._limits, self.scope
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if size > limits.url_bytes_max:
            raise TooLarge(
                f"the address has {size} bytes, more than `url_bytes_max` ({limits.url_bytes_max})", status=414
            )
        size = 0
        for name, value in scope["headers"]:
            size += len(name) + len(value) + 4
        if size > limits.header_bytes_max:
            raise TooLarge(
                f"the headers have {size} bytes, more than `header_bytes_max` ({limits.header_bytes_max})", status=431
            )

    def query(self, kind: type[Struct]) -> Struct:
        """Return the query, as a type.

        Raises:
            Malformed: It is something else.
        """
        if kind.__struct_fields__:
            return read_query(self._fields(), kind)
        if self.scope["query_string"]:
            raise Malformed("this request takes no query")
        return kind()

    def _fields(self) -> dict[str, list[str]]:
        try:
            text = self.scope["query_string"].decode("ascii")
            return parse_qs(
                text, keep_blank_values=True, strict_parsing=bool(text), errors="strict", max_num_fields=_NAMES_MAX
            )
        except ValueError as error:
            raise Malformed("the query cannot be read: send `name=value`, percent-encoded as UTF-8") from error

    async def body(self, kind: Any, *, converted: bool = True) -> Any:  # noqa: ANN401  # any annotation, and that
        """Return the body.

        Args:
            kind: Its type; None if there is to be none, `bytes` if it is a file, see `upload`.
            converted: Whether to return the type, and not the JSON value.

        Raises:
            Malformed: It is something else.
            TooLarge: It is larger than the route takes.
            ConnectionError: The client left.
        """
        limits = self._limits
        self._left = limits.import_bytes_max if kind is bytes else limits.body_bytes_max
        length = self.headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._left:
            raise TooLarge(f"the body has {length.decode()} bytes, more than the server accepts ({self._left})")
        if kind is bytes:
            return None
        whole = self.scope.get("extensions", _NO_EXTENSIONS).get("treering.whole")
        if whole is None:
            body = await self._whole()
        else:
            body = bytes(whole["body"])
            if len(body) > self._left:
                raise TooLarge(_BODY_TOO_LARGE)
        self.whole = body
        if kind is None:
            if body.strip() not in (b"", b"{}"):
                raise Malformed("this request takes no body")
            return None
        self._check_coding()
        return read(body or b"{}", kind, limits.depth_max) if converted else parse(body, limits.depth_max)

    def _check_coding(self) -> None:
        media_type = self.headers.get(b"content-type", _JSON)
        if media_type not in _PLAIN:
            media_type = media_type.partition(b";")[0].strip().lower()
            if media_type != _JSON:
                shown = media_type[:100].decode("latin-1")
                raise Malformed(f"the body is {shown!r}: send application/json", status=415)
        if self.headers.get(b"content-encoding", b"identity") != b"identity":
            raise Malformed("the body is compressed: send it as it is", status=415)

    async def _whole(self) -> bytes:
        """Receive the whole body, which comes in pieces.

        Raises:
            ConnectionError: The client left.
        """
        pieces: list[bytes] = []
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ConnectionResetError("the client left before its request was whole")
            pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(pieces)

    async def upload(self) -> Upload:
        """Return the file that the request sends, which is there until `discard`, however often it is asked for.

        Raises:
            TooLarge: It is larger than the server accepts.
            ConnectionError: The client left.
        """
        if self.uploaded is None:
            self.uploaded = await received(self.receive)
        return self.uploaded

    async def discard(self) -> None:
        """Remove the file that the request has sent."""
        if self.uploaded is not None:
            await remove(self.uploaded.path.parent)

    async def receive(self) -> Message:
        """Receive a piece of the body, within the bounds on its size and on silence; or learn that the client left."""
        message: Message | None = None
        if self.whole is not None or "treering.whole" in self.scope.get("extensions", ()):  # all of it has arrived
            message = await self._receive()
        else:
            with anyio.move_on_after(self._limits.body_for_s):
                message = await self._receive()
        if message is None:
            raise Malformed(f"no byte of the body came for {self._limits.body_for_s:g} s", status=408)
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise TooLarge(_BODY_TOO_LARGE)
        return message
