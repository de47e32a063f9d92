"""Listening: the request whose answer is a stream of changes, of clients that name the version in each request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..events.errors import TreeringError
from .messages import INVALID_PARAMS, RESOURCE_NOT_FOUND, SUBSCRIPTION_KEY, Message, Notification, Refused, RpcReply
from .reach import Reach
from .resources import Following, session_of

LISTEN = "subscriptions/listen"
"""The method of a client that listens."""


class Listener:
    """Tells one client of what it listens to.

    Args:
        reach: What the client may reach.
        message: Its request, which has an id.

    Raises:
        Refused: It names what it cannot listen to.
    """

    def __init__(self, reach: Reach, message: Message) -> None:
        wanted = message.params.get("notifications")
        uris = wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
        if not isinstance(wanted, dict) or not isinstance(uris, list | None):
            raise Refused(INVALID_PARAMS, "`notifications` says what to listen to, such as `resourceSubscriptions`")
        self._uris = [uri for uri in uris or [] if isinstance(uri, str)]
        for uri in self._uris:
            session_of(uri)
        self._reach = reach
        self._following = Following()
        self._meta: dict[str, object] = {SUBSCRIPTION_KEY: message.id}
        self._id = message.id

    async def begin(self) -> None:
        """Begin to follow, so that whatever changes from now on is told.

        Raises:
            Refused: A session does not exist, or there are too many.
        """
        try:
            for uri in self._uris:
                await self._following.add(self._reach, uri)
        except TreeringError as error:
            raise Refused(RESOURCE_NOT_FOUND, self._reach.shown(error.message)) from error

    async def run(self, send: Callable[[Notification], Awaitable[None]]) -> None:
        """Say what is listened to, and tell of changes until it is cancelled."""
        honored: dict[str, object] = {"resourceSubscriptions": self._uris} if self._uris else {}
        params = {"notifications": honored, "_meta": self._meta}
        await send(Notification(method="notifications/subscriptions/acknowledged", params=params))

        async def tell(uri: str) -> None:
            params = {"uri": uri, "_meta": self._meta}
            await send(Notification(method="notifications/resources/updated", params=params))

        await self._following.run(self._reach, tell)

    def ended(self) -> RpcReply:
        """Return the answer with which it ends, if this side ends it."""
        return RpcReply(id=self._id, result={"resultType": "complete", "_meta": self._meta})
