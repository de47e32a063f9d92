"""Conversations by key: a key identifies one session, whose file appears with its first message."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from treering import InvalidInput, KeyedSessions, Message, Session, SessionHost, SessionLocked, Usage, message, text
from treering.entries import CustomEntry, ToolUsePart, tool_result, tool_use
from treering.errors import InvalidSessionId, SessionExists
from treering.sessions import SessionKey
from treering.testing.disks import FaultyDisk

from .conftest import transcript

Files = Callable[[], list[str]]

KEY = "telegram:123456"
FULL = Message(
    "assistant",
    (text("Let me check that."), tool_use("call_123", "files_read", {"path": "/tmp/file.txt", "deep": [{"n": 1}]})),
    model="m",
    provider="p",
    usage=Usage(3, 4, cost=0.5),
    stop_reason="tool_use",
)


def names_in(folder: Path, pattern: str = "*") -> list[str]:
    """List the names in a folder, or nothing if there is no such folder."""
    return sorted(path.name for path in folder.glob(pattern))


def arguments_of(message: Message) -> dict[str, Any]:
    """Return the arguments of a message's call."""
    (call,) = (part for part in message.content if isinstance(part, ToolUsePart))
    given = call.tool_use.input
    assert isinstance(given, dict)
    return given


async def data_of(session: Session, entry_id: str) -> dict[str, Any]:
    """Return the data of a custom entry."""
    entry = await session.entry(entry_id)
    assert isinstance(entry, CustomEntry)
    data = entry.custom.data
    assert isinstance(data, dict)
    return data


# -- one key, one session


@pytest.mark.feature("P-12", "P-13")
async def test_a_key_identifies_one_session_that_its_first_message_creates(
    sessions: KeyedSessions, host: SessionHost, files: Files
) -> None:
    first, second = await sessions.get_or_create(KEY), await sessions.get_or_create(KEY)
    assert files() == []
    await first.append_message("user", "one")
    await second.append_message("assistant", "two")
    await sessions.add_message(KEY, "user", "three")
    assert first.id == second.id
    assert first.path() == second.path()
    assert (
        transcript(await first.history())
        == transcript(await sessions.history(KEY))
        == ["user: one", "assistant: two", "user: three"]
    )
    assert files() == ["telegram_123456.jsonl"]
    assert host.statistics().live == 1
    await sessions.add_message("telegram:7", "user", "elsewhere")
    assert files() == ["telegram_123456.jsonl", "telegram_7.jsonl"]


@pytest.mark.feature("P-12")
async def test_a_session_passivated_before_its_first_message_stays_the_same_session(
    sessions: KeyedSessions, host: SessionHost, files: Files
) -> None:
    before = await sessions.get_or_create(KEY)
    assert await host.passivate_idle() == 1
    after = await sessions.get_or_create(KEY)
    again = await sessions.get_or_create(KEY)
    assert await host.passivate_idle() == 1
    await before.append_message("user", "one")
    await again.append_message("user", "two")
    assert before.id == after.id == before.header.id == after.header.id
    assert transcript(await after.history()) == ["user: one", "user: two"]
    assert files() == ["telegram_123456.jsonl"]


@pytest.mark.feature("P-2", "P-5", "P-10", "P-42")
async def test_a_later_process_finds_the_conversation_in_that_root(tmp_path: Path) -> None:
    root = tmp_path / "home" / ".chat" / "workspace" / "sessions"
    key = "agent:main:telegram:-100123"
    async with SessionHost(root) as host:
        await KeyedSessions(host).add_message(key, "user", "Hello!")
        await KeyedSessions(host).set_summary(key, "a greeting")
    assert root.is_dir()
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    path = root / "agent_main_telegram_-100123.jsonl"
    assert json.loads(path.read_bytes().splitlines()[0])["key"] == key
    async with SessionHost(root) as host:
        assert transcript(await KeyedSessions(host).history(key)) == ["user: Hello!"]
        assert await KeyedSessions(host).summary(key) == "a greeting"
        assert (await host.get_or_create(key)).header.key == key
        assert [row.key for row in await host.list_sessions()] == await KeyedSessions(host).keys() == [key]
        by_id = await host.load("agent_main_telegram_-100123")
        assert transcript(await by_id.history()) == ["user: Hello!"]


@pytest.mark.feature("P-28", "P-43")
async def test_similar_keys_are_separate_conversations(tmp_path: Path) -> None:
    keys = ["a:b", "a_b", "a/b", "a b", "A:b", "telegram:-1001234567890", "telegram:1001234567890"]
    for _ in range(2):
        async with SessionHost(tmp_path) as host:
            for key in keys:
                await KeyedSessions(host).add_message(key, "user", key)
    async with SessionHost(tmp_path) as host:
        for key in keys:
            assert transcript(await KeyedSessions(host).history(key)) == [f"user: {key}"] * 2
        assert sorted(await KeyedSessions(host).keys()) == sorted(keys)
    assert len(names_in(tmp_path, "*.jsonl")) == len(keys)


