"""What an append to a mirrored transcript costs, in calls of functions, does not depend on the transcript's length."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import pytest

pytest.importorskip("claude_agent_sdk", reason="the Claude Agent SDK is not installed: pip install -e '.[frameworks]'")

from treering import Limits, SessionHost
from treering.adapters.claude_agent_sdk import TreeringSessionStore

KEY: Any = {"project_key": "-work", "session_id": "s"}
FEW = 20
"""How many calls an append may need more: now and then one looks at the clock, or lets everything else go on."""


def turn(number: int) -> list[dict[str, Any]]:
    """Return the lines of a turn: a question, an answer of two lines, its result, and a title that is said again."""
    call = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "a file"}
    above = f"r{number - 1}" if number else None
    said = [
        (f"u{number}", above, "user", f"question {number}"),
        (f"a{number}", f"u{number}", "assistant", [{"type": "text", "text": "I look."}]),
        (f"b{number}", f"a{number}", "assistant", [call]),
        (f"r{number}", f"b{number}", "user", [result]),
    ]
    lines = [
        {
            "type": role,
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": "s",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "message": {"role": role, "content": content, **({"id": f"m{number}"} if role == "assistant" else {})},
        }
        for uuid, parent, role, content in said
    ]
    return [*lines, {"type": "custom-title", "customTitle": "A title", "sessionId": "s"}]


@contextmanager
def counted_calls() -> Generator[Counter[str]]:
    """Count the functions that are called in the block, those of the interpreter included."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, what: object) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            calls[cast("Any", what).__name__] += 1

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def appended(store: TreeringSessionStore, number: int) -> list[int]:
    """Append a turn line by line, and return how many functions each append called."""
    counts: list[int] = []
    for line in turn(number):
        with counted_calls() as calls:
            await store.append(KEY, cast("Any", [line]))
        counts.append(calls.total())
    return counts


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_append_to_a_long_transcript_calls_as_few_functions_as_one_to_a_short_one() -> None:
    never = Limits(inline_for_s=3600)  # on a busy machine it would be another task's turn now and then
    async with SessionHost(limits=never) as host:
        store = TreeringSessionStore(host)
        early = [await appended(store, number) for number in range(8)][4:]
        await store.append(KEY, cast("Any", [line for number in range(8, 200) for line in turn(number)]))
        late = [await appended(store, number) for number in range(200, 204)]
        for few, many in zip(zip(*early, strict=True), zip(*late, strict=True), strict=True):
            assert min(many) <= min(few) + FEW
        (row,) = await host.list_sessions()
        session = await host.load(row)
        whole = 12 * 4 + 192 * 3  # an answer that came whole is one message
        assert (session.name, len(await session.messages())) == ("A title", whole)
