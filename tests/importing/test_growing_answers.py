"""A source that is imported while a model writes it: each import continues the one before, and nothing is doubled."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering import Message, MessageEntry, Session, SessionHost, Usage, plain_text, text, thinking, tool_use
from treering.actors.transfer.growing_answers import Latest, growth
from treering.entries import TextPart, ThinkingPart, ToolResultPart, ToolUsePart, UsageEntry
from treering.sessions import ImportReport

WORK = Path(__file__).resolve().parents[1] / "data" / "claude_code" / "work.jsonl"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIME = "2026-03-01T09:00:0{}.000Z"


def gemini(*records: dict[str, object]) -> list[str]:
    header = {"sessionId": "grown", "projectHash": "ab", "startTime": TIME.format(0), "lastUpdated": TIME.format(0)}
    return [json.dumps(each) for each in (header, *records)]


def answer(text: str, tokens: int | None = None) -> dict[str, object]:
    usage = (
        None if tokens is None else {"input": 100, "output": tokens, "cached": 0, "thoughts": 0, "tool": 0, "total": 0}
    )
    return {"id": "m1", "timestamp": TIME.format(2), "type": "gemini", "content": text, "thoughts": [], "tokens": usage}


QUESTION: dict[str, object] = {"id": "u1", "timestamp": TIME.format(1), "type": "user", "content": [{"text": "Where?"}]}
THANKS: dict[str, object] = {"id": "u2", "timestamp": TIME.format(3), "type": "user", "content": [{"text": "Thanks."}]}


def codex(*payloads: tuple[str, dict[str, object]]) -> list[str]:
    meta = ("session_meta", {"id": "grown", "timestamp": TIME.format(0), "cwd": "/work"})
    return [
        json.dumps({"timestamp": TIME.format(min(number, 9)), "type": kind, "payload": payload})
        for number, (kind, payload) in enumerate((meta, *payloads))
    ]


def item(role: str, text: str) -> tuple[str, dict[str, object]]:
    return "response_item", {"type": "message", "role": role, "content": [{"type": "output_text", "text": text}]}


def call(number: int) -> tuple[str, dict[str, object]]:
    return "response_item", {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": f"c{number}"}


def output(number: int) -> tuple[str, dict[str, object]]:
    return "response_item", {"type": "function_call_output", "call_id": f"c{number}", "output": f"o{number}"}


def ran(number: int) -> tuple[str, dict[str, object]]:
    return "event_msg", {"type": "exec_command_end", "call_id": f"c{number}", "exit_code": 0}


def token_count(total: int) -> tuple[str, dict[str, object]]:
    tokens = {"input_tokens": total - 10, "cached_input_tokens": 0, "output_tokens": 10, "total_tokens": total}
    return "event_msg", {"type": "token_count", "info": {"last_token_usage": tokens, "total_token_usage": tokens}}


def claude(*lines: dict[str, object]) -> list[str]:
    parent, records = None, []
    for number, line in enumerate(lines):
        uuid = f"l{number}"
        place = {"uuid": uuid, "parentUuid": parent, "sessionId": "grown", "timestamp": TIME.format(number)}
        records.append(json.dumps({**place, **line}))
        parent = uuid
    return records


def claude_answer(part: dict[str, object], output_tokens: int) -> dict[str, object]:
    usage = {"input_tokens": 3, "output_tokens": output_tokens}
    return {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [part], "usage": usage}}


def claude_result(number: int) -> dict[str, object]:
    part = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"o{number}"}
    return {"type": "user", "message": {"role": "user", "content": [part]}}


def answer_with_calls(text: str, *calls: str) -> dict[str, object]:
    """Make an answer of Gemini with calls, whose results are in its record."""
    response = {"functionResponse": {"response": {"output": "out"}}}
    records = [{"id": each, "name": "ls", "args": {}, "status": "success", "result": [response]} for each in calls]
    return {**answer(text), "toolCalls": records}


SOURCES = {
    "calls after an empty answer": gemini(
        QUESTION, answer(""), answer_with_calls("", "c1"), answer_with_calls("", "c1", "c2"), THANKS
    ),
    "usage that grows": gemini(
        QUESTION, answer("In"), answer("In", 7), answer("In the", 9), answer("In the", 12), THANKS
    ),
    "a text that grows": gemini(
        QUESTION, answer("In the"), answer("In the hay"), answer("In the haystack.", 7), THANKS
    ),
    "usage in the last record": gemini(QUESTION, answer("In the haystack."), answer("In the haystack.", 7), THANKS),
    "items of a step": codex(
        item("user", "Look."), item("assistant", "I look."), call(1), call(2), token_count(50), output(1), output(2),
        item("assistant", "Found."), token_count(90), item("user", "Thanks."),
    ),
    "usage before the answer": codex(
        item("user", "Look."), token_count(50), call(1), output(1), token_count(50), token_count(90),
        item("assistant", "Found."), item("user", "Thanks."),
    ),
    "runs before their outputs": codex(
        item("user", "Look."), call(1), call(2), ran(1), output(1), ran(2), output(2), call(3), output(3), ran(3),
        item("user", "Thanks."),
    ),
    "lines of an answer": claude(
        {"type": "user", "message": {"role": "user", "content": "Look."}},
        claude_answer({"type": "text", "text": "I look."}, 1),
        claude_answer({"type": "tool_use", "id": "c1", "name": "shell", "input": {}}, 1),
        claude_answer({"type": "tool_use", "id": "c2", "name": "shell", "input": {}}, 40),
        claude_result(1),
        claude_result(2),
        {"type": "user", "message": {"role": "user", "content": "Thanks."}},
    ),
    "a whole transcript": WORK.read_text().splitlines(),
}  # fmt: skip


async def grow(host: SessionHost, source: Path, lines: Sequence[str]) -> ImportReport:
    (report,) = await host.import_sessions(written(source, lines))
    return report


def written(source: Path, lines: Sequence[str]) -> Path:
    source.write_text("\n".join(lines) + "\n")
    return source


async def conversation(session: Session) -> list[str]:
    """Return the content of the path in order; adjacent texts of the assistant are joined."""
    lines: list[tuple[str, str]] = []
    for message in (each.message for each in (await session.context()).messages):
        for part in message.content:
            if isinstance(part, TextPart) and not part.text.content:
                continue
            if isinstance(part, TextPart) and lines and lines[-1][0] == message.role and message.role == "assistant":
                lines[-1] = (message.role, lines[-1][1] + part.text.content)
            elif isinstance(part, TextPart):
                lines.append((message.role, part.text.content))
            elif isinstance(part, ToolUsePart):
                lines.append(("call", part.tool_use.id))
            elif isinstance(part, ToolResultPart):
                lines.append(("result", part.tool_result.tool_use_id))
            else:
                assert isinstance(part, ThinkingPart)
    return [f"{role}: {text}" for role, text in lines]


async def ids(session: Session) -> Sequence[str | None]:
    return [entry.id for entry in await session.entries()]


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("step", [1, 2, 3])
async def test_importing_a_growing_source_gives_what_one_import_gives(name: str, step: int, tmp_path: Path) -> None:
    lines, first = SOURCES[name], 10 if name == "a whole transcript" else 3
    source = tmp_path / "rollout-grown.jsonl"
    async with SessionHost(tmp_path / "sessions") as host, SessionHost() as whole:
        report = await grow(whole, source, lines)
        expected = await whole.load(report.id)
        for end in [*range(first, len(lines), step), len(lines)]:
            report = await grow(host, source, lines[:end])
            (again,) = await host.import_sessions(source)
            assert again.added == 0
        session = await host.load(report.id)
        found_lines, expected_lines = await conversation(session), await conversation(expected)
        assert sorted(found_lines) == sorted(expected_lines)  # a late call follows the results of earlier ones
        assert [each for each in found_lines if ": c" not in each] == [
            each for each in expected_lines if ": c" not in each
        ]
        assert await session.total_usage() == await expected.total_usage()
        found = await ids(session)
        assert len(set(found)) == len(found)
        assert set(await ids(expected)) <= set(found)
        assert session.leaf_id == expected.leaf_id


async def test_the_rest_of_an_answer_becomes_an_entry_of_its_own(tmp_path: Path) -> None:
    source = tmp_path / "grown.jsonl"
    lines = SOURCES["a text that grows"]
    async with SessionHost(tmp_path / "sessions") as host:
        report = await grow(host, source, lines[:3])
        path = tmp_path / "sessions" / report.ref
        before = path.read_bytes()
        await grow(host, source, lines)
        assert path.read_bytes().startswith(before)
        session = await host.load(report.id)
        half, rest = [each for each in await session.entries() if isinstance(each, MessageEntry)][1:3]
        assert (half.id, rest.parent_id) == ("m1", "m1")
        assert [plain_text(each.message.content) for each in (half, rest)] == ["In the", " haystack."]


async def test_a_step_that_was_imported_partly_is_not_doubled(tmp_path: Path) -> None:
    """A step of opencode has no id of its own, and its first text may still grow."""
    source = tmp_path / "exported.json"
    info = {"id": "ses_1", "directory": "/work", "time": {"created": 0}}
    first = [
        {"type": "step-start"},
        {"type": "text", "id": "p1", "text": "Look."},
        {"type": "step-finish", "tokens": {"input": 9}},
    ]
    for second in ("I w", "I will."):
        parts = [*first, {"type": "step-start"}, {"type": "text", "id": "p2", "text": second}]
        record = {"info": {"id": "m1", "role": "assistant", "time": {"created": 1}}, "parts": parts}
        source.write_text(json.dumps({"info": info, "messages": [record]}))
        async with SessionHost(tmp_path / "sessions") as host:
            (report,) = await host.import_sessions(source)
            session = await host.load(report.id)
            assert await conversation(session) == [f"assistant: Look.{second}"]


def dive(*answers: str, used: int) -> str:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Do both."}]}]
    messages += [{"role": "assistant", "content": [{"type": "text", "text": each}]} for each in answers]
    turn = {"id": "evt-1", "type": "turn", "timestamp": TIME.format(1), "messages": messages}
    header = {"id": "grown", "created_at": TIME.format(0), "updated_at": TIME.format(0)}
    events = [("header", header), ("event", {**turn, "usage": {"input_tokens": used, "output_tokens": 1}})]
    return "".join(json.dumps({"line_type": kind, "data": data}) + "\n" for kind, data in events)


async def test_a_rewritten_turn_is_complete_beside_the_old_one(tmp_path: Path, host: SessionHost) -> None:
    """Some of its entries exist already, and the others must not wait for these to complete their batch."""
    source = tmp_path / "grown.jsonl"
    source.write_text(dive("Done by half.", used=10))
    await host.import_sessions(source)
    source.write_text(dive("The first is done.", "Both are.", used=50))
    (report,) = await host.import_sessions(source)
    (again,) = await host.import_sessions(source)
    assert again.added == 0
    session = await host.load(report.id)
    entries = await session.entries()
    assert [each.type for each in entries] == ["message", "message", "usage", "message", "message", "usage"]
    assert (await session.total_usage()).input_tokens == 50
    assert session.leaf_id == entries[-1].id
    messages = (await session.context()).messages
    assert [plain_text(each.message.content) for each in messages] == ["Do both.", "The first is done.", "Both are."]


async def test_the_rest_of_an_answer_on_an_abandoned_branch_stays_on_that_branch(tmp_path: Path) -> None:
    source = tmp_path / "grown.jsonl"
    more = [{**QUESTION, "id": "u3"}, {**answer("Second."), "id": "m2"}]
    lines = gemini(
        QUESTION, {**answer("Root."), "id": "m0"}, {**THANKS, "id": "u2"}, answer("Fir"), {"$rewindTo": "u2"}, *more
    )
    async with SessionHost(tmp_path / "sessions") as host:
        report = await grow(host, source, lines)
        session = await host.load(report.id)
        before = await conversation(session)
        assert (await grow(host, source, [line.replace('"Fir"', '"First."') for line in lines])).added == 1
        assert (await conversation(session), session.leaf_id) == (before, "m2")
        entries = await session.entries()
        rest = entries[-1]
        assert isinstance(rest, MessageEntry)
        assert (rest.parent_id, plain_text(rest.message.content)) == ("m1", "st.")


@pytest.mark.parametrize("usage_first", [False, True])
async def test_the_leaf_stays_when_the_session_was_continued_in_the_host(usage_first: bool, tmp_path: Path) -> None:
    source = tmp_path / "grown.jsonl"
    states = [
        gemini(QUESTION, answer("In")),
        gemini(QUESTION, answer("In", 7)),
        gemini(QUESTION, answer("In the hay", 9), THANKS),
    ]
    async with SessionHost(tmp_path / "sessions") as host:
        for lines in states[: 1 + usage_first]:
            report = await grow(host, source, lines)
        session = await host.load(report.id)
        own = await session.append_message("user", "Said here.")
        await grow(host, source, states[2])
        assert session.leaf_id == own
        assert "Thanks." in [
            plain_text(each.message.content) for each in await session.entries() if isinstance(each, MessageEntry)
        ]


async def test_a_damaged_line_before_the_rest_of_an_answer_does_not_prevent_the_import(tmp_path: Path) -> None:
    source = tmp_path / "grown.jsonl"
    async with SessionHost(tmp_path / "sessions") as host:
        report = await grow(host, source, gemini(QUESTION, answer("In")))
        await grow(host, source, gemini(QUESTION, answer("In the")))
    path = tmp_path / "sessions" / report.ref
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(
        b"".join(b"{" + line[1:].replace(b'"', b"'") if b'"m1"' in line and b'"In"' in line else line for line in lines)
    )
    async with SessionHost(tmp_path / "sessions") as host:
        await grow(host, source, gemini(QUESTION, answer("In the"), THANKS))
        session = await host.load(report.id)
        assert {each.id: each for each in await session.entries()}["u2"].parent_id == "m1"


async def test_a_damaged_log_prevents_only_the_import_of_its_own_session(tmp_path: Path) -> None:
    folder = tmp_path / "chats"
    folder.mkdir()
    for name in ("a", "b", "c"):
        lines = gemini(QUESTION, answer("In the haystack."))
        (folder / f"{name}.jsonl").write_text("\n".join(lines).replace("grown", name) + "\n")
    async with SessionHost(tmp_path / "sessions") as host:
        await host.import_sessions(folder / "b.jsonl")
        assert await (await host.load("b")).passivate()
        (tmp_path / "sessions" / "b.jsonl").write_bytes(b"no session\n")
        reports = await host.import_sessions(folder)
        assert [report.id for report in reports] == ["a", "c"]
        assert len(reports.failed) == 1


CONTENT = st.lists(
    st.one_of(
        st.text("ab", max_size=4).map(text),
        st.text("ab", min_size=1, max_size=4).map(thinking),
        st.integers(0, 3).map(lambda number: tool_use(f"c{number}", "ls", {})),
    ),
    max_size=5,
    unique_by=lambda part: part.tool_use.id if isinstance(part, ToolUsePart) else object(),
)


@given(CONTENT, st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 9)), max_size=5))
def test_the_imported_pieces_of_an_answer_add_up_to_the_whole(
    content: list[TextPart | ThinkingPart | ToolUsePart], looks: list[tuple[int, int, int]]
) -> None:
    """A look sees this many parts, this many characters of the last one, and this much usage."""
    answers: dict[str, Message] = {}
    usages: dict[str, Usage] = {}
    whole = (len(content), 99, 9)
    growing = sorted((min(parts, len(content)), chars, output) for parts, chars, output in looks)
    for parts, chars, output in [*growing, whole, whole]:
        seen = [*content[:parts]]
        if seen and isinstance(seen[-1], TextPart):
            seen[-1] = text(seen[-1].text.content[:chars])
        latest = max([output, *(each.usage.output_tokens for each in answers.values() if each.usage is not None)])
        usage = Usage(output_tokens=max(latest, sum_of(answers, usages).output_tokens))
        entry = MessageEntry(
            id="m", parent_id=None, timestamp=NOW, message=Message("assistant", tuple(seen), usage=usage)
        )
        if not answers:
            answers["m"] = entry.message
            continue
        missing = growth(entry, lambda each: each in answers or each in usages, Latest(answers, usages), "s").missing
        for each in missing:
            if isinstance(each, MessageEntry):
                answers[each.id] = each.message
            else:
                assert isinstance(each, UsageEntry)
                usages[each.id] = each.usage.usage
    assert not missing, "a second look at the whole finds nothing new"
    pieces = [part for message in answers.values() for part in message.content]
    assert contents_of(pieces) == contents_of(content)
    assert sum_of(answers, usages) == usage


def contents_of(parts: Sequence[object]) -> list[str]:
    """List the calls, and the text character by character, since text may be split into pieces."""
    contents = []
    for part in parts:
        if isinstance(part, ToolUsePart):
            contents.append(part.tool_use.id)
        elif isinstance(part, TextPart):
            contents += [f"text {each}" for each in part.text.content]
        else:
            assert isinstance(part, ThinkingPart)
            contents += [f"thought {each}" for each in part.thinking.content]
    return sorted(contents)


def sum_of(answers: Mapping[str, Message], usages: Mapping[str, Usage]) -> Usage:
    """Add up the usage of all answers and usage entries."""
    in_answers = [each.usage for each in answers.values() if each.usage is not None]
    return sum([*in_answers, *usages.values()], Usage())