@pytest.mark.feature("P-49")
@pytest.mark.parametrize(
    "key", ["x" * 1024, "ü" * 512, "聊天/👩‍👩‍👧\n\x00: ", "../../etc/passwd", "con", ".hidden", "x.jsonl"]
)
async def test_any_key_works_and_its_file_stays_under_the_root(tmp_path: Path, key: str) -> None:
    root = tmp_path / "root"
    for _ in range(2):
        async with SessionHost(root) as host:
            await KeyedSessions(host).add_message(key, "user", "Hello")
            await (await host.get_or_create(key)).refresh()
    async with SessionHost(root) as host:
        assert transcript(await KeyedSessions(host).history(key)) == ["user: Hello"] * 2
        assert await KeyedSessions(host).keys() == [key]
    assert names_in(tmp_path) == ["root"]
    assert len(names_in(root, "*.jsonl")) == 1


@pytest.mark.feature("P-44")
@pytest.mark.parametrize("key", ["", ".", ".."])
async def test_an_invalid_key_is_refused_by_every_call(sessions: KeyedSessions, key: str, tmp_path: Path) -> None:
    for call in (sessions.save, sessions.get_or_create, sessions.history, sessions.summary, sessions.delete):
        with pytest.raises(InvalidSessionId):
            await call(key)
    with pytest.raises(InvalidSessionId):
        await sessions.add_message(key, "user", "Hello")
    assert names_in(tmp_path) == []


@pytest.mark.feature("D-67")
async def test_a_session_key_round_trips_as_a_string(sessions: KeyedSessions) -> None:
    key = str(SessionKey("telegram", "-100123", agent="main"))
    await sessions.add_message(key, "user", "Hello")
    (found,) = await sessions.keys()
    assert SessionKey.parse(found) == SessionKey("telegram", "-100123", agent="main")


async def test_a_file_of_another_session_under_the_name_of_a_key_is_unchanged(host: SessionHost, root: Path) -> None:
    other = await host.create("telegram_123456")
    await other.append_message("user", "not of the key")
    content = (root / "telegram_123456.jsonl").read_bytes()
    with pytest.raises(SessionExists, match=r"telegram_123456\.jsonl"):
        await host.get_or_create(KEY)
    assert (root / "telegram_123456.jsonl").read_bytes() == content


async def test_a_session_created_with_a_key_is_found_by_that_key(host: SessionHost) -> None:
    created = await host.create(cwd="/work", key=KEY)
    await created.append_message("user", "Hello")
    assert transcript(await (await host.get_or_create(KEY)).history()) == ["user: Hello"]
    with pytest.raises(SessionExists):
        await host.create(key=KEY)
    with pytest.raises(InvalidInput, match="one of the two"):
        await host.create("mine", key="telegram:7")


@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_a_key_finds_its_session_in_every_dialect_and_from_every_directory(
    tmp_path: Path, dialect: Literal["native", "pi", "omp"]
) -> None:
    for expected, cwd in (1, "/work"), (2, "/elsewhere"):
        async with SessionHost(tmp_path, dialect=dialect) as host:
            session = await host.get_or_create("a_b", cwd=cwd)
            assert session.header.cwd == "/work"
            await session.append_message("user", "Hello")
            await session.set_summary("so far")
            assert (session.message_count, session.summary, session.header.key) == (expected, "so far", "a_b")


# -- missing conversations


@pytest.mark.feature("P-46", "P-47")
async def test_reading_a_missing_key_makes_nothing(sessions: KeyedSessions, host: SessionHost, tmp_path: Path) -> None:
    assert await sessions.history("nonexistent") == []
    assert await sessions.summary("nonexistent") == ""
    assert await host.find_by_key("nonexistent") is None
    await sessions.save("nonexistent")
    await sessions.delete("nonexistent")
    assert names_in(tmp_path) == []
    assert host.statistics().live == 0


async def test_a_deleted_conversation_leaves_no_fragments_and_starts_empty(root: Path) -> None:
    async with SessionHost(root) as host:
        await KeyedSessions(host).add_message(KEY, "user", "old")
    (name,) = names_in(root, "*.jsonl")
    async with await anyio.open_file(root / name, "ab") as file:
        await file.write(b'{"type":"message","id":"torn')
    async with SessionHost(root) as host:
        sessions = KeyedSessions(host)
        await sessions.add_message(KEY, "user", "again")
        assert names_in(root, "*.torn-*")
        for _ in range(2):
            await sessions.delete(KEY)
            assert names_in(root) == [".treering"]
        assert await sessions.history(KEY) == []
        await sessions.add_message(KEY, "user", "new")
        assert transcript(await sessions.history(KEY)) == ["user: new"]


