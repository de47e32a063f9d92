"""Messages that Claude Code preserved in a compaction are in the context once, wherever the transcript continues."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from treering import Session, SessionHost
from treering.entries import CompactionEntry
from treering.sessions import ImportReport

pytestmark = pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])

LISTED = ["b1", "u3", "b2"]
SEGMENT: dict[str, object] = {"preservedSegment": {"headUuid": "b1", "anchorUuid": "sum", "tailUuid": "b2"}}
MESSAGES: dict[str, object] = {"preservedMessages": {"anchorUuid": "sum", "uuids": LISTED}}


def line(kind: str, uuid: str, parent: str | None, content: object = None, **more: object) -> str:
    message: dict[str, object] = {"role": kind, "content": f"says {uuid}" if content is None else content}
    if kind == "assistant":
        message["content"] = [{"type": "text", "text": f"says {uuid}"}] if content is None else content
        message["id"] = more.pop("id", f"msg_{uuid}")
    time = "2026-05-01T09:00:00Z"
    fields = {"type": kind, "sessionId": "s", "uuid": uuid, "parentUuid": parent, "timestamp": time, "message": message}
    return json.dumps({**fields, **more})


def boundary(uuid: str, follows: str, kept: dict[str, object]) -> str:
    facts = {"trigger": "auto", "preTokens": 150000, **kept}
    fields = {"type": "system", "subtype": "compact_boundary", "sessionId": "s", "uuid": uuid, "parentUuid": None}
    return json.dumps({**fields, "logicalParentUuid": follows, "compactMetadata": facts})


def summary(uuid: str, parent: str) -> str:
    return line("user", uuid, parent, "What was said so far.", isCompactSummary=True)


# The prompt u2 was rewound, so the conversation does not follow the order of the file.
BEFORE = [
    line("user", "u1", None),
    line("assistant", "a1", "u1"),
    line("user", "u2", "a1"),
    line("assistant", "a2", "u2"),
    line("user", "v2", "a1"),
    line("assistant", "b1", "v2"),
    line("user", "u3", "b1"),
]
TAIL = line("assistant", "b2", "u3")
FORMER = ["u1", "a1", "v2", "b1", "u3", "b2"]


def compacted(kept: dict[str, object]) -> list[str]:
    return [boundary("cut", "b2", kept), summary("sum", "cut")]


def continuation(parent: str) -> list[str]:
    return [line("user", "p1", parent), line("assistant", "p2", "p1")]


async def import_lines(host: SessionHost, tmp_path: Path, lines: list[str]) -> tuple[Session, ImportReport]:
    path = tmp_path / "transcript.jsonl"
    path.write_text("\n".join(lines) + "\n")
    (report,) = await host.import_sessions(path)
    return await host.load(report.id), report


async def context_ids(session: Session, leaf: str | None = None) -> list[str]:
    context = await (session.context() if leaf is None else session.context(leaf))
    return [each.entry_id or "" for each in context.messages]


async def compaction_of(session: Session, entry_id: str = "cut") -> CompactionEntry:
    entry = await session.entry(entry_id)
    assert isinstance(entry, CompactionEntry)
    return entry


def problems(report: ImportReport) -> list[str]:
    return [finding.message for finding in report.findings if finding.severity != "note"]


Lines: TypeAlias = Callable[[dict[str, object]], list[str]]
CONTINUATIONS: dict[str, Lines] = {
    "continues below the summary": lambda kept: [TAIL, *compacted(kept), *continuation("sum")],
    "continues below the tail": lambda kept: [TAIL, *compacted(kept), *continuation("b2")],
    "continues below a child of the tail": lambda kept: [
        TAIL,
        *compacted(kept),
        json.dumps({"type": "progress", "uuid": "link", "parentUuid": "b2", "sessionId": "s"}),
        *continuation("link"),
    ],
    "the tail is only below the summary": lambda kept: [
        *compacted(kept),
        line("assistant", "b2", "sum"),
        *continuation("b2"),
    ],
    "the tail is below the summary, too": lambda kept: [
        TAIL,
        *compacted(kept),
        line("assistant", "b2", "sum"),
        *continuation("b2"),
    ],
    "all preserved messages are below the summary, too": lambda kept: [
        TAIL,
        *compacted(kept),
        line("assistant", "b1", "sum"),
        line("user", "u3", "b1", isMeta=False),
        line("assistant", "b2", "u3", isMeta=False),
        *continuation("b2"),
    ],
}


@pytest.mark.parametrize("kept", [SEGMENT, MESSAGES, {**SEGMENT, **MESSAGES}], ids=["segment", "messages", "both"])
@pytest.mark.parametrize("way", CONTINUATIONS)
async def test_preserved_messages_are_shown_once_wherever_the_file_continues(
    host: SessionHost, tmp_path: Path, way: str, kept: dict[str, object]
) -> None:
    session, report = await import_lines(host, tmp_path, [*BEFORE, *CONTINUATIONS[way](kept)])
    assert problems(report) == []
    assert await context_ids(session) == ["cut", "b1", "u3", "b2", "p1", "p2"]
    entry = await compaction_of(session)
    assert entry.compaction.first_kept_entry_id == "b1"
    assert (entry.compaction.tokens_before, entry.compaction.details) == (150000, {"trigger": "auto"})
    assert session.leaf_id == "p2"


async def test_a_list_of_preserved_messages_takes_precedence_over_a_segment(host: SessionHost, tmp_path: Path) -> None:
    kept = {"preservedMessages": {"uuids": ["not in the file", "u3", "b2"]}, **SEGMENT}
    session, _ = await import_lines(host, tmp_path, [*BEFORE, TAIL, *compacted(kept), *continuation("b2")])
    assert await context_ids(session) == ["cut", "u3", "b2", "p1", "p2"]


@pytest.mark.parametrize("kept", [None, [], {"uuids": None}, {"uuids": []}, {"uuids": [7]}, {"uuids": ["elsewhere"]}])
async def test_an_empty_or_invalid_list_preserves_nothing(host: SessionHost, tmp_path: Path, kept: object) -> None:
    lines = [*BEFORE, TAIL, *compacted({"preservedMessages": kept}), *continuation("sum")]
    session, report = await import_lines(host, tmp_path, lines)
    assert (problems(report), await context_ids(session)) == ([], ["cut", "p1", "p2"])


async def test_without_preserved_messages_the_former_history_is_a_branch(host: SessionHost, tmp_path: Path) -> None:
    session, _ = await import_lines(host, tmp_path, [*BEFORE, TAIL, *compacted({}), *continuation("b2")])
    assert await context_ids(session) == [*FORMER, "p1", "p2"]
    assert await context_ids(session, "cut") == ["cut"]


async def test_calls_at_the_end_of_preserved_messages_keep_their_results(host: SessionHost, tmp_path: Path) -> None:
    given: dict[str, object] = {}
    calls = [[{"type": "tool_use", "id": each, "name": "Bash", "input": given}] for each in ("t1", "t2")]
    results = [[{"type": "tool_result", "tool_use_id": each, "content": "done"}] for each in ("t1", "t2")]
    lines = [
        *BEFORE,
        line("assistant", "b2", "u3", calls[0], id="msg"),
        line("assistant", "b3", "b2", calls[1], id="msg"),
        line("user", "r1", "b2", results[0]),
        boundary("cut", "r1", {"preservedMessages": {"uuids": ["b2", "b3", "r1"]}}),
        summary("sum", "cut"),
        line("user", "r2", "b3", results[1]),
        *continuation("r2"),
    ]
    session, _ = await import_lines(host, tmp_path, lines)
    assert await context_ids(session) == ["cut", "b2", "r1", "r2", "p1", "p2"]


async def test_each_compaction_has_its_own_preserved_messages(host: SessionHost, tmp_path: Path) -> None:
    lines = [
        *BEFORE,
        TAIL,
        *compacted({**SEGMENT, **MESSAGES}),
        line("assistant", "b2", "sum"),
        *continuation("b2"),
        boundary("cut2", "p2", {"preservedMessages": {"uuids": ["b2", "p1", "p2"]}}),
        summary("sum2", "cut2"),
        line("user", "q1", "p2"),
        line("assistant", "q2", "q1"),
    ]
    session, report = await import_lines(host, tmp_path, lines)
    assert (problems(report), session.leaf_id) == ([], "q2")
    assert await context_ids(session) == ["cut2", "b2", "p1", "p2", "q1", "q2"]
    assert await context_ids(session, "p2") == ["cut", "b1", "u3", "b2", "p1", "p2"]


async def test_a_second_compaction_after_the_same_message_follows_the_first(host: SessionHost, tmp_path: Path) -> None:
    lines = [*BEFORE, TAIL, *compacted(SEGMENT), boundary("cut2", "b2", SEGMENT), summary("sum2", "cut2")]
    session, _ = await import_lines(host, tmp_path, [*lines, *continuation("b2")])
    assert (await compaction_of(session, "cut2")).parent_id == "cut"
    assert await context_ids(session) == ["cut2", "b1", "u3", "b2", "p1", "p2"]


async def test_a_boundary_without_a_summary_changes_nothing(host: SessionHost, tmp_path: Path) -> None:
    lines = [*BEFORE, TAIL, boundary("cut", "b2", SEGMENT), *continuation("b2")]
    session, _ = await import_lines(host, tmp_path, lines)
    assert await context_ids(session) == [*FORMER, "p1", "p2"]


async def test_a_message_written_again_and_not_preserved_is_a_new_entry(host: SessionHost, tmp_path: Path) -> None:
    lines = [*BEFORE, TAIL, *compacted(MESSAGES), line("assistant", "a1", "sum"), *continuation("a1")]
    session, _ = await import_lines(host, tmp_path, lines)
    again, *rest = (await context_ids(session))[4:]
    assert (again != "a1", rest) == (True, ["p1", "p2"])
    assert session.path(again)[-2:] == ["cut", again]
