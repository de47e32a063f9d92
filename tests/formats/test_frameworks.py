"""Stores of frameworks, made here by the statements that the frameworks run: recognized, refused, damaged.

What the frameworks themselves make is imported in tests/adapters, where they are installed.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from msgspec.msgpack import Ext

from treering import Session, SessionHost, plain_text
from treering.entries import CustomEntry
from treering.errors import ForeignFormatError, UnsupportedVersion

LONG = "b" * 2000
"""A name that can be no key."""

AGENTS = """
CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, message_data TEXT NOT NULL,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (session_id) REFERENCES agent_sessions (session_id) ON DELETE CASCADE);
CREATE INDEX idx_agent_messages_session_id ON agent_messages (session_id, id);
"""


def database(path: Path, script: str, *rows: tuple[str, Sequence[object]]) -> Path:
    """Make a database by a script, with rows of its tables."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
        for table, values in rows:
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
        connection.commit()
    return path


def said(number: int, session: str, words: str) -> tuple[str, Sequence[object]]:
    """Return a row of an item that the user said."""
    data = f'{{"role": "user", "content": "{words}"}}'
    return "agent_messages", (number, session, data, f"2026-05-01 10:00:{number:02}")


async def words(session: Session) -> list[str]:
    """Return what is said in a session."""
    return [plain_text(each.content) for each in await session.messages()]


async def test_the_agents_sdk_need_not_be_installed_and_bad_sessions_cost_themselves(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    began = [("agent_sessions", (name, "2026-05-01 10:00:00", "2026-05-01 10:00:00")) for name in ("a", LONG, "c")]
    rows = [said(1, "a", "one"), said(2, LONG, "two"), said(3, "a", "three"), said(4, "c", "four")]
    file = database(folder / "state.db", AGENTS, *began, *rows)
    async with SessionHost() as host:
        for source in (file, folder):
            reports = await host.import_sessions(source)
            assert [(each.id, each.entries) for each in reports] == [("a", 2), ("c", 1)]
            (failed,) = reports.failed
            assert "state.db" in (failed.path or "")
            assert reports.unknown == 0
        session = await host.get_or_create("a")
        assert await words(session) == ["one", "three"]
        assert [f"{each.timestamp:%H:%M:%S}" for each in await session.entries()] == ["10:00:01", "10:00:03"]


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("CREATE TABLE agent_messages (id INTEGER, session_id TEXT, message_data TEXT)", "openai-agents"),
        ("CREATE TABLE message_data (session_id, created_at, updated_at)", "openai-agents"),
        ("CREATE TABLE sessions (id, state); CREATE TABLE events (id, event_data)", "adk"),
        ("CREATE TABLE checkpoints (thread_id, checkpoint); CREATE TABLE writes (thread_id)", "langgraph"),
    ],
)
async def test_what_only_resembles_a_store_is_refused_by_name(tmp_path: Path, script: str, name: str) -> None:
    file = database(tmp_path / "other.db", script)
    async with SessionHost() as host:
        with pytest.raises(ForeignFormatError, match="not a session in any known format"):
            await host.import_sessions(file)
        with pytest.raises(ForeignFormatError, match=r"holds no sessions of .*, which have "):
            await host.import_sessions(file, format=name)


KIT = """
CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state TEXT, create_time REAL, update_time REAL);
CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT, invocation_id TEXT, timestamp REAL, {0});
CREATE TABLE adk_internal_metadata (key TEXT, value TEXT);
"""


async def test_the_development_kits_other_versions_are_refused_by_name(tmp_path: Path) -> None:
    early = database(tmp_path / "early.db", KIT.format("actions BLOB"))
    late = database(
        tmp_path / "late.db", KIT.format("event_data TEXT"), ("adk_internal_metadata", ("schema_version", "2"))
    )
    async with SessionHost() as host:
        with pytest.raises(ForeignFormatError, match="adk migrate session"):
            await host.import_sessions(early)
        with pytest.raises(UnsupportedVersion, match="the schema '2'"):
            await host.import_sessions(late)


async def test_damaged_events_of_the_development_kit_cost_themselves(tmp_path: Path) -> None:
    events = [
        ("events", (f"e{at}", "app", "ann", "s", "i", 1_700_000_000.5 + at, data))
        for at, data in enumerate(
            [
                '{"author": "user", "content": {"parts": [{"text": "Hello"}]}}',
                '{"author": "us',
                "[]",
                '{"author": "agent", "content": {"parts": [{"text": "Hi"}]}, "actions": {"state_delta": {"a_b": 1}}}',
            ]
        )
    ]
    session = "sessions", ("app", "ann", "s", '{"a_b": 1, "c": 2}', 1_700_000_000.25, 1_700_000_003.5)
    file = database(tmp_path / "kit.db", KIT.format("event_data TEXT"), session, *events)
    async with SessionHost() as host:
        (report,) = await host.import_sessions(file)
        assert [each.message.split("'")[1] for each in report.findings] == ["e1", "e2"]
        own = await host.get_or_create("app/ann/s")
        assert await words(own) == ["Hello", "Hi"]
        (begun, *_) = await own.entries()
        assert isinstance(begun, CustomEntry)
        assert begun.custom.data == {"created": 1_700_000_000.25, "state": {"c": 2}}


SAVER = """
CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, parent_checkpoint_id TEXT, type TEXT,
    checkpoint BLOB, metadata BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
CREATE TABLE writes (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, task_id TEXT, idx INTEGER, channel TEXT,
    type TEXT, value BLOB);
"""


