"""A repository of sessions: what Strands Agents keeps of them, of their agents, and of what these say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...actors.host.host import SessionHost
from ...events.entries import ContextEdit, Custom, Payload
from ...events.errors import InvalidInput, LeafMoved
from ...events.json_values import JSON, json_object, raw_object
from ...formats.strands.messages import (
    AGENT,
    MULTI_AGENT,
    SESSION,
    UPDATE,
    Data,
    key_of,
    message_of,
    parts_of,
    shown_in,
)
from ..hosting import Hosting, HostOrRoot, Work
from ..session_index import SessionIndexes
from ..versions import STRANDS
from .conversations import Conversation, Shared, data_at
from .turns import Turns

try:
    from strands.session.session_repository import SessionRepository
    from strands.types.exceptions import SessionException
    from strands.types.session import Session, SessionAgent, SessionMessage
except ImportError as error:
    raise STRANDS.missing(error, "a repository for it needs Strands Agents") from error

STRANDS.check()

if TYPE_CHECKING:
    from strands.multiagent import MultiAgentBase

T = TypeVar("T")

WAIT_MAX_S = 0.02


class TreeringSessionRepository(SessionRepository):
    """A repository whose agents' conversations are the sessions of a host, with the keys "session/agent".

    Its calls block, as the framework's interface wants it, and do their work on the host's own thread. On an event
    loop, where the framework calls them, a write is waited for at most `wait_max_s`: one that takes longer goes on,
    later ones come after it, and if it fails, the next call for its session raises that. What is read is waited for. It
    may be used by any number of agents in any threads.

    Args:
        host: A root: a directory or a URL; objects with the same root share one host. Or an open `SyncHost`. A
            `SessionHost` only serves other threads than that of its loop.
        wait_max_s: How long a write may hold up an event loop.

    Raises:
        InvalidInput: The host is none.
    """

    def __init__(self, host: HostOrRoot, *, wait_max_s: float = WAIT_MAX_S) -> None:
        self._hosting = Hosting(host)
        self._wait_max_s = wait_max_s
        self._shared = SessionIndexes(Shared)
        self._conversations = SessionIndexes(Conversation)

    def __repr__(self) -> str:
        return f"TreeringSessionRepository({self._hosting!r})"

    # -- sessions

    def create_session(self, session: Session, **kwargs: object) -> Session:
        """Create a session, and return it.

        Raises:
            SessionException: There is one with this id.
            TreeringError: The write failed; see `Session.append`.
        """
        data, session_id = raw_object(session.to_dict(), "a session"), session.session_id

        async def create(host: SessionHost) -> None:
            shared = await self._shared.made(host, key_of(session_id))
            async with shared.lock:
                await shared.refresh()
                if shared.data is not None:
                    raise SessionException(f"session {session_id!r} already exists")
                await shared.session.append(Custom(SESSION, data))

        self._tell(session_id, create)
        return session

    def read_session(self, session_id: str, **kwargs: object) -> Session | None:
        """Return a session; None if there is none."""

        async def read(host: SessionHost) -> Data | None:
            shared = await self._shared.of(host, key_of(session_id))
            return None if shared is None else shared.data

        data = self._ask(session_id, read)
        return None if data is None else Session.from_dict(data)

    def delete_session(self, session_id: str, **kwargs: object) -> None:
        """Delete a session with the conversations of its agents.

        Raises:
            SessionException: There is none.
        """

        async def delete(host: SessionHost) -> None:
            key = key_of(session_id)
            await self._found(host, session_id)
            rows = await host.list_sessions(status="any")
            for row in [each for each in rows if each.key == key or (each.key or "").startswith(key + "/")]:
                await host.delete(row)
                self._shared.forget(row.key or "")
                self._conversations.forget(row.key or "")

        self._ask(session_id, delete)

    # -- agents

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: object) -> None:
        """Create an agent in a session.

        Raises:
            SessionException: There is no such session, or it has such an agent.
            TreeringError: The write failed; see `Session.append`.
        """
        data, agent_id = raw_object(session_agent.to_dict(), "an agent"), session_agent.agent_id

        async def create(host: SessionHost) -> None:
            await self._found(host, session_id)
            conversation = await self._conversations.made(host, key_of(session_id, agent_id))
            async with conversation.lock:
                await conversation.refresh()
                if conversation.agent_entry_id is not None:
                    raise SessionException(f"agent {agent_id!r} already exists in session {session_id!r}")
                await conversation.session.append(Custom(AGENT, data))

        self._tell(session_id, create)

    def read_agent(self, session_id: str, agent_id: str, **kwargs: object) -> SessionAgent | None:
        """Return an agent as it was at the leaf of its conversation; None if there is none."""

        async def read(host: SessionHost) -> Data | None:
            conversation = await self._conversations.of(host, key_of(session_id, agent_id))
            return None if conversation is None else await conversation.agent()

        data = self._ask(session_id, read)
        return None if data is None else SessionAgent.from_dict(data)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: object) -> None:
        """Store what changed of an agent, which stays as old as it was.

        Raises:
            SessionException: There is none.
            TreeringError: The write failed; see `Session.append`.
        """
        given = json_object(raw_object(session_agent.to_dict(), "an agent"))
        agent_id = session_agent.agent_id

        async def update(host: SessionHost) -> None:
            conversation = await self._talking(host, session_id, agent_id)
            async with conversation.lock:
                await conversation.refresh()
                before = await conversation.agent()
                created = {} if before is None else {"created_at": before.get("created_at")}
                await conversation.session.append(Custom(AGENT, raw_object(given | created, "an agent")))

        self._tell(session_id, update)

    # -- messages

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: object) -> None:
        """Append a message to the conversation of an agent; one that is there as it is, is not appended again.

        Raises:
            SessionException: There is no such agent, or another message with this number.
            InvalidEntry: The message holds something that is no JSON; nothing was written.
            TreeringError: The write failed; see `Session.append`.
        """
        record = json_object(raw_object(session_message.to_dict(), "a message"))
        number = _checked(session_message.message_id)
        message = message_of(record)

        async def create(host: SessionHost) -> None:
            conversation = await self._talking(host, session_id, agent_id)
            session = conversation.session
            async with conversation.lock:
                await conversation.catch_up()
                while True:
                    leaf = session.leaf_id
                    there = conversation.written(number)
                    if there is not None and await conversation.record(there) == record:
                        return
                    if there is not None:
                        raise SessionException(f"message {number} of agent {agent_id!r} already exists")
                    try:
                        entry_id = await session.append(message, expected_leaf=leaf)
                    except LeafMoved:  # something else was appended, perhaps the same message
                        await conversation.refresh()
                        continue
                    conversation.note(entry_id, leaf, number)
                    return

        self._tell(session_id, create)

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: object) -> SessionMessage | None:
        """Return a message of an agent's conversation; None if there is none with this number."""
        number = _checked(message_id)

        async def read(host: SessionHost) -> Data | None:
            conversation = await self._conversations.of(host, key_of(session_id, agent_id))
            there = None if conversation is None else conversation.found(number)
            return None if conversation is None or there is None else await conversation.record(there)

        data = self._ask(session_id, read)
        return None if data is None else SessionMessage.from_dict(data)

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: object) -> None:
        """Store a message as it is now, such as a redacted one; contexts show that, and the log keeps what it was.

        Raises:
            SessionException: There is none with this number.
            InvalidEntry: The message holds something that is no JSON; nothing was written.
            TreeringError: The write failed; see `Session.append`.
        """
        record = json_object(raw_object(session_message.to_dict(), "a message"))
        number = _checked(session_message.message_id)

        async def update(host: SessionHost) -> None:
            conversation = await self._talking(host, session_id, agent_id)
            async with conversation.lock:
                await conversation.refresh()
                there = conversation.found(number)
                if there is None:
                    raise SessionException(f"message {number} of agent {agent_id!r} does not exist")
                created: JSON = (await conversation.record(there)).get("created_at")
                update: Data = {"entry": there, "record": record | {"created_at": created}}
                payloads: list[Payload] = [
                    Custom(UPDATE, raw_object(update, "a message")),
                    ContextEdit(there, parts_of(shown_in(record))),
                ]
                await conversation.session.append_many(payloads)

        self._tell(session_id, update)

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: object
    ) -> list[SessionMessage]:
        """Return messages on the way to the leaf of an agent's conversation, oldest first; those of others, too.

        Args:
            session_id: The session.
            agent_id: The agent.
            limit: The most that are returned.
            offset: How many of the oldest are left out.
            **kwargs: Not needed.

        Raises:
            SessionException: There is no such agent.
        """

        async def read(host: SessionHost) -> list[Data]:
            conversation = await self._talking(host, session_id, agent_id)
            chosen = conversation.path()[offset:]
            return await conversation.records(chosen if limit is None else chosen[:limit])

        return [SessionMessage.from_dict(each) for each in self._ask(session_id, read)]

    # -- several agents together

    def create_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: object) -> None:
        """Store the state of several agents that work together.

        Raises:
            SessionException: There is no such session.
            InvalidEntry: The state holds something that is no JSON; nothing was written.
            TreeringError: The write failed; see `Session.append`.
        """
        self._put_multi_agent(session_id, multi_agent, is_new=True)

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: object) -> dict[str, Any] | None:
        """Return the state of several agents that work together; None if there is none."""

        async def read(host: SessionHost) -> Data | None:
            shared = await self._shared.of(host, key_of(session_id))
            entry_id = None if shared is None else shared.multi_agents.get(multi_agent_id)
            return None if shared is None or entry_id is None else await data_at(shared.session, entry_id)

        data = self._ask(session_id, read)
        state: dict[str, Any] | None = None if data is None else data["state"]  # type: ignore[assignment]  # an object
        return state

    def update_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: object) -> None:
        """Store what changed of the state of several agents that work together.

        Raises:
            SessionException: There is none.
            InvalidEntry: The state holds something that is no JSON; nothing was written.
            TreeringError: The write failed; see `Session.append`.
        """
        self._put_multi_agent(session_id, multi_agent, is_new=False)

    def _put_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, *, is_new: bool) -> None:
        multi_agent_id = multi_agent.id
        state = raw_object({"id": multi_agent_id, "state": multi_agent.serialize_state()}, "the state")

        async def put(host: SessionHost) -> None:
            shared = await self._found(host, session_id)
            async with shared.lock:
                await shared.refresh()
                if not is_new and multi_agent_id not in shared.multi_agents:
                    raise SessionException(f"{multi_agent_id!r} does not exist in session {session_id!r}")
                await shared.session.append(Custom(MULTI_AGENT, state))

        self._tell(session_id, put)

    def _ask(self, session_id: str, work: Work[T]) -> T:
        return Turns.of(self._hosting).ask(self._hosting, session_id, work)

    def _tell(self, session_id: str, work: Work[None]) -> None:
        Turns.of(self._hosting).tell(self._hosting, session_id, work, self._wait_max_s)

    # -- on the host's loop

    async def _found(self, host: SessionHost, session_id: str) -> Shared:
        shared = await self._shared.of(host, key_of(session_id))
        if shared is None or shared.data is None:
            raise SessionException(f"session {session_id!r} does not exist")
        return shared

    async def _talking(self, host: SessionHost, session_id: str, agent_id: str) -> Conversation:
        conversation = await self._conversations.of(host, key_of(session_id, agent_id))
        if conversation is None or conversation.agent_entry_id is None:
            raise SessionException(f"agent {agent_id!r} does not exist in session {session_id!r}")
        return conversation


def _checked(message_id: object) -> int:
    if not isinstance(message_id, int):
        raise InvalidInput(f"message_id=<{message_id}> | message id must be an integer")
    return message_id
