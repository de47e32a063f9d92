"""The messages of the protocol: JSON-RPC 2.0, one message at a time, and the versions that are spoken.

A client of the versions up to 2025-11-25 begins with `initialize`, which settles the version of a connection. One of
2026-07-28 names the version in each request, and begins with `server/discover` or without any greeting.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from ..events.json_values import JSON

GREETED_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions whose clients begin with `initialize`, oldest first."""

MODERN_VERSION = "2026-07-28"
"""The version that each request names by itself."""

VERSIONS = (*GREETED_VERSIONS, MODERN_VERSION)
"""All versions that are spoken."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022

_PREFIX = "io.modelcontextprotocol/"
_VERSION_KEY = f"{_PREFIX}protocolVersion"
SUBSCRIPTION_KEY = f"{_PREFIX}subscriptionId"
"""Under which key of `_meta` a notification says to which request of a listener it belongs."""

ID_MAX = 2**53
"""The largest number that may be an id."""

Id: TypeAlias = str | int
Params: TypeAlias = dict[str, JSON]


class Refused(Exception):
    """A request that the protocol has an error for.

    Args:
        code: The code of the error.
        message: What is wrong, and what to do.
        data: What the code says beside it.
    """

    def __init__(self, code: int, message: str, data: dict[str, object] | None = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(message)


class Message(Struct, frozen=True):
    """What a client sends: a request, or without an id a notification.

    Attributes:
        method: What to do, or what happened.
        params: The parameters.
        id: The id of a request.
        version: The version that the message names; None for that of its connection.
    """

    method: str
    params: Params
    id: Id | None
    version: str | None

    @property
    def is_modern(self) -> bool:
        """Whether it is of a version that needs no greeting."""
        return self.version is not None


class RpcError(Struct, frozen=True, omit_defaults=True):
    """Why a request has no result."""

    code: int
    message: str
    data: dict[str, Any] | UnsetType = UNSET  # what the code says beside it


class RpcReply(Struct, frozen=True, kw_only=True):
    """The answer to a request: its result or its error."""

    jsonrpc: str = "2.0"
    id: Id | None
    result: dict[str, Any] | UnsetType = UNSET  # that of the method
    error: RpcError | UnsetType = UNSET


class Notification(Struct, frozen=True, kw_only=True):
    """What a server says unasked."""

    jsonrpc: str = "2.0"
    method: str
    params: dict[str, Any]  # those of the method


def failed(id_: Id | None, error: Refused) -> RpcReply:
    """Return the answer to a request that is refused."""
    return RpcReply(id=id_, error=RpcError(error.code, error.message, UNSET if error.data is None else error.data))


def id_of(value: JSON) -> Id | None:
    """Return the id of a message, if it has a proper one, so that it can be refused by it."""
    found = value.get("id") if isinstance(value, dict) else None
    if isinstance(found, float) and found.is_integer():  # as JSON has it, 3.0 is a whole number
        found = int(found)
    if isinstance(found, int):
        return found if not isinstance(found, bool) and abs(found) <= ID_MAX else None
    return found if isinstance(found, str) else None


def read(value: JSON) -> Message | None:
    """Return the message that a JSON value is; None for an answer, which nothing here waits for.

    Raises:
        Refused: It is none.
    """
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise Refused(INVALID_REQUEST, 'a message is one JSON object with `"jsonrpc": "2.0"`')
    if "method" not in value and ("result" in value or "error" in value):
        return None
    method, params = value.get("method"), value.get("params", {})
    if not isinstance(method, str) or not isinstance(params, dict):
        raise Refused(INVALID_REQUEST, "a message has a `method`, a text, and `params`, an object")
    if "id" in value and id_of(value) is None:
        raise Refused(
            INVALID_REQUEST, "the `id` of a request is a text, or a whole number that all JSON readers can hold"
        )
    return Message(method, params, id_of(value), _version_of(params))


def _version_of(params: Params) -> str | None:
    meta = params.get("_meta")
    version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
    if version is None:
        return None
    if not isinstance(version, str):
        raise Refused(INVALID_PARAMS, f"`_meta` has `{_VERSION_KEY}`, which is no text")
    if version != MODERN_VERSION:
        told: dict[str, object] = {"supported": [MODERN_VERSION], "requested": version}
        raise Refused(UNSUPPORTED_VERSION, f"the version {version[:40]!r} is not spoken here", told)
    return version
