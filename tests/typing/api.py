"""The public types as programs use them. mypy and pyright check this file; nothing runs it."""

from collections.abc import Sequence
from typing import Any, assert_type

import treering
import treering.agents
import treering.entries
import treering.projections
import treering.sessions
import treering.subscriptions
import treering.sync
from treering import Changed, Context, Cursor, Entry, Reset, Session, SessionHost, Snapshot
from treering.subscriptions import ContextChange, Transient


async def sessions(host: SessionHost) -> None:
    """Sessions are found and created."""
    assert_type(await host.create(cwd="/work"), Session)
    assert_type(await host.load("id"), Session)
    assert_type(await host.find_recent(), Session | None)
    assert_type(await host.list_sessions(), list[treering.SessionSummary])


async def without_a_block() -> None:
    """A host is opened with the arguments of its class."""
    host = await SessionHost.start("/work/sessions", durability="group")
    assert_type(host, SessionHost)
    assert_type(await host.open("id"), Session)
    await host.aclose()
    await SessionHost.start(durabilty="os")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def by_key(host: SessionHost) -> None:
    """Conversations by key use messages."""
    assert_type(await host.get_or_create("telegram:1"), Session)
    assert_type(await host.find_by_key("telegram:1"), Session | None)
    sessions = treering.KeyedSessions(host)
    assert_type(await sessions.add_message("telegram:1", "user", "Hello"), str)
    assert_type(await sessions.history("telegram:1"), list[treering.Message])
    assert_type(await sessions.summary("telegram:1"), str)
    assert_type(treering.sessions.SessionKey.parse("telegram:1").agent, str | None)


