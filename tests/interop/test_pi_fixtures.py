"""Real session files of pi and oh-my-pi, and small samples of each version, read to what those programs show."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from treering import Session, SessionHost, plain_text
from treering.entries import OpaqueEntry

DATA = Path(__file__).resolve().parents[1] / "data"
REAL = [
    "v1_large_session.jsonl",
    "v3_pi-0.73.1_all_entry_types.jsonl",
    "v3_pi-0.87.1_all_entry_types.jsonl",
    "v3_pi-1.5.2_all_entry_types.jsonl",
    "v3_pi-1.5.2_system_context_edit_usage.jsonl",
]
REAL_OMP = "omp-18.2.3_all_entry_types.jsonl"
OWN: dict[str, dict[str, Any]] = json.loads((DATA / "pi_expected.json").read_text(encoding="utf-8"))


def copy_file(source: Path, folder: Path) -> Path:
    """Copy a file into a folder of its own, where a host may write."""
    folder.mkdir()
    copy = folder / source.name
    copy.write_bytes(source.read_bytes())
    return copy


def file_bytes(path: Path) -> bytes:
    return path.read_bytes()


async def summary_of(session: Session) -> dict[str, Any]:
    context = await session.context()
    model = context.model
    return {
        "entries": len(await session.entries()),
        "name": session.name,
        "roles": dict(Counter("toolResult" if each.role == "tool" else each.role for each in context.messages)),
        "thinkingLevel": context.thinking_level,
        "model": None if model is None else {"provider": model.provider, "modelId": model.model_id},
        "messageCount": session.message_count,
    }


async def check(path: Path, expected: dict[str, Any]) -> None:
    """Open a file read-only, compare it with what pi shows, and check that no byte has changed."""
    before = file_bytes(path)
    async with SessionHost(path.parent) as host:
        async with await host.load(path, read_only=True) as session:
            found = await summary_of(session)
            assert len((await session.context()).messages) == expected.get(
                "context_messages", sum(found["roles"].values())
            )
        [row] = await host.list_sessions()
        found["firstMessage"] = row.first_message
        assert (row.message_count, row.name) == (found["messageCount"], found["name"])
    shown = {key: value for key, value in expected.items() if key in found and (value is not None or key == "name")}
    assert {key: found[key] for key in shown} == shown
    assert file_bytes(path) == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.feature("O-33", "O-34", "O-55")
@pytest.mark.parametrize("name", REAL)
async def test_a_real_file_reads_as_pi_shows_it(shared_fixtures: Path, tmp_path: Path, name: str) -> None:
    answers = json.loads((shared_fixtures / "pi" / "expected.json").read_text(encoding="utf-8"))
    await check(copy_file(shared_fixtures / "pi" / name, tmp_path / "root"), answers[name]["1.5.2"])


@pytest.mark.feature("O-33", "O-34", "O-55")
@pytest.mark.parametrize("name", OWN)
async def test_a_sample_of_each_version_reads_as_pi_shows_it(tmp_path: Path, name: str) -> None:
    await check(copy_file(DATA / name, tmp_path / "root"), OWN[name])


async def test_every_real_file_is_tested(shared_fixtures: Path) -> None:
    assert {path.name for path in (shared_fixtures / "pi").glob("*.jsonl")} == {*REAL, REAL_OMP}


@pytest.mark.feature("O-33", "O-34", "O-35")
async def test_the_messages_of_a_version_3_file_are_in_the_order_of_pi(tmp_path: Path) -> None:
    path = copy_file(DATA / "pi_v3.jsonl", tmp_path / "root")
    async with SessionHost(path.parent) as host:
        session = await host.load(path, read_only=True)
        context = await session.context()
        assert [(each.role, plain_text(each.content)) for each in context.messages] == [
            ("compactionSummary", "The tree is 112 years old."),
            ("user", "Cut here?"),
            ("assistant", "Yes."),
            ("user", "Thanks"),
            ("bashExecution", "Ran `pass show key`\n```\nhidden\n```"),
        ]
        before = await session.context("a3000011")
        assert [each.role for each in before.messages] == [
            *("user", "assistant", "tool", "tool", "bashExecution", "bashExecution"),
            *("assistant", "branchSummary", "custom", "user"),
        ]
        assert (before.thinking_level, context.thinking_level) == ("medium", "high")
        assert session.label("a3000003") == "question"


async def check_omp(path: Path, *, entries: int, title: str, messages: list[tuple[str, str]], model: str) -> None:
    before = file_bytes(path)
    async with SessionHost(path.parent) as host:
        async with await host.load(path, read_only=True) as session:
            context = await session.context()
            assert len(await session.entries()) == entries
            assert session.name == title
            assert [(each.role, plain_text(each.content)) for each in context.messages] == messages
            assert context.thinking_level == "high"
            assert context.model is not None
            assert context.model.model_id == model
        [row] = await host.list_sessions()
        assert (row.dialect, row.name) == ("omp", title)
        session = await host.load(path)
        await session.append_message("user", "more")
        assert [each.role for each in (await session.context()).messages] == [*(role for role, _ in messages), "user"]
    assert file_bytes(path).startswith(before)
    added = file_bytes(path)[len(before) :].splitlines()
    assert [json.loads(line)["parentId"] for line in added] == [json.loads(before.splitlines()[-1])["id"]]


@pytest.mark.feature("O-33", "O-34")
async def test_a_real_file_of_oh_my_pi_reads_as_oh_my_pi_shows_it(shared_fixtures: Path, tmp_path: Path) -> None:
    path = copy_file(shared_fixtures / "pi" / REAL_OMP, tmp_path / "root")
    await check_omp(path, entries=20, title="My title", messages=[("user", "after reset")], model="claude-x")


@pytest.mark.feature("O-33", "O-34")
async def test_a_sample_of_oh_my_pi_reads_as_oh_my_pi_shows_it(tmp_path: Path) -> None:
    path = copy_file(DATA / "omp_v3.jsonl", tmp_path / "root")
    messages = [("user", "How many pears?"), ("assistant", "Nine."), ("custom", "noted")]
    await check_omp(path, entries=12, title="Pears", messages=messages, model="anthropic/claude-oak")
    types = [json.loads(line)["type"] for line in file_bytes(path).splitlines()]
    async with SessionHost(path.parent) as host:
        session = await host.load(path, read_only=True)
        opaque = [each.type for each in await session.entries() if isinstance(each, OpaqueEntry)]
    assert opaque == ["service_tier_change", "reset_boundary", "mode_change"]
    assert set(opaque) < set(types)


def body(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file_bytes(path).splitlines()]


async def migrate(path: Path) -> list[dict[str, Any]]:
    """Open an old file for writing, check the backup beside it, and return the lines of the new file."""
    before = file_bytes(path)
    async with SessionHost(path.parent) as host:
        reader = await host.load(path, read_only=True)
        read, shown = await reader.entries(), (await reader.context()).messages
        await reader.close()
        assert file_bytes(path) == before
        session = await host.load(path)
        assert session.header.version == 3
        assert await session.entries() == read
        assert (await session.context()).messages == shown
        await session.append_message("user", "after the migration")
    assert file_bytes(path.with_name(path.name + ".bak")) == before
    async with SessionHost(path.parent) as host:  # the backup is not listed as a session
        assert [row.path for row in await host.list_sessions()] == [str(path)]
    return body(path)


@pytest.mark.feature("O-4", "O-6", "N-160")
async def test_a_sample_of_version_1_becomes_a_chain(tmp_path: Path) -> None:
    path = copy_file(DATA / "pi_v1.jsonl", tmp_path / "root")
    old = body(path)
    header, *lines = await migrate(path)
    assert header == {**old[0], "version": 3}
    assert [line["parentId"] for line in lines] == [None, *(line["id"] for line in lines[:-1])]
    assert all(len(line["id"]) == 8 for line in lines)
    for was, line in zip(old[1:], lines, strict=False):
        kept = {key: value for key, value in was.items() if key not in ("firstKeptEntryIndex", "message")}
        assert kept.items() <= line.items()
    assert lines[4]["firstKeptEntryId"] == lines[1]["id"]
    assert "firstKeptEntryIndex" not in lines[4]
    assert lines[3]["message"]["role"] == "custom"


@pytest.mark.feature("O-5")
async def test_a_file_of_version_2_keeps_its_tree(tmp_path: Path) -> None:
    path = copy_file(DATA / "pi_v2.jsonl", tmp_path / "root")
    old = body(path)
    before = file_bytes(path).splitlines()
    new = (await migrate(path))[:-1]
    after = file_bytes(path).splitlines()
    assert new[0] == {**old[0], "version": 3}
    for number, (was, line) in enumerate(zip(old[1:], new[1:], strict=True), 1):
        renamed = was.get("message", {}).get("role") == "hookMessage"
        assert line == ({**was, "message": {**was["message"], "role": "custom"}} if renamed else was)
        assert renamed or before[number] == after[number]


@pytest.mark.feature("O-4", "O-6", "N-160")
async def test_a_real_file_of_version_1_becomes_a_chain(shared_fixtures: Path, tmp_path: Path) -> None:
    path = copy_file(shared_fixtures / "pi" / "v1_large_session.jsonl", tmp_path / "root")
    header, *lines = await migrate(path)
    assert header["version"] == 3
    assert len(lines) == 1018 + 1
    assert [line["parentId"] for line in lines] == [None, *(line["id"] for line in lines[:-1])]
    assert len({line["id"] for line in lines}) == len(lines)


async def test_a_row_has_the_time_of_the_last_message(tmp_path: Path) -> None:
    path = copy_file(DATA / "pi_v3.jsonl", tmp_path / "root")
    async with SessionHost(path.parent) as host:
        [row] = await host.list_sessions()
    assert row.modified == datetime(2026, 3, 1, 9, 0, 22, tzinfo=UTC)
