"""Branches of sessions of OpenAI's Agents SDK: what each holds, whoever else writes, and that none is a copy."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("agents", reason="OpenAI's Agents SDK is not installed: pip install -e '.[openai-agents]'")

from agents.usage import Usage
from tests.serving import running

from treering import SessionHost, plain_text
from treering.adapters.openai_agents import TreeringAdvancedSession, TreeringSession
from treering.errors import InvalidEntry


@pytest.fixture
def anyio_backend() -> str:
    """The SDK knows no other loop."""
    return "asyncio"


def said(*words: str) -> list[Any]:
    """Return items, in turn of the user and of the assistant."""
    return [{"role": ("user", "assistant")[at % 2], "content": each} for at, each in enumerate(words)]


def run_of(tokens: int) -> Any:  # noqa: ANN401  # what a run returns, as far as its usage goes
    return SimpleNamespace(context_wrapper=SimpleNamespace(usage=Usage(requests=1, total_tokens=tokens)))


async def words(session: TreeringSession, **which: Any) -> list[Any]:  # noqa: ANN401  # options of `get_items`
    return [item.get("content") for item in await session.get_items(**which)]


@pytest.mark.feature("A-4")
async def test_a_branch_writes_no_copies(root: str) -> None:
    async with SessionHost(root) as host:
        session = TreeringAdvancedSession("long", host)
        await session.add_items(said(*(f"word {number}" for number in range(400))))
        own = await host.get_or_create("long")
        file = own.file_path or ""
        entries, size, parent = own.cursor.seq, os.path.getsize(file), own.path()[397]  # noqa: ASYNC240  # a test
        assert await session.create_branch_from_turn(200, "other") == "other"
        assert own.cursor.seq == entries + 1
        assert os.path.getsize(file) - size < 400  # noqa: ASYNC240
        await session.add_items(said("instead"))
        assert await words(session) == [*(f"word {number}" for number in range(398)), "instead"]
        assert len(own.children(parent)) == 2
        assert [plain_text(each.content) for each in await own.messages()][-1] == "instead"  # the leaf goes along
        assert len(await words(session, branch_id="main")) == 400


@pytest.mark.feature("A-4")
async def test_branches_and_usage_outlive_their_object(root: str) -> None:
    async with SessionHost(root) as host:
        first = TreeringAdvancedSession("lasts", host)
        await first.add_items(said("a", "b", "c", "d"))
        await first.store_run_usage(run_of(5))
        await first.create_branch_from_content("C", "second")
        await first.add_items(said("e", "f"))
        await first.store_run_usage(run_of(7))
        await first.store_run_usage(run_of(9))  # instead of 7
        await first.pop_item()
    async with SessionHost(root) as host:
        again = TreeringAdvancedSession("lasts", host)
        assert again.current_branch_id == "main"
        assert await words(again) == ["a", "b", "c", "d"]
        assert await words(again, branch_id="second") == ["a", "b", "e"]
        assert await words(again, branch_id="nobody's") == []
        assert await words(again, branch_id="second", limit=2) == ["b", "e"]
        listed = [
            (each["branch_id"], each["message_count"], each["user_turns"]) for each in await again.list_branches()
        ]
        assert listed == [("main", 4, 2), ("second", 3, 2)]
        assert (await again.get_session_usage() or {})["total_tokens"] == 14
        assert (await again.get_session_usage("second") or {})["total_tokens"] == 9
        own = await host.get_or_create("lasts")
        await again.switch_to_branch("second")
        assert [plain_text(each.content) for each in await own.messages()] == ["a", "b", "e"]
        assert (await own.total_usage()).total_tokens == 14  # as for any session
        with pytest.raises(ValueError, match="already been used"):
            await again.create_branch_from_turn(1, "main")


@pytest.mark.feature("A-4")
async def test_what_is_stored_for_a_turn_goes_with_it(root: str) -> None:
    """Of 0.24.0: test_pop_item_removes_turn_usage_only_when_turn_emptied, test_stale_store_run_usage_*."""
    async with SessionHost(root) as host:
        session = TreeringAdvancedSession("turns", host)
        await session.store_run_usage(run_of(1))  # of no turn
        await session.add_items(said("a", "b"))
        await session.store_run_usage(run_of(5))
        await session.pop_item()
        stored = await session.get_turn_usage(1)
        assert isinstance(stored, dict)
        assert (stored["requests"], stored["input_tokens"], stored["total_tokens"]) == (1, 0, 5)
        assert stored["input_tokens_details"]["cached_tokens"] == 0
        assert stored["output_tokens_details"] == {"reasoning_tokens": 0}
        await session.pop_item()
        await session.add_items(said("another first turn"))
        assert await session.get_turn_usage(1) == {}
        assert await session.get_session_usage() is None


@pytest.mark.feature("A-4")
async def test_what_is_asked_is_done_in_order_on_the_branch_of_that_moment(root: str) -> None:
    """Of 0.24.0: test_queued_add_keeps_selected_branch, test_pop_item_uses_branch_snapshot_when_branch_switches_*."""
    async with SessionHost(root) as host:
        session = TreeringAdvancedSession("order", host)
        await session.add_items(said("a", "b", "c"))
        await session.create_branch_from_turn(2, "side")
        await asyncio.gather(
            session.add_items(said("d")),
            session.store_run_usage(run_of(3)),
            session.add_items(said("e", "f")),
            session.pop_item(),
            session.switch_to_branch("main"),
        )
        assert session.current_branch_id == "main"
        assert await words(session, branch_id="side") == ["a", "b", "d", "e"]
        turns = await session.get_turn_usage(branch_id="side")
        assert isinstance(turns, list)
        assert [each["user_turn_number"] for each in turns] == [2]
        await session.switch_to_branch("side")
        await asyncio.gather(session.add_items(said("g")), session.clear_session(), session.add_items(said("h")))
        assert (session.current_branch_id, await words(session)) == ("main", ["h"])


@pytest.mark.feature("A-4")
async def test_objects_of_one_session_add_to_its_branches_at_once(root: str, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "served") as host, running(host) as (_, port):
        local = TreeringAdvancedSession("both", host)
        remote = TreeringAdvancedSession("both", f"http://127.0.0.1:{port}")
        await local.add_items(said("a", "b", "c"))
        await local.create_branch_from_turn(2, "side")
        third = TreeringAdvancedSession("both", f"http://localhost:{port}")  # on main as well, over another host

        async def add(session: TreeringAdvancedSession, name: str) -> None:
            for number in range(10):
                await session.add_items(said(f"{name} {number}", "yes"))

        await asyncio.gather(add(local, "side"), add(remote, "far"), add(third, "near"))
        side, main = await words(local), await words(remote)
        assert side == ["a", "b", *(word for number in range(10) for word in (f"side {number}", "yes"))]
        assert sorted(main[:3]) == ["a", "b", "c"]
        assert main[4::2] == ["yes"] * 20
        for name in ("far", "near"):
            assert [word for word in main if word.startswith(name)] == [f"{name} {number}" for number in range(10)]
        await remote.delete_branch("side")
        with pytest.raises(ValueError, match="'side' does not exist"):
            await local.add_items(said("into nothing"))
        assert await words(local) == []
        await remote.clear_session()
        await local.add_items(said("anew"))
        assert (local.current_branch_id, await words(third)) == ("main", ["anew"])


@pytest.mark.feature("A-4")
async def test_a_caller_that_is_cancelled_leaves_the_object_where_the_session_says(root: str) -> None:
    async with SessionHost(root) as host:
        session = TreeringAdvancedSession("cancelled", host)
        await session.add_items(said("a"))
        main, made = ["a"], 0
        for steps in range(12):
            await session.switch_to_branch("main")
            task = asyncio.ensure_future(session.create_branch_from_turn(1, f"branch {steps}"))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await session.add_items(said(f"after {steps}"))
            if session.current_branch_id == "main":
                main.append(f"after {steps}")
            else:
                made += 1
                assert await words(session) == [f"after {steps}"]
            assert await words(session, branch_id="main") == main
        assert made > 0
        assert len(await session.list_branches()) == made + 1
        items = [*said("no part of a batch"), {"role": object()}]
        with pytest.raises(InvalidEntry):
            await session.add_items(items)
        assert (await words(session))[-1].startswith("after")


async def test_who_moves_the_leaf_moves_the_branch(root: str) -> None:
    async with SessionHost(root) as host:
        session, plain = TreeringAdvancedSession("mixed", host), TreeringSession("mixed", host)
        await session.add_items(said("a", "b", "c", "d"))
        assert await plain.pop_item() == {"role": "assistant", "content": "d"}
        assert await words(session) == ["a", "b", "c"]
        own = await host.get_or_create("mixed")
        await own.branch(own.path()[0])
        await session.add_items([{"role": "assistant", "content": "B"}])
        assert await words(session) == await words(plain) == ["a", "B"]
        await plain.clear_session()
        assert await words(session) == []
        assert await session.pop_item() is None