async def appending(session: Session) -> None:
    """Appends take payloads and return ids."""
    assert_type(await session.append_message("user", "Hello"), str)
    assert_type(await session.append_message("user", [treering.text("a"), "b"], aside=True, below="id"), str)
    assert_type(await session.append(treering.entries.Label("id", "start"), command_id="c"), str)
    assert_type(await session.append_many([treering.entries.ThinkingLevel("high")]), list[str])
    await session.append("no payload")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await session.append_message("user", 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await session.append_message("user", "x", belwo="id")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    assert_type(treering.message("tool", "x", tool_name="run", error="no", duration_ms=1.5), treering.Message)
    treering.message("user", "x", model=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    treering.message("user", "x", modle="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def reading(session: Session) -> None:
    """Reads have the types of the views."""
    context = await session.context()
    assert_type(context, Context)
    assert_type(context.messages[0].role, str)
    assert_type(await session.entry("id"), Entry | None)
    assert_type(session.leaf_id, str | None)
    assert_type(session.cursor, Cursor)
    assert_type(Cursor.parse("1-a"), Cursor)
    assert_type(session.tree().nodes[0].children, tuple[str, ...])


def parts(message: treering.Message) -> str:
    """The type of a part tells a checker which part it is."""
    part = message.content[0]
    if part.type == "tool_use":
        assert_type(part, treering.entries.ToolUsePart)
    return part.text.content if part.type == "text" else part.type


class Words:
    """A program's own projection."""

    name = "words"

    def initial(self, header: treering.Header) -> int:
        """Start at zero."""
        return 0

    def apply(self, value: int, entry: Entry) -> tuple[int, str | None]:
        """Count one more."""
        return value + 1, entry.type

    def dump(self, value: int) -> bytes:
        """Write the count."""
        return str(value).encode()

    def load(self, blob: bytes) -> int:
        """Read the count."""
        return int(blob)


async def projecting(session: Session, own: treering.Projection[int, str]) -> None:
    """The value of a projection has its type, however it is used."""
    assert_type(await session.view(Words()), int)
    assert_type(await session.view(own), int)
    assert_type(await session.view(treering.projections.UsageProjection()), treering.projections.UsageTotals)
    print(await session.view(Words()), await session.rebuild(Words()))  # noqa: T201  # takes any object
    declared: treering.Projection[int, str] = Words()
    async with session.subscribe(declared) as changes:
        async for change in changes:
            assert_type(change, Snapshot[int] | Changed[str])
    async with session.subscribe(Words()) as steps:
        async for step in steps:
            assert_type(step, Snapshot[int] | Changed[str])
    await session.view("context")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def following(session: Session) -> None:
    """Subscriptions yield the items of their view."""
    async with session.subscribe(after=0) as entries:
        assert_type(entries, treering.subscriptions.EntrySubscription)
        async for entry in entries:
            assert_type(entry, Entry | Reset)
        assert_type(await entries.receive_many(), Sequence[Entry | Reset])
    async with session.subscribe(after=0, transient=True) as items:
        assert_type(items, treering.subscriptions.TransientSubscription)
        async for item in items:
            assert_type(item, Entry | Transient | Reset)
    async with session.subscribe("tree") as tree:
        replica = treering.subscriptions.TreeReplica()
        async for step in tree:
            if isinstance(step, Snapshot):
                replica = treering.subscriptions.TreeReplica(step.value)
                continue
            replica.apply(step.change)
            match step.change:
                case treering.subscriptions.NodeAdded() | treering.subscriptions.LabelChanged():
                    assert_type(step.change.id, str)
                case treering.subscriptions.LeafChanged():
                    assert_type(step.change.leaf, int)
    async with session.subscribe("context") as changes:
        async for change in changes:
            assert_type(change, Snapshot[Context] | Changed[ContextChange])
    session.subscribe("context", after=0)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


async def following_by_name(session: Session, view: str) -> None:
    """The name of a view may be known only at run time."""
    async with session.subscribe(view) as steps:
        assert_type(steps, treering.subscriptions.EntrySubscription | treering.subscriptions.ViewSubscription[Any, Any])
        async for step in steps:
            assert_type(step, Entry | Reset | Snapshot[Any] | Changed[Any])


def following_from_threads(session: treering.SyncSession) -> None:
    """Blocking subscriptions yield the same."""
    with session.subscribe() as entries:
        for entry in entries:
            assert_type(entry, Entry | Reset)
    with session.subscribe(transient=True) as items:
        for item in items:
            assert_type(item, Entry | Transient | Reset)


def following_by_name_from_threads(session: treering.SyncSession, view: str) -> None:
    """The name of a view may be known only at run time here too."""
    with session.subscribe(view) as steps:
        for step in steps:
            assert_type(step, Entry | Reset | Snapshot[Any] | Changed[Any])


@treering.tool
async def add(a: int, b: int = 1) -> str:
    """A tool is made from a function."""
    return str(a + b)


async def agents(model: treering.agents.Model, session: Session) -> None:
    """Agents accept any session with three methods, and return turns."""
    conversation: treering.ConversationSession = session
    agent = treering.AgentSession(model, session=conversation, tools=[add])
    assert_type(add, treering.Tool)
    assert_type(await agent.respond("Hello"), treering.agents.Turn)
    assert_type(await agent.respond([treering.message("user", "Hello")], session=session), treering.agents.Turn)
    assert_type(agent.last_request, treering.subscriptions.SentContext | None)
    async with agent.stream("Hello") as events:
        async for event in events:
            assert_type(event, treering.agents.AgentEvent)
    async with agent.follow_requests() as requests:
        async for sent in requests:
            assert_type(sent, treering.subscriptions.SentContext)
    await agent.respond(session="an id")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    treering.AgentSession(model, session=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def without_an_event_loop(host: treering.SyncHost, keyed: treering.sync.SyncKeyedSessions) -> None:
    """The members of the blocking facade that are derived have the signatures of their twins."""
    session = host.create(cwd="/work", key="telegram:1")
    assert_type(session, treering.SyncSession)
    assert_type(host.find_recent(), treering.SyncSession | None)
    assert_type(host.load(session, read_only=True).fork("copy"), treering.SyncSession)
    assert_type(host.list_sessions(limit=5), list[treering.SessionSummary])
    assert_type(session.append_message("user", ["a"], aside=True, below="id"), str)
    assert_type(session.append_many([treering.entries.Label("id", "start")], command_id="c"), list[str])
    assert_type(session.leaf_id, str | None)
    assert_type(session.tree(), treering.projections.Tree)
    assert_type(session.context("id"), Context)
    assert_type(session.view(treering.projections.UsageProjection()), treering.projections.UsageTotals)
    assert_type(session.export("html"), bytes)
    assert_type(keyed.history("telegram:1"), list[treering.Message])
    with session.subscribe(after=Cursor("g", 5)) as entries:
        assert_type(next(entries), Entry | Reset)
    for hit in host.search("timeout", limit=5):
        assert_type(hit, treering.sessions.Hit)
    session.append_message("user", 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    session.append_message("user", "x", belwo="id")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    session.tree(5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    session.leaf_id = "id"  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
    host.create(cmd="/work")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
