"""What answers one client: a method by its name, and errors as the protocol has them.

What a model did wrong is the result of its call, with `isError`, so that it reads it and does better; what a client did
wrong is an error of the protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from ..events.errors import TreeringError
from ..events.json_values import JSON
from ..events.redaction import Redaction
from ..events.telemetry import failure_of, logger
from ..events.texts import whole
from .messages import (
    GREETED_VERSIONS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    VERSIONS,
    Message,
    Params,
    Refused,
    RpcReply,
    failed,
    id_of,
    read,
)
from .reach import Reach
from .resources import TEMPLATE, Following, list_resources, read_resource
from .tools import TOOLS

_INSTRUCTIONS = (
    "Sessions are conversations of agents, kept as trees of entries: your own from before, and those of your "
    "colleagues, running ones too. `search` finds what was said or done, `read_session` with `around` shows what "
    "stands beside it, `tree` shows where a session branches. Secrets are shown as [redacted:kind]."
)

Result = dict[str, object]


class Peer:
    """Answers the messages of one client.

    Args:
        reach: What the client may reach.
        following: The sessions that it follows; None if it cannot be told of anything.
    """

    def __init__(self, reach: Reach, following: Following | None = None) -> None:
        self._reach = reach
        self._following = following
        self._redaction = Redaction()
        self._methods: Mapping[str, Callable[[Message], Awaitable[Result]]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": self._ping,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }

    async def answer(self, value: JSON) -> RpcReply | None:
        """Return the answer to a message; None if it is no request."""
        try:
            message = read(value)
        except Refused as error:
            return failed(id_of(value), error)
        if message is None or message.id is None:
            return None
        return await self.answer_to(message)

    async def answer_to(self, message: Message) -> RpcReply:
        """Return the answer to a request."""
        try:
            method = self._methods.get(message.method)
            if method is None:
                raise Refused(METHOD_NOT_FOUND, f"there is no method {message.method[:100]!r}")
            result = await method(message)
        except Refused as error:
            return failed(message.id, error)
        except TreeringError as error:
            return failed(message.id, Refused(RESOURCE_NOT_FOUND, self._reach.shown(error.message)))
        except Exception as error:  # noqa: BLE001  # the client gets an answer, and the log says why
            logger().error("mcp_failed", method=message.method, **failure_of(error))
            return failed(message.id, Refused(INTERNAL_ERROR, "this failed here; the log of the server says why"))
        if message.is_modern:
            result = {"resultType": "complete", **result}
        return RpcReply(id=message.id, result=result)

    # -- the protocol

    async def _initialize(self, message: Message) -> Result:
        wanted = message.params.get("protocolVersion")
        version = wanted if wanted in GREETED_VERSIONS else GREETED_VERSIONS[-1]
        return {"protocolVersion": version, **self._about(with_name=True)}

    async def _discover(self, message: Message) -> Result:
        return {"supportedVersions": [*VERSIONS], **self._about(with_name=False), **_fresh(message)}

    def _about(self, *, with_name: bool) -> Result:
        from .. import __version__

        about: Result = {
            "capabilities": {"tools": {}, "resources": {"subscribe": self._following is not None}},
            "instructions": _INSTRUCTIONS,
        }
        if with_name:
            about["serverInfo"] = {"name": "treering", "version": __version__}
        return about

    async def _ping(self, message: Message) -> Result:
        return {}

    # -- tools

    async def _list_tools(self, message: Message) -> Result:
        tools = [tool.described() for tool in TOOLS.values() if self._reach.may_write or not tool.writes]
        return {"tools": tools, **_fresh(message)}

    async def _call_tool(self, message: Message) -> Result:
        name = _text(message.params, "name")
        tool = TOOLS.get(name)
        if tool is None or (tool.writes and not self._reach.may_write):
            raise Refused(INVALID_PARAMS, f"there is no tool {name[:100]!r}: `tools/list` lists them")
        try:
            answer = await tool.call(self._reach, self._redaction, message.params.get("arguments") or {})
        except TreeringError as error:
            said = self._redaction.text(self._reach.shown(error.message))
            return {"content": [{"type": "text", "text": said}], "isError": True}
        return {"content": [{"type": "text", "text": _json(answer)}], "isError": False}

    # -- resources

    async def _list_resources(self, message: Message) -> Result:
        cursor = message.params.get("cursor")
        page = await list_resources(self._reach, self._redaction, cursor if isinstance(cursor, str) else None)
        next_: Result = {} if page.next is None else {"nextCursor": page.next}
        return {"resources": page.resources, **next_, **_fresh(message)}

    async def _list_templates(self, message: Message) -> Result:
        return {"resourceTemplates": [TEMPLATE], **_fresh(message)}

    async def _read_resource(self, message: Message) -> Result:
        uri = _text(message.params, "uri")
        page = await read_resource(self._reach, self._redaction, uri)
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": _json(page)}], **_fresh(message)}

    async def _subscribe(self, message: Message) -> Result:
        await self._can_tell().add(self._reach, _text(message.params, "uri"))
        return {}

    async def _unsubscribe(self, message: Message) -> Result:
        self._can_tell().remove(_text(message.params, "uri"))
        return {}

    def _can_tell(self) -> Following:
        if self._following is None:
            raise Refused(METHOD_NOT_FOUND, "this connection cannot be told of changes: begin with `initialize`")
        return self._following


def _text(params: Params, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise Refused(INVALID_PARAMS, f"`{name}` is missing, or is no text")
    return value


def _fresh(message: Message) -> Result:
    """Return that a result is this client's alone, and must not be kept; versions before do not ask."""
    return {"ttlMs": 0, "cacheScope": "private"} if message.is_modern else {}


def _json(value: msgspec.Struct) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # half a character, which a log may hold
        return msgspec.json.encode(whole(value)).decode()
