"""A source that is read while a model speaks: each import goes on from the one before, and nothing is told twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from treering import MessageEntry, Session, SessionHost, TextPart, ThinkingPart, ToolResultPart, ToolUsePart, plain_text

TIME = "2026-03-01T09:00:0{}.000Z"


def gemini(*records: dict[str, object]) -> list[str]:
    header = {"sessionId": "grown", "projectHash": "ab", "startTime": TIME.format(0), "lastUpdated": TIME.format(0)}
    return [json.dumps(each) for each in (header, *records)]


def answer(text: str, tokens: int | None = None) -> dict[str, object]:
    told = (
        None if tokens is None else {"input": 100, "output": tokens, "cached": 0, "thoughts": 0, "tool": 0, "total": 0}
    )
    return {"id": "m1", "timestamp": TIME.format(2), "type": "gemini", "content": text, "thoughts": [], "tokens": told}


ASKED: dict[str, object] = {"id": "u1", "timestamp": TIME.format(1), "type": "user", "content": [{"text": "Where?"}]}
THANKS: dict[str, object] = {"id": "u2", "timestamp": TIME.format(3), "type": "user", "content": [{"text": "Thanks."}]}


def codex(*payloads: tuple[str, dict[str, object]]) -> list[str]:
    meta = ("session_meta", {"id": "grown", "timestamp": TIME.format(0), "cwd": "/work"})
    return [
        json.dumps({"timestamp": TIME.format(min(number, 9)), "type": kind, "payload": payload})
        for number, (kind, payload) in enumerate((meta, *payloads))
    ]


def words(role: str, text: str) -> tuple[str, dict[str, object]]:
    return "response_item", {"type": "message", "role": role, "content": [{"type": "output_text", "text": text}]}


def call(number: int) -> tuple[str, dict[str, object]]:
    return "response_item", {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": f"c{number}"}


def output(number: int) -> tuple[str, dict[str, object]]:
    return "response_item", {"type": "function_call_output", "call_id": f"c{number}", "output": f"o{number}"}


def used(total: int) -> tuple[str, dict[str, object]]:
    tokens = {"input_tokens": total - 10, "cached_input_tokens": 0, "output_tokens": 10, "total_tokens": total}
    return "event_msg", {"type": "token_count", "info": {"last_token_usage": tokens, "total_token_usage": tokens}}


def claude(*lines: dict[str, object]) -> list[str]:
    parent, told = None, []
    for number, line in enumerate(lines):
        uuid = f"l{number}"
        told.append(
            json.dumps(
                {"uuid": uuid, "parentUuid": parent, "sessionId": "grown", "timestamp": TIME.format(number), **line}
            )
        )
        parent = uuid
    return told


def spoken(part: dict[str, object], output_tokens: int) -> dict[str, object]:
    usage = {"input_tokens": 3, "output_tokens": output_tokens}
    return {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [part], "usage": usage}}


def result(number: int) -> dict[str, object]:
    part = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"o{number}"}
    return {"type": "user", "message": {"role": "user", "content": [part]}}


SOURCES = {
    "a text that grows": gemini(ASKED, answer("In the"), answer("In the hay"), answer("In the haystack.", 7), THANKS),
    "a usage that is told last": gemini(ASKED, answer("In the haystack."), answer("In the haystack.", 7), THANKS),
    "items of a step": codex(
        words("user", "Look."), words("assistant", "I look."), call(1), call(2), used(50), output(1), output(2),
        words("assistant", "Found."), used(90), words("user", "Thanks."),
    ),
    "usage that is told ahead": codex(
        words("user", "Look."), used(50), call(1), output(1), used(50), used(90), words("assistant", "Found."),
        words("user", "Thanks."),
    ),
    "lines of an answer": claude(
        {"type": "user", "message": {"role": "user", "content": "Look."}},
        spoken({"type": "text", "text": "I look."}, 1),
        spoken({"type": "tool_use", "id": "c1", "name": "shell", "input": {}}, 1),
        spoken({"type": "tool_use", "id": "c2", "name": "shell", "input": {}}, 40),
        result(1),
        result(2),
        {"type": "user", "message": {"role": "user", "content": "Thanks."}},
    ),
}  # fmt: skip


async def said(session: Session) -> list[str]:
    """Return what stands on the path, in order; the texts of one role in a row as one."""
    told: list[tuple[str, str]] = []
    for message in (each.message for each in (await session.context()).messages):
        for part in message.content:
            if isinstance(part, TextPart) and told and told[-1][0] == message.role and message.role == "assistant":
                told[-1] = (message.role, told[-1][1] + part.text.content)
            elif isinstance(part, TextPart):
                told.append((message.role, part.text.content))
            elif isinstance(part, ToolUsePart):
                told.append(("call", part.tool_use.id))
            elif isinstance(part, ToolResultPart):
                told.append(("result", part.tool_result.tool_use_id))
            else:
                assert isinstance(part, ThinkingPart)
    return [f"{role}: {text}" for role, text in told]


async def ids(session: Session) -> Sequence[str | None]:
    return [entry.id for entry in await session.entries()]


@pytest.mark.parametrize("lines", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("step", [1, 2, 3])
async def test_what_was_taken_in_as_it_grew_is_what_is_taken_in_at_once(
    lines: list[str], step: int, tmp_path: Path
) -> None:
    source = tmp_path / "rollout-grown.jsonl"
    async with SessionHost(tmp_path / "sessions") as host, SessionHost() as whole:
        source.write_text("\n".join(lines) + "\n")
        (report,) = await whole.import_sessions(source)
        expected = await whole.load(report.id)
        for end in [*range(3, len(lines), step), len(lines)]:
            source.write_text("\n".join(lines[:end]) + "\n")
            (report,) = await host.import_sessions(source)
            (again,) = await host.import_sessions(source)
            assert again.added == 0
        session = await host.load(report.id)
        assert await said(session) == await said(expected)
        assert await session.total_usage() == await expected.total_usage()
        found = await ids(session)
        assert len(set(found)) == len(found)
        assert set(await ids(expected)) <= set(found)
        assert session.leaf_id == expected.leaf_id


async def test_an_answer_is_not_changed_by_its_rest(tmp_path: Path) -> None:
    source = tmp_path / "grown.jsonl"
    lines = SOURCES["a text that grows"]
    async with SessionHost(tmp_path / "sessions") as host:
        source.write_text("\n".join(lines[:3]) + "\n")
        (report,) = await host.import_sessions(source)
        path = tmp_path / "sessions" / report.ref
        before = path.read_bytes()
        source.write_text("\n".join(lines) + "\n")
        await host.import_sessions(source)
        assert path.read_bytes().startswith(before)
        session = await host.load(report.id)
        half, rest = [each for each in await session.entries() if isinstance(each, MessageEntry)][1:3]
        assert (half.id, rest.parent_id) == ("m1", "m1")
        assert [plain_text(each.message.content) for each in (half, rest)] == ["In the", " haystack."]


async def test_a_later_step_that_was_half_said_is_said_once(tmp_path: Path) -> None:
    """A step of opencode's has no id of its own, and its first text may still grow."""
    source = tmp_path / "exported.json"
    info = {"id": "ses_1", "directory": "/work", "time": {"created": 0}}
    first = [
        {"type": "step-start"},
        {"type": "text", "id": "p1", "text": "Look."},
        {"type": "step-finish", "tokens": {"input": 9}},
    ]
    for told in ("I w", "I will."):
        parts = [*first, {"type": "step-start"}, {"type": "text", "id": "p2", "text": told}]
        answer = {"info": {"id": "m1", "role": "assistant", "time": {"created": 1}}, "parts": parts}
        source.write_text(json.dumps({"info": info, "messages": [answer]}))
        async with SessionHost(tmp_path / "sessions") as host:
            (report,) = await host.import_sessions(source)
            session = await host.load(report.id)
            assert await said(session) == [f"assistant: Look.{told}"]


