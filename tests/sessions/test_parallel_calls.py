"""Parallel tool calls and their results are one unit for every cut, in whatever order the results come."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from treering import Message, MessageEntry, SessionHost, ToolResultPart, ToolUsePart, UnsafeCut, tool_result, tool_use


@pytest.mark.feature("U-9")
@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_no_cut_separates_parallel_calls_from_their_results(
    tmp_path: Path, dialect: Literal["native", "pi", "omp"]
) -> None:
    """Each cut is before the calls or after the last of their results."""
    async with SessionHost(tmp_path, dialect=dialect) as host:
        session = await host.create()
        for turn in range(3):
            await session.append_message("user", f"question {turn} " * 40)
            calls = [tool_use(f"{turn}.{number}", "read", {"n": number}) for number in range(3)]
            await session.append_message("assistant", calls, provider="p", model="m")
            for number in (2, 0, 1):
                result = tool_result(f"{turn}.{number}", "content " * 40)
                await session.append(Message("tool", (result,), tool_name="read"))
            await session.append_message("assistant", "answer " * 40, provider="p", model="m")
        kinds: set[str] = set()
        leaf = session.leaf_id or ""
        for keep in range(1, 1500, 75):
            cut = await session.find_safe_cut(keep)
            if cut is None:
                continue
            entry = await session.entry(cut)
            assert isinstance(entry, MessageEntry)
            kinds.add(entry.message.role)
            await session.branch(leaf)
            await session.append_compaction("summary", cut, 1000)
            shown = await session.messages()
            parts = [part for each in shown for part in each.content]
            called = [part.tool_use.id for part in parts if isinstance(part, ToolUsePart)]
            answered = [part.tool_result.tool_use_id for part in parts if isinstance(part, ToolResultPart)]
            assert sorted(called) == sorted(answered)
            await session.branch(leaf)
        with pytest.raises(UnsafeCut):
            await session.append_compaction("summary", session.path()[-2], 1000)
        assert session.leaf_id == leaf
        assert "tool" not in kinds
        assert {"user", "assistant"} & kinds
