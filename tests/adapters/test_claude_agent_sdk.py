"""Transcripts of the Claude Agent SDK in sessions: its own suite, its summaries, and the tree that its entries make."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("claude_agent_sdk", reason="the Claude Agent SDK is not installed: pip install -e '.[frameworks]'")

from claude_agent_sdk import fold_session_summary
from claude_agent_sdk.testing import run_session_store_conformance

from treering import SessionHost, plain_text
from treering.adapters.claude_agent_sdk import TreeringSessionStore
from treering.adapters.hosting import close_shared
from treering.errors import InvalidEntry

KEY: Any = {"project_key": "-work-of me/x", "session_id": "a1"}


def entry(uuid: str, parent: str | None = None, said: str = "", **more: object) -> dict[str, Any]:
    """Return a line of a transcript."""
    role = "assistant" if uuid.startswith("a") else "user"
    return {
        "type": role,
        "uuid": uuid,
        "parentUuid": parent,
        "timestamp": f"2026-01-01T00:00:{len(uuid):02}.000Z",
        "message": {"role": role, "content": said or f"words of {uuid}"},
        **more,
    }


async def sent(store: TreeringSessionStore, *entries: dict[str, Any], **key: str) -> list[dict[str, Any]]:
    """Append a batch, and return all that is there."""
    where = cast("Any", {**KEY, **key})
    await store.append(where, cast("Any", list(entries)))
    return cast("list[dict[str, Any]]", await store.load(where))


@pytest.mark.feature("A-16")
@pytest.mark.parametrize("shared", [True, False], ids=["root", "host"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_conformance_suite_passes_whole(tmp_path: Path, shared: bool) -> None:
    numbers = itertools.count()
    if shared:
        await run_session_store_conformance(lambda: TreeringSessionStore(tmp_path / str(next(numbers))))
        assert next(numbers) == 15  # a probe, and each of the contracts
        await asyncio.to_thread(close_shared)
        return
    hosts: list[SessionHost] = []

    async def made() -> TreeringSessionStore:
        hosts.append(await SessionHost.start(tmp_path / str(next(numbers))))
        return TreeringSessionStore(hosts[-1])

    await run_session_store_conformance(cast("Any", made))
    assert len(hosts) == 15
    for host in hosts:
        await host.aclose()


@pytest.mark.feature("A-17")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("seed", range(5))
async def test_summaries_equal_the_fold_over_all_entries(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lines: list[dict[str, Any]] = []
    for at in range(60):
        line = entry(f"{chance.choice('au')}{at}", lines[-1]["uuid"] if lines else None)
        for name, value in (("customTitle", f"title {at}"), ("cwd", "/work"), ("gitBranch", f"b{at}")):
            if chance.random() < 0.3:
                line[name] = value
        lines.append(line)
        if chance.random() < 0.2:
            lines.append({"type": "tag", "tag": chance.choice(["", "urgent"]), "uuid": f"t{at}"})
    rest: Sequence[dict[str, Any]] = lines
    while rest:
        size = chance.randint(1, 9)
        async with SessionHost(tmp_path) as host:  # each time anew
            store = TreeringSessionStore(host)
            await sent(store, *rest[:size])
            await sent(store, *rest[:size])  # again, as after a timeout
            await sent(store, entry("u-of-an-agent", customTitle="no"), subpath="subagents/agent-1")
            (summary,) = await store.list_session_summaries(KEY["project_key"])
            done = lines[: len(lines) - len(rest) + size]
            assert summary["data"] == fold_session_summary(None, KEY, cast("Any", done))["data"]
            assert await store.load(KEY) == done
            (listed,) = await store.list_sessions(KEY["project_key"])
            assert (summary["session_id"], summary["mtime"]) == (listed["session_id"], listed["mtime"])
        rest = rest[size:]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_entries_make_the_tree_that_they_name(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        store = TreeringSessionStore(host)
        first = [entry("u1"), entry("a2", "u1"), entry("u3", "a2", "a wrong turn"), entry("a4", "u3")]
        again = [entry("u5", "a2", "another way"), entry("a6", "u5"), {"type": "summary", "summary": "no uuid"}]
        assert await sent(store, *first, *again) == [*first, *again]
        (row,) = await host.list_sessions()
        session = await host.load(row)
        path = [plain_text(each.content) for each in await session.messages()]
        assert path == ["words of u1", "words of a2", "another way", "words of a6"]
        assert len(await session.all_messages()) == 6
        assert {hit.session_id async for hit in host.search("wrong")} == {session.id}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_stores_that_append_to_a_transcript_at_the_same_time_make_one_conversation() -> None:
    lines = [entry(f"u{at}", f"u{at - 1}" if at else None, str(at)) for at in range(6)]
    async with SessionHost() as host:
        await sent(TreeringSessionStore(host), lines[0])
        await asyncio.gather(*[sent(TreeringSessionStore(host), each) for each in lines[1:]])
        assert await sent(TreeringSessionStore(host), *lines) == lines
        (row,) = await host.list_sessions()
        messages = await (await host.load(row)).messages()
        assert [plain_text(each.content) for each in messages] == [str(at) for at in range(6)]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_no_message_can_show_is_kept_and_what_is_no_json_refused(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        store = TreeringSessionStore(host)
        odd = [
            entry("u1", said="x", message={"role": "user", "content": [{"type": "document", "source": {}}]}),
            {"type": "progress", "uuid": "p", "data": {"n": 1.0, "é": "\u2028"}},
            {"type": "user"},
        ]
        assert await sent(store, *odd) == odd
        with pytest.raises(InvalidEntry):
            await sent(store, entry("u2"), {"type": "x", "bad": {1, 2}})
        assert await store.load(KEY) == odd