def dive(*answers: str, used: int) -> str:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Do both."}]}]
    messages += [{"role": "assistant", "content": [{"type": "text", "text": each}]} for each in answers]
    turn = {"id": "evt-1", "type": "turn", "timestamp": TIME.format(1), "messages": messages}
    header = {"id": "grown", "created_at": TIME.format(0), "updated_at": TIME.format(0)}
    events = [("header", header), ("event", {**turn, "usage": {"input_tokens": used, "output_tokens": 1}})]
    return "".join(json.dumps({"line_type": kind, "data": data}) + "\n" for kind, data in events)


async def test_a_turn_that_was_written_anew_is_all_there_beside_the_old_one(tmp_path: Path) -> None:
    """Some of its entries are there already: the others must not wait for these to complete their batch."""
    source = tmp_path / "grown.jsonl"
    async with SessionHost(tmp_path / "sessions") as host:
        source.write_text(dive("Done by half.", used=10))
        await host.import_sessions(source)
        source.write_text(dive("The first is done.", "Both are.", used=50))
        (report,) = await host.import_sessions(source)
        (again,) = await host.import_sessions(source)
        assert again.added == 0
        session = await host.load(report.id)
        entries = await session.entries()
        assert [each.type for each in entries] == ["message", "message", "usage", "message", "message", "usage"]
        assert (await session.total_usage()).input_tokens == 60
        assert await said(await host.load(report.id)) == ["user: Do both.", "assistant: Done by half."]
        leaf = entries[-1].id
        assert leaf is not None
        told = (await session.context(leaf)).messages
        assert [plain_text(each.message.content) for each in told] == ["Do both.", "The first is done.", "Both are."]