@pytest.mark.feature("P-11", "P-24")
async def test_without_a_root_nothing_is_written_and_saving_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with SessionHost() as host:
        sessions = KeyedSessions(host)
        await sessions.add_message(KEY, "user", "Hello!")
        await sessions.set_summary(KEY, "a greeting")
        await sessions.save(KEY)
        await sessions.save_all()
        assert transcript(await sessions.history(KEY)) == ["user: Hello!"]
        assert (await sessions.get_or_create(KEY)).file_path is None
        assert names_in(tmp_path) == []
        async with SessionHost("put") as other:  # under the same key
            await other.put(await host.get_or_create(KEY))
            await KeyedSessions(other).add_message(KEY, "user", "and on")
            assert transcript(await KeyedSessions(other).history(KEY)) == ["user: Hello!", "user: and on"]
            assert await KeyedSessions(other).history("telegram_123456") == []


# -- messages


@pytest.mark.feature("P-6", "P-14", "P-15")
async def test_messages_of_all_roles_keep_their_order_and_every_field(root: Path) -> None:
    system = message("system", "You are helpful.")
    result = Message("tool", (tool_result("call_123", '{"setting": "value"}'),), tool_name="files_read")
    noted = message("user", "noted")
    async with SessionHost(root) as host:
        for each in (system, noted, FULL, result):
            await KeyedSessions(host).add_full_message(KEY, each)
    async with SessionHost(root) as host:
        found = await KeyedSessions(host).history(KEY)
        assert found == [system, noted, FULL, result]
        assert arguments_of(found[2]) == {"path": "/tmp/file.txt", "deep": [{"n": 1}]}


@pytest.mark.feature("P-16", "D-10")
async def test_changing_returned_objects_does_not_change_the_store(sessions: KeyedSessions) -> None:
    await sessions.add_full_message(KEY, FULL)
    session = await sessions.get_or_create(KEY)
    noted = await session.append_custom_entry("mine", {"deep": {"list": [1]}})
    history = await sessions.history(KEY)
    given = arguments_of(history[0])
    given["path"] = "changed"
    given["deep"][0]["n"] = 2
    with pytest.raises(AttributeError):
        history[0].role = "user"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        history[0].content.append(text("more"))  # type: ignore[attr-defined]
    history.clear()
    (await data_of(session, noted))["deep"]["list"].append(2)
    session.path().clear()
    session.labels().append(("no", "label"))
    (await session.entries()).clear()
    assert await sessions.history(KEY) == [FULL]
    assert arguments_of((await sessions.history(KEY))[0]) == {"path": "/tmp/file.txt", "deep": [{"n": 1}]}
    assert await data_of(session, noted) == {"deep": {"list": [1]}}
    assert len(session.path()) == len(await session.entries()) == 2
    assert session.labels() == []


@pytest.mark.feature("P-17")
async def test_a_replaced_history_stays_readable(sessions: KeyedSessions, root: Path) -> None:
    for number in range(3):
        await sessions.add_message(KEY, "user", f"old {number}")
    old = (root / "telegram_123456.jsonl").read_bytes()
    session = await sessions.get_or_create(KEY)
    leaf = session.leaf_id
    with pytest.raises(InvalidInput):
        await sessions.set_history(KEY, [message("user", "new"), Message("")])
    assert transcript(await sessions.history(KEY)) == [f"user: old {n}" for n in range(3)]
    ids = await sessions.set_history(KEY, [message("system", "You are helpful."), message("user", "Hello")])
    assert transcript(await sessions.history(KEY)) == ["system: You are helpful.", "user: Hello"]
    assert (root / "telegram_123456.jsonl").read_bytes().startswith(old)
    assert session.path() == ids
    assert session.children(None)[1:] == ids[:1]
    assert transcript([each.message for each in (await session.context(leaf)).messages]) == [
        f"user: old {n}" for n in range(3)
    ]
    assert len(await session.all_messages()) == 5
    await sessions.set_history(KEY, [])
    assert await sessions.history(KEY) == []
    await sessions.add_message(KEY, "user", "and on")
    assert transcript(await sessions.history(KEY)) == ["user: and on"]
    assert len(await session.all_messages()) == 6


# -- the summary and the times


