"""What subscriptions yield can be encoded as JSON, and a client that knows only JSON keeps a context current."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from treering import Changed, Content, Session, SessionHost, Snapshot, message, thinking, tool_result, tool_use


def as_json(value: object) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(msgspec.json.encode(value))
    return shown


async def test_a_client_follows_a_context_by_its_json_alone() -> None:
    async with SessionHost() as host:
        session = await host.create(cwd="/work")
        messages: list[Any] = []
        async with session.subscribe("context") as steps:
            for act in (nothing, talk, edit, ask, compact):
                await act(session)
                step = None
                while step is None or step.cursor != session.cursor:
                    step = await anext(steps)
                    received = as_json(step)
                    if isinstance(step, Changed):
                        change = received["change"]
                        messages[change["start"] : change["start"] + change["delete"]] = change["insert"]
                    else:
                        messages = received["value"]["messages"]
                assert messages == as_json(await session.context())["messages"]
        assert [each["message"]["role"] for each in messages] == ["compactionSummary", "user"]


async def test_entries_trees_labels_and_listings_can_be_encoded() -> None:
    async with SessionHost() as host:
        session = await host.create(cwd="/work")
        await talk(session)
        async with session.subscribe() as entries:
            assert as_json(await anext(entries))["message"]["role"] == "user"
        async with session.subscribe("tree") as steps:
            assert as_json(await anext(steps))["value"]["nodes"][0]["type"] == "message"
            await session.set_label(session.path()[0], "start")
            assert as_json(await anext(steps))["change"]["id"] == session.leaf_id
        async with session.subscribe("labels") as steps:
            found = await anext(steps)
            assert isinstance(found, Snapshot)
            assert as_json(found)["value"] == [[session.path()[0], "start"]]
        async with host.subscribe_sessions() as listing:
            rows = await anext(listing)
            assert isinstance(rows, list)
            assert [as_json(row)["id"] for row in rows] == [session.id]
            await session.set_title("Reading")
            assert as_json(await anext(listing))["summary"]["title"] == "Reading"


async def nothing(session: Session) -> None:
    """Leave the session as it is: a subscription begins with a snapshot."""


async def talk(session: Session) -> None:
    parts: list[Content | str] = [thinking("I look."), "Wait.", tool_use("c1", "read", {"path": "a.py"})]
    await session.append_many(
        [
            message("user", "What is there?"),
            message("assistant", parts, provider="p", model="m"),
            message("tool", [tool_result("c1", "print(1)")]),
        ]
    )


async def edit(session: Session) -> None:
    await session.append_context_edit(session.path()[0], "What is here?")


async def ask(session: Session) -> None:
    await session.append_message("user", "Thanks.")


async def compact(session: Session) -> None:
    await session.append_compaction("It was read.", session.leaf_id, 100)
