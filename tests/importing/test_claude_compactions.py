"""What Claude Code kept through a compaction is in the context once, wherever its transcript goes on from there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from treering import CompactionEntry, ImportReport, Session, SessionHost

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


# A prompt was taken back (u2), so that the conversation does not go the way of the file.
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


def going_on(parent: str) -> list[str]:
    return [line("user", "p1", parent), line("assistant", "p2", "p1")]


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[SessionHost]:
    async with SessionHost(tmp_path / "sessions") as host:
        yield host


async def imported(host: SessionHost, tmp_path: Path, lines: list[str]) -> tuple[Session, ImportReport]:
    path = tmp_path / "transcript.jsonl"
    path.write_text("\n".join(lines) + "\n")
    (report,) = await host.import_sessions(path)
    return await host.load(report.id), report


async def shown(session: Session, leaf: str | None = None) -> list[str]:
    context = await (session.context() if leaf is None else session.context(leaf))
    return [each.entry_id or "" for each in context.messages]


async def compaction_of(session: Session, entry_id: str = "cut") -> CompactionEntry:
    entry = await session.entry(entry_id)
    assert isinstance(entry, CompactionEntry)
    return entry


def problems(report: ImportReport) -> list[str]:
    return [finding.message for finding in report.findings if finding.severity != "note"]


Lines: TypeAlias = Callable[[dict[str, object]], list[str]]
WAYS: dict[str, Lines] = {
    "goes on below the summary": lambda kept: [TAIL, *compacted(kept), *going_on("sum")],
    "goes on below the tail": lambda kept: [TAIL, *compacted(kept), *going_on("b2")],
    "goes on below what hangs from the tail": lambda kept: [
        TAIL,
        *compacted(kept),
        json.dumps({"type": "progress", "uuid": "link", "parentUuid": "b2", "sessionId": "s"}),
        *going_on("link"),
    ],
    "the tail stands only below the summary": lambda kept: [
        *compacted(kept),
        line("assistant", "b2", "sum"),
        *going_on("b2"),
    ],
    "the tail stands below the summary, too": lambda kept: [
        TAIL,
        *compacted(kept),
        line("assistant", "b2", "sum"),
        *going_on("b2"),
    ],
    "all that was kept stands below the summary, too": lambda kept: [
        TAIL,
        *compacted(kept),
        line("assistant", "b1", "sum"),
        line("user", "u3", "b1", isMeta=False),
        line("assistant", "b2", "u3", isMeta=False),
        *going_on("b2"),
    ],
}


@pytest.mark.parametrize("kept", [SEGMENT, MESSAGES, {**SEGMENT, **MESSAGES}], ids=["segment", "messages", "both"])
@pytest.mark.parametrize("way", WAYS)
async def test_what_was_kept_is_shown_once_wherever_the_file_goes_on(
    host: SessionHost, tmp_path: Path, way: str, kept: dict[str, object]
) -> None:
    session, report = await imported(host, tmp_path, [*BEFORE, *WAYS[way](kept)])
    assert problems(report) == []
    assert await shown(session) == ["cut", "b1", "u3", "b2", "p1", "p2"]
    entry = await compaction_of(session)
    assert entry.compaction.first_kept_entry_id == "b1"
    assert (entry.compaction.tokens_before, entry.compaction.details) == (150000, {"trigger": "auto"})
    assert session.leaf_id == "p2"


async def test_the_list_of_what_was_kept_outranks_the_segment(host: SessionHost, tmp_path: Path) -> None:
    kept = {"preservedMessages": {"uuids": ["not in the file", "u3", "b2"]}, **SEGMENT}
    session, _ = await imported(host, tmp_path, [*BEFORE, TAIL, *compacted(kept), *going_on("b2")])
    assert await shown(session) == ["cut", "u3", "b2", "p1", "p2"]


@pytest.mark.parametrize("kept", [None, [], {"uuids": None}, {"uuids": []}, {"uuids": [7]}, {"uuids": ["elsewhere"]}])
async def test_a_list_that_says_nothing_keeps_nothing(host: SessionHost, tmp_path: Path, kept: object) -> None:
    lines = [*BEFORE, TAIL, *compacted({"preservedMessages": kept}), *going_on("sum")]
    session, report = await imported(host, tmp_path, lines)
    assert (problems(report), await shown(session)) == ([], ["cut", "p1", "p2"])


async def test_where_nothing_was_kept_the_former_history_is_a_branch(host: SessionHost, tmp_path: Path) -> None:
    session, _ = await imported(host, tmp_path, [*BEFORE, TAIL, *compacted({}), *going_on("b2")])
    assert await shown(session) == [*FORMER, "p1", "p2"]
    assert await shown(session, "cut") == ["cut"]


async def test_calls_at_the_end_of_what_was_kept_stay_with_their_results(host: SessionHost, tmp_path: Path) -> None:
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
        *going_on("r2"),
    ]
    session, _ = await imported(host, tmp_path, lines)
    assert await shown(session) == ["cut", "b2", "r1", "r2", "p1", "p2"]


async def test_each_compaction_keeps_its_own(host: SessionHost, tmp_path: Path) -> None:
    lines = [
        *BEFORE,
        TAIL,
        *compacted({**SEGMENT, **MESSAGES}),
        line("assistant", "b2", "sum"),
        *going_on("b2"),
        boundary("cut2", "p2", {"preservedMessages": {"uuids": ["b2", "p1", "p2"]}}),
        summary("sum2", "cut2"),
        line("user", "q1", "p2"),
        line("assistant", "q2", "q1"),
    ]
    session, report = await imported(host, tmp_path, lines)
    assert (problems(report), session.leaf_id) == ([], "q2")
    assert await shown(session) == ["cut2", "b2", "p1", "p2", "q1", "q2"]
    assert await shown(session, "p2") == ["cut", "b1", "u3", "b2", "p1", "p2"]


async def test_a_second_compaction_of_the_same_end_follows_the_first(host: SessionHost, tmp_path: Path) -> None:
    lines = [*BEFORE, TAIL, *compacted(SEGMENT), boundary("cut2", "b2", SEGMENT), summary("sum2", "cut2")]
    session, _ = await imported(host, tmp_path, [*lines, *going_on("b2")])
    assert (await compaction_of(session, "cut2")).parent_id == "cut"
    assert await shown(session) == ["cut2", "b1", "u3", "b2", "p1", "p2"]


async def test_a_compaction_that_never_came_parts_nothing(host: SessionHost, tmp_path: Path) -> None:
    lines = [*BEFORE, TAIL, boundary("cut", "b2", SEGMENT), *going_on("b2")]
    session, _ = await imported(host, tmp_path, lines)
    assert await shown(session) == [*FORMER, "p1", "p2"]


async def test_what_was_not_kept_and_is_written_again_stays(host: SessionHost, tmp_path: Path) -> None:
    lines = [*BEFORE, TAIL, *compacted(MESSAGES), line("assistant", "a1", "sum"), *going_on("a1")]
    session, _ = await imported(host, tmp_path, lines)
    again, *rest = (await shown(session))[4:]
    assert (again != "a1", rest) == (True, ["p1", "p2"])
    assert session.path(again)[-2:] == ["cut", again]