async def test_nothing_that_a_savers_database_names_is_made(tmp_path: Path) -> None:
    pickled = b"cos\nsystem\n(S'touch " + str(tmp_path / "made").encode() + b"'\ntR."
    called = msgspec.msgpack.encode(Ext(2, msgspec.msgpack.encode(["os", "mkdir", {"path": str(tmp_path / "made")}])))
    kept = b"\x82\xa2ts\xa01\xaechannel_values\x81\xa1a".replace(b"\xa01", b"\xa11") + called
    rows = [
        ("checkpoints", ("t", "", "1", None, "pickle", pickled, b"{}")),
        ("checkpoints", ("t", "", "2", "1", "msgpack", b"\x81\xa1", b"{}")),
        ("checkpoints", ("t", "", "3", "2", "msgpack", kept, b"no JSON")),
        ("checkpoints", ("t", "", "4", "3", "json", b'{"channel_values": {"a": [1]}}', b'{"step": 1}')),
        ("writes", ("t", "", "4", "task", 0, "a", "pickle", pickled)),
    ]
    file = database(tmp_path / "saver.db", SAVER, *rows)
    async with SessionHost() as host:
        (report,) = await host.import_sessions(file)
        said = [each.message for each in report.findings]
        assert [("'pickle'" in each, "damaged" in each, "metadata" in each) for each in said] == [
            (True, False, False),
            (False, True, False),
            (False, False, True),
        ]
        assert (report.entries, report.added) == (3, 3)
        (again,) = await host.import_sessions(file)
        assert again.added == 0
    assert not (tmp_path / "made").exists()


async def test_a_database_that_lacks_a_column_costs_itself(tmp_path: Path) -> None:
    checkpoint = "checkpoints", ("t", "", "1", None, "json", b'{"channel_values": {"a": [1]}}')
    database(tmp_path / "saver.db", SAVER.replace(" metadata BLOB,", ""), checkpoint)
    states = "CREATE TABLE app_states (app_name TEXT, state_json TEXT, update_time REAL);"
    database(tmp_path / "kit.db", KIT.format("event_data TEXT") + states, ("app_states", ("app", "{}", 1.0)))
    database(tmp_path / "sdk.db", AGENTS, ("agent_sessions", ("a", "2026-05-01", "2026-05-01")), said(1, "a", "Hi"))
    async with SessionHost() as host:
        reports = await host.import_sessions(tmp_path)
        assert [each.id for each in reports] == ["a"]
        assert {Path(each.path).name: each.message.split("'")[1] for each in reports.failed} == {
            "kit.db": "state",
            "saver.db": "metadata",
        }


async def test_damaged_files_of_strands_cost_themselves(tmp_path: Path) -> None:
    folder = tmp_path / "session_s 1"
    messages = folder / "agents" / "agent_a" / "messages"
    messages.mkdir(parents=True)
    (folder / "session.json").write_text('{"session_id": "s 1", "session_type": "AGENT"}')
    (folder / "agents" / "agent_a" / "agent.json").write_text('{"agent_id": "a", "state": {}}')
    for number in (0, 2, 10):
        said = f'{{"message": {{"role": "user", "content": [{{"text": "{number}"}}]}}, "message_id": {number}}}'
        (messages / f"message_{number}.json").write_text(said)
    (messages / "message_1.json").write_text('{"message": ')
    (messages / "message_3.json").symlink_to(tmp_path / "elsewhere")
    (messages / "message_4.json.tmp").write_text("")
    async with SessionHost() as host:
        reports = await host.import_sessions(tmp_path)
        assert [each.id for each in reports] == [(await host.get_or_create(each)).id for each in ("s%201", "s%201/a")]
        assert [each.message.split()[0] for each in reports[1].findings] == ["message_1.json", "message_3.json"]
        assert await words(await host.get_or_create("s%201/a")) == ["0", "2", "10"]
        assert reports.unknown == 0
        (folder / "session.json").write_text('{"session_id": "s 1"}')
        with pytest.raises(ForeignFormatError):
            await host.import_sessions(tmp_path, format="strands")


async def test_a_torn_line_of_the_agent_framework_costs_itself(tmp_path: Path) -> None:
    lines = [
        f'{{"type":"message","role":"user","contents":[{{"type":"text","text":"{each}"}}],"additional_properties":{{}}}}'
        for each in ("one", "two", "three")
    ]
    file = tmp_path / "s.jsonl"
    file.write_text(f"{lines[0]}\n{lines[1][:50]}{lines[2]}\n{lines[1][:70]}")
    async with SessionHost() as host:
        (report,) = await host.import_sessions(file)
        assert [(each.line, each.code) for each in report.findings] == [(2, "damaged"), (3, "damaged")]
        own = await host.get_or_create("s")
        assert await words(own) == ["one", "three"]
        file.write_text("\n".join([*lines[:2], ""]))  # mended
        (report,) = await host.import_sessions(file)
        assert report.added == 1


async def test_a_damaged_database_is_read_up_to_the_damage(tmp_path: Path) -> None:
    began = [("agent_sessions", (name, "2026-05-01", "2026-05-01")) for name in "ab"]
    rows = [said(number, "b" if number % 50 == 0 else "a", f"{number} " + "x" * 500) for number in range(1, 60)]
    file = database(tmp_path / "torn.db", AGENTS, *began, *rows)
    pages = bytearray(file.read_bytes())
    size = 4096
    last = max(at for at in range(0, len(pages), size) if b'"content": "40 x' in pages[at : at + size])
    pages[last : last + size] = b"\xff" * size
    file.write_bytes(pages)
    async with SessionHost() as host:
        reports = await host.import_sessions(file)
        assert (reports[0].id, "left out" in str(reports[0].findings)) == ("a", True)
        spoken = await words(await host.get_or_create("a"))
        assert spoken
        assert [each.split()[0] for each in spoken] == [str(number) for number in range(1, len(spoken) + 1)]
    assert file.read_bytes() == pages