@pytest.mark.feature("P-7", "P-18", "P-19")
async def test_a_summary_is_empty_until_it_is_set_and_persists(root: Path) -> None:
    path = root / "telegram_123456.jsonl"
    async with SessionHost(root) as host:
        sessions = KeyedSessions(host)
        await sessions.add_message(KEY, "user", "Hello!")
        assert await sessions.summary(KEY) == ""
        assert b"summary" not in path.read_bytes()
        await sessions.set_summary(KEY, "User asked about weather.")
        assert json.loads(path.read_bytes().splitlines()[-1])["session_info"] == {
            "summary": "User asked about weather."
        }
    async with SessionHost(root) as host:
        sessions = KeyedSessions(host)
        assert await sessions.summary(KEY) == (await host.get_or_create(KEY)).summary == "User asked about weather."
        assert len(await sessions.history(KEY)) == 1
        await sessions.set_summary(KEY, "")
        assert await sessions.summary(KEY) == ""


@pytest.mark.feature("P-8", "P-9")
async def test_the_creation_time_stays_and_the_update_time_moves(sessions: KeyedSessions, host: SessionHost) -> None:
    session = await sessions.get_or_create(KEY)
    created = session.created
    assert session.updated == created
    times = [created]
    for change in (
        sessions.add_message(KEY, "user", "one"),
        sessions.add_full_message(KEY, FULL),
        sessions.add_full_message(KEY, Message("tool", (tool_result("call_123", "x"),))),
        sessions.set_summary(KEY, "so far"),
        sessions.truncate_history(KEY, 1),
        sessions.set_history(KEY, [message("user", "anew")]),
    ):
        await change
        times.append(session.updated)
    assert times == sorted(set(times))
    await host.passivate_idle()
    again = await sessions.get_or_create(KEY)
    assert (again.created, again.updated) == (created, times[-1])


# -- many


@pytest.mark.feature("P-41")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_starting_with_ten_thousand_conversations_reads_none_of_them(root: Path, disk: FaultyDisk) -> None:
    async with SessionHost(root) as host:
        await KeyedSessions(host).add_message("telegram:0", "user", "Hello")
    for number in range(1, 10_000):
        os.link(root / "telegram_0.jsonl", root / f"telegram_{number}.jsonl")
    disk.reset_counts()
    async with SessionHost(root, disk=disk) as host:
        assert disk.counts["open"] == disk.counts["pread"] == disk.counts["list_directory"] == 0
        assert transcript(await KeyedSessions(host).history("telegram:0")) == ["user: Hello"]
        assert host.statistics().activated == 1
        assert disk.bytes_read <= 4 * (root / "telegram_0.jsonl").stat().st_size


async def test_a_conversation_that_another_process_owns_can_be_read(root: Path) -> None:
    async with SessionHost(root) as owner, SessionHost(root) as other:
        owned, sessions = KeyedSessions(owner), KeyedSessions(other)
        await owned.add_message(KEY, "user", "Hello")
        await owned.set_summary(KEY, "A greeting")
        assert transcript(await sessions.history(KEY)) == ["user: Hello"]
        assert await sessions.summary(KEY) == "A greeting"
        with pytest.raises(SessionLocked):
            await sessions.add_message(KEY, "user", "refused")
        await owned.add_message(KEY, "user", "and on")
        assert transcript(await sessions.history(KEY)) == ["user: Hello", "user: and on"]


async def test_an_archived_conversation_can_be_read_and_the_next_message_unarchives_it(
    sessions: KeyedSessions, host: SessionHost
) -> None:
    await sessions.add_message(KEY, "user", "old")
    await host.archive(await sessions.get_or_create(KEY))
    assert transcript(await sessions.history(KEY)) == ["user: old"]
    assert await sessions.keys() == []
    await sessions.add_message(KEY, "user", "new")
    assert transcript(await sessions.history(KEY)) == ["user: old", "user: new"]
    assert await sessions.keys() == [KEY]


async def test_a_conversation_of_another_program_continues_under_its_key(host: SessionHost, tmp_path: Path) -> None:
    document = {
        "key": "a_b",
        "messages": [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hi."}],
        "summary": "They greeted.",
        "created": "2024-01-15T10:30:00Z",
        "updated": "2024-01-15T10:31:00Z",
    }
    (tmp_path / "a_b.json").write_text(json.dumps(document), encoding="utf-8")
    await host.import_sessions(tmp_path / "a_b.json")
    sessions = KeyedSessions(host)
    assert await sessions.summary("a_b") == "They greeted."
    await sessions.add_message("a_b", "user", "And on.")
    assert transcript(await sessions.history("a_b")) == ["user: Hello!", "assistant: Hi.", "user: And on."]
