"""What resembles sessions of programs that treering reads is refused by name; each database is opened once for all."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from treering.errors import ForeignFormatError
from treering.formats.programs import formats
from treering.formats.walk import Walk

ASKED: Any = {"role": "user", "content": [{"type": "text", "text": "Bake bread."}]}
CALLED: Any = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {"at": "."}}]}


def claims(path: Path) -> list[str]:
    head = path.read_bytes()
    return [each.name for each in formats() if each.detects(path, head)]


def test_a_database_is_opened_once_for_all_such_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chat.db"
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect
    connection = connect(path)
    connection.executescript("CREATE TABLE sessions(id, created_at); CREATE TABLE messages(id, session_id, content);")
    connection.close()
    opened: list[str] = []

    def counted(database: str, **options: Any) -> sqlite3.Connection:  # noqa: ANN401
        opened.append(database)
        return connect(database, **options)

    monkeypatch.setattr(sqlite3, "connect", counted)
    assert claims(path) == []
    assert len(opened) == 1
    connection = connect(path)
    connection.executescript("CREATE TABLE session(id); CREATE TABLE message(id); CREATE TABLE part(id);")
    connection.close()
    assert claims(path) == ["opencode"], "what it holds now counts"


@pytest.mark.feature("A-34")
def test_a_task_of_cline_in_an_editor_is_refused_by_name(tmp_path: Path) -> None:
    task = tmp_path / "tasks" / "1795816548536"
    task.mkdir(parents=True)
    path = task / "api_conversation_history.json"
    path.write_text(json.dumps([ASKED, CALLED]))
    assert claims(path) == ["dive"]  # its content alone does not tell
    (task / "ui_messages.json").write_text(json.dumps([{"ts": 1, "type": "say", "say": "task", "text": "Bake."}]))
    (task / "task_metadata.json").write_text(json.dumps({"files_in_context": [], "model_usage": []}))
    with pytest.raises(ForeignFormatError, match="a task of Cline in an editor"):
        list(Walk(path).sessions())
    walk = Walk(tmp_path)
    assert list(walk.sessions()) == []
    assert ([path for path, _ in walk.failed], walk.unknown) == ([path], 0)
    assert "a task of Cline in an editor" in walk.nothing().message
