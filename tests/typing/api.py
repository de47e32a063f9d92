"""The public types, used as programs use them. mypy and pyright check this file; nothing runs it."""

from __future__ import annotations

from typing import assert_type

import treering
from treering import Changed, Context, ContextChange, Cursor, Entry, Reset, Session, SessionHost, Snapshot, Transient


async def sessions(host: SessionHost) -> None:
    """Sessions are found and made."""
    assert_type(await host.create(cwd="/work"), Session)
    assert_type(await host.load("id"), Session)
    assert_type(await host.find_recent(), Session | None)
    assert_type(await host.list_sessions(), list[treering.SessionSummary])


async def appending(session: Session) -> None:
    """Appends take payloads and answer with ids."""
    assert_type(await session.append_message("user", "Hello"), str)
    assert_type(await session.append_message("user", [treering.text("a"), "b"], aside=True, below="id"), str)
    assert_type(await session.append(treering.Label("id", "start"), command_id="c"), str)
    assert_type(await session.append_many([treering.ThinkingLevel("high")]), list[str])
    await session.append("no payload")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await session.append_message("user", 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await session.append_message("user", "x", belwo="id")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def reading(session: Session) -> None:
    """Reads have the types of the views."""
    context = await session.context()
    assert_type(context, Context)
    assert_type(context.messages[0].role, str)
    assert_type(await session.entry("id"), Entry | None)
    assert_type(session.leaf_id, str | None)
    assert_type(session.cursor, Cursor)
    assert_type(session.tree().nodes[0].children, tuple[str, ...])


async def following(session: Session) -> None:
    """Subscriptions yield what their view yields."""
    async with session.subscribe(after=0, transient=True) as entries:
        async for item in entries:
            assert_type(item, Entry | Transient | Reset)
    async with session.subscribe("context") as changes:
        async for change in changes:
            assert_type(change, Snapshot[Context] | Changed[ContextChange])
