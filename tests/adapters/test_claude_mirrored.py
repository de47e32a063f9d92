"""A transcript that the Claude Agent SDK mirrors shows what an import of the same file shows."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

pytest.importorskip("claude_agent_sdk", reason="the Claude Agent SDK is not installed: pip install -e '.[frameworks]'")

from treering import Message, MessageEntry, Session, SessionHost, SessionSummary
from treering.adapters.claude_agent_sdk import TreeringSessionStore
from treering.adapters.claude_transcripts import ENTRY, PLACE
from treering.entries import CompactionEntry, CustomEntry, Entry, SessionInfoEntry

DATA = Path(__file__).resolve().parents[1] / "data" / "claude_code"
REAL = Path(__file__).resolve().parents[3] / "shared" / "fixtures" / "claude_code"
OURS = ("work.jsonl", "tangled.jsonl", "delegating.jsonl")
THEIRS = ("real_summary_progress.jsonl", "representative_messages.jsonl", "schema_zoo.jsonl", "subagent/parent.jsonl")
FILES = [
    *(pytest.param(DATA / name, id=name) for name in OURS),
    *(
        pytest.param(
            REAL / name,
            id=name,
            marks=pytest.mark.skipif(not REAL.exists(), reason="the real transcripts are not beside this checkout"),
        )
        for name in THEIRS
    ),
]
Key = dict[str, str]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", json.loads(line)) for line in path.read_bytes().splitlines() if line.strip()]


def files_of(path: Path) -> list[tuple[Path, Key]]:
    """Return a transcript and those of its sub-agents, with the keys by which the SDK mirrors them."""
    key = {"project_key": "-work", "session_id": path.stem}
    beside = sorted({*path.with_suffix("").rglob("agent-*.jsonl"), *path.parent.glob("agent-*.jsonl")})
    return [(path, key), *((each, {**key, "subpath": f"subagents/{each.stem}"}) for each in beside)]


def about_agent(path: Path) -> list[dict[str, Any]]:
    """Return the line by which the SDK mirrors what is beside a sub-agent's transcript."""
    beside = path.with_suffix(".meta.json")
    return [{"type": "agent_metadata", **json.loads(beside.read_bytes())}] if beside.exists() else []


async def mirror(host: SessionHost, path: Path, batches: random.Random | None = None) -> None:
    """Mirror a transcript and those of its sub-agents, whole or in batches."""
    store = TreeringSessionStore(host)
    for each, key in files_of(path):
        rest = [*about_agent(each), *lines_of(each)]
        while rest:
            size = len(rest) if batches is None else batches.choice((1, 1, 4))
            if batches is not None and batches.random() < 0.3:
                store = TreeringSessionStore(host)
            await store.append(cast("Any", key), cast("Any", rest[:size]))
            rest = rest[size:]


def said_by(message: Message) -> dict[str, Any]:
    """Return all that a message holds, with JSON decoded, as it may be written in many ways."""
    whole = cast("dict[str, Any]", json.loads(msgspec.json.encode(message)))
    if PLACE in (metadata := whole.get("metadata", {})):
        del metadata[PLACE]
        if not metadata:
            del whole["metadata"]
    return whole


def shown(entries: Sequence[Entry]) -> list[object]:
    """Return what there is and what it is below, without ids and times."""
    found: list[object] = []
    numbers: dict[str | None, int | None] = {None: None}
    for entry in entries:
        if isinstance(entry, (MessageEntry, CompactionEntry)):
            numbers[entry.id] = len(found)
            above = numbers[entry.parent_id]
            if isinstance(entry, MessageEntry):
                found.append([above, said_by(entry.message)])
            else:
                facts = entry.compaction
                details = facts.details if isinstance(facts.details, dict) else {}
                rest = {name: value for name, value in details.items() if name != PLACE}
                kept = numbers[facts.first_kept_entry_id]
                found.append([above, facts.summary, facts.tokens_before, kept, rest])
        elif isinstance(entry, (CustomEntry, SessionInfoEntry)):
            numbers[entry.id] = numbers[entry.parent_id]
    return found


async def rows_of(host: SessionHost) -> dict[str, SessionSummary]:
    return {row.id: row for row in await host.list_sessions(status="any")}


@pytest.mark.feature("A-18")
@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_mirrored_transcript_shows_what_its_import_shows(path: Path, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "imported") as host, SessionHost(tmp_path / "mirrored") as mirroring:
        await mirror(mirroring, path)
        reports = await host.import_sessions(path)
        theirs, ours = await rows_of(host), await rows_of(mirroring)
        assert len(ours) == len(files_of(path))
        pairs: dict[str | None, str] = {None: ""}  # by the id of an imported session, the mirrored one
        placed: dict[str | None, str | None] = {None: None}
        for report in reports:
            agent = report.id.partition("agent-")[2]
            found = [row for row in ours.values() if (row.key or "").partition("agent-")[2] == agent]
            if not found or (not agent and len(pairs) > 1):  # of another session, whose lines are in the file
                continue
            (row,) = found
            pairs[report.id] = row.id
            expected, own = await host.load(report.id), await mirroring.load(row)
            assert shown(await own.entries()) == shown(await expected.entries())
            for one, other in zip(await said(own), await said(expected), strict=True):
                placed[other.id] = one.id
            words = [[said_by(each) for each in await session.messages()] for session in (own, expected)]
            assert words[0] == words[1]
            header, known = theirs[report.id], row
            assert (known.title, known.cwd) == (header.title, header.cwd)
            assert known.parent_session == pairs.get(header.parent_session) or not agent
            assert known.parent_entry == placed.get(header.parent_entry)
        assert len(pairs) == len(ours) + 1


async def said(session: Session) -> list[Entry]:
    return [each for each in await session.entries() if isinstance(each, (MessageEntry, CompactionEntry))]


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_it_comes_in_batches_again_and_through_other_objects(path: Path, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "whole") as host, SessionHost(tmp_path / "batches") as mirroring:
        await mirror(host, path)
        await mirror(mirroring, path, random.Random(7))
        (expected,) = [row for row in (await rows_of(host)).values() if "agent-" not in (row.key or "")]
        (row,) = [row for row in (await rows_of(mirroring)).values() if "agent-" not in (row.key or "")]
        sessions = await mirroring.load(row), await host.load(expected)
        before = shown(await sessions[0].entries())
        await mirror(mirroring, path)
        assert shown(await sessions[0].entries()) == before
        words = [
            [(message.role, part) for message in await each.messages() for part in said_by(message).get("content", [])]
            for each in sessions
        ]
        assert words[0] == words[1]
        kept = [await lines_kept(session) for session in sessions]
        assert kept[0][: len(kept[1])] == kept[1]


async def lines_kept(session: Session) -> list[object]:
    return [each.custom.data for each in await session.entries(custom_type=ENTRY) if isinstance(each, CustomEntry)]
