"""Stores of frameworks, made here by the statements that the frameworks run: recognized, refused, damaged.

What the frameworks themselves make is imported in tests/adapters, where they are installed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from treering import Session, SessionHost, plain_text
from treering.errors import ForeignFormatError

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
    ],
)
async def test_what_only_resembles_a_store_is_refused_by_name(tmp_path: Path, script: str, name: str) -> None:
    file = database(tmp_path / "other.db", script)
    async with SessionHost() as host:
        with pytest.raises(ForeignFormatError, match="not a session in any known format"):
            await host.import_sessions(file)
        with pytest.raises(ForeignFormatError, match=r"holds no sessions of .*, which have "):
            await host.import_sessions(file, format=name)


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
