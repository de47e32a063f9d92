"""Routes of the Model Context Protocol, by which agents look up sessions; see `treering.mcp`.

A client that says hello gets an id for what it follows, and hears of it on a stream of its own. One that names the
version in each request needs neither: it listens by a request.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from ...events.errors import Conflict
from ...events.json_values import JSON
from ...mcp.listening import LISTEN, Listener
from ...mcp.messages import (
    GREETED_VERSIONS,
    HEADER_MISMATCH,
    ID_MAX,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODERN_VERSION,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Message,
    Notification,
    Refused,
    RpcReply,
    failed,
    id_of,
    read,
)
from ...mcp.peer import Peer
from ...mcp.resources import Following
from ..event_stream import Bye, EventStream, Push
from ..http.blocks import block
from ..http.problems import Malformed
from ..http.wire import encode
from ..mcp.reach import PrincipalReach
from ..routing import Call, Nothing, Reply, Routes
from ..waiting import while_there

routes = Routes()

_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The status of an error to a client that names the version in each request."""

_WHEREVER = (INVALID_REQUEST, HEADER_MISMATCH, UNSUPPORTED_VERSION)
"""The errors that have their status for every client."""

_NAMED_BY = {"tools/call": "name", "resources/read": "uri"}
"""Which parameter of a method the header Mcp-Name repeats."""


class RpcMessage(Struct, frozen=True, kw_only=True):
    """A message of JSON-RPC: a request, or a notification if it has no id."""

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] = {}  # those of the method
    id: str | Annotated[int, Meta(ge=-ID_MAX, le=ID_MAX)] | UnsetType = UNSET


@routes.add(
    "POST",
    "/mcp",
    right="read",
    body=RpcMessage,
    handler_converts=True,
    reply=RpcReply,
    refusal=RpcReply,
    media_types=("text/event-stream",),
    empty_statuses=(202,),
)
async def ask_mcp(call: Call[Nothing, JSON]) -> Reply | EventStream:
    """Answer a message of the Model Context Protocol: tools to search, list, read and label, sessions as resources."""
    reach = PrincipalReach(call.service, call.principal)
    try:
        message = read(call.body)
        if message is None:
            return Reply(status=202)
        _check_headers(call, message)
        if message.id is None:
            return Reply(status=202)
        if message.method == LISTEN and message.is_modern:
            return await _listen(call, reach, message)
    except Refused as error:
        return Reply(failed(id_of(call.body), error), status=_STATUS.get(error.code, 200))
    headers: dict[str, str] = {}
    following: Following | None = None
    client_id = call.header(b"mcp-session-id")
    if message.method == "initialize":
        headers["Mcp-Session-Id"], following = call.service.mcp_clients.greet(call.principal)
    elif client_id is not None and not message.is_modern:
        following = call.service.mcp_clients.find(call.principal, client_id)
    async with while_there(call):
        answer = await Peer(reach, following).answer_to(message)
    status = 200
    if isinstance(answer.error, Struct) and (message.is_modern or answer.error.code in _WHEREVER):
        status = _STATUS.get(answer.error.code, 200)
    return Reply(answer, status=status, headers=headers)


def _check_headers(call: Call[Nothing, JSON], message: Message) -> None:
    """Refuse a message of which its headers say another thing.

    Raises:
        Refused: They do, and a proxy may have believed them.
        Malformed: They name a version that is not spoken.
    """
    version = call.header(b"mcp-protocol-version")
    if not message.is_modern:
        if version is not None and version not in GREETED_VERSIONS:
            raise Malformed(f"the MCP-Protocol-Version {version[:40]!r} is not spoken: {', '.join(GREETED_VERSIONS)}")
        return
    named = _NAMED_BY.get(message.method)
    told = call.header(b"mcp-name")
    if (
        version != MODERN_VERSION
        or call.header(b"mcp-method") != message.method
        or (named is not None and (told is None or _decoded(told) != message.params.get(named)))
    ):
        raise Refused(HEADER_MISMATCH, "MCP-Protocol-Version, Mcp-Method and Mcp-Name repeat what the message says")


def _decoded(text: str) -> str | None:
    """Return a header's value, of which what is not plain ASCII is sent as `=?base64?...?=`."""
    if not (text.startswith("=?base64?") and text.endswith("?=")):
        return text
    try:
        return base64.b64decode(text[len("=?base64?") : -len("?=")], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


async def _listen(call: Call[Nothing, JSON], reach: PrincipalReach, message: Message) -> EventStream:
    call.service.check_room_for_stream(call.principal)
    listener = Listener(reach, message)
    await listener.begin()

    async def events(push: Push) -> None:
        async def send(notification: Notification) -> None:
            await push(block("message", encode(notification)))

        await listener.run(send)

    def farewell(_: Bye) -> bytes:
        return block("message", encode(listener.ended()))

    return EventStream(call.service, call.principal, events, farewell=farewell)


@routes.add(
    "GET",
    "/mcp",
    right="read",
    reply=bytes,
    media_types=("text/event-stream",),
    errors=(404, 409),
    headers=("Mcp-Session-Id",),
    streams=True,
)
async def follow_mcp(call: Call[Nothing, None]) -> EventStream:
    """Follow the resources that a client subscribed to: it is told which of them changed."""
    following = call.service.mcp_clients.find(call.principal, _client_of(call))
    reach = PrincipalReach(call.service, call.principal)
    if following.is_run:
        raise Conflict("this Mcp-Session-Id has a stream already: close it first")

    async def events(push: Push) -> None:
        async def tell(uri: str) -> None:
            updated = Notification(method="notifications/resources/updated", params={"uri": uri})
            await push(block("message", encode(updated)))

        await following.run(reach, tell)

    return EventStream(call.service, call.principal, events, farewell=lambda _: b"")


@routes.add("DELETE", "/mcp", right="read", status=204, errors=(404,), headers=("Mcp-Session-Id",))
async def leave_mcp(call: Call[Nothing, None]) -> Reply:
    """Forget a client, which follows nothing any more."""
    call.service.mcp_clients.leave(call.principal, _client_of(call))
    return Reply()


def _client_of(call: Call[Nothing, None]) -> str:
    client_id = call.header(b"mcp-session-id")
    if client_id is None:
        raise Malformed("give the Mcp-Session-Id that the answer to `initialize` had")
    return client_id
