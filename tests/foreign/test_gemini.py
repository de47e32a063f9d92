"""Sessions of Gemini CLI: later lines replace earlier ones, and what was rewound stays on its branch."""

from __future__ import annotations

import json
from pathlib import Path

from treering.events.content import ImagePart, TextPart, ThinkingPart, ToolResultPart, ToolUsePart, plain_text
from treering.events.entries import CustomEntry, ModelChangeEntry, SessionInfoEntry, Usage

from .conftest import Take

HEAD = {"sessionId": "g-1", "projectHash": "h", "startTime": "2026-03-01T09:00:00.000Z"}


def log(path: Path, *lines: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in (HEAD, *lines)))
    return path


def user(key: str, text: str = "") -> dict[str, object]:
    return {"id": key, "type": "user", "content": text or key}


def test_a_session_is_read_with_the_last_line_of_each_message(data: Path, take: Take) -> None:
    (session,) = take(data / "gemini.jsonl")
    assert (session.header.id, session.header.cwd) == ("5a5a5a5a-0000-4000-8000-000000000001", "/work/bakery")
    assert session.roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "user"]
    first, answer, result = session.messages[:3]
    assert [type(part) for part in first.content] == [TextPart, ImagePart]
    thought, words, call = answer.content
    assert isinstance(thought, ThinkingPart)
    assert thought.thinking.content == "Looking\n\nThe folder first."
    assert plain_text([words]) == "Let me look."
    assert isinstance(call, ToolUsePart)
    assert call.tool_use.input == {"path": "."}
    assert answer.usage == Usage(60, 25, 40, 0, 125)
    (part,) = result.content
    assert isinstance(part, ToolResultPart)
    assert (part.tool_result.tool_use_id, part.tool_result.content) == ("ls_1", "bread.md\ncake.md")
    assert result.tool_name == "list_directory"
    models = [entry.model_change.model_id for entry in session.entries if isinstance(entry, ModelChangeEntry)]
    assert models == ["gemini-3-pro", "gemini-3-flash"]
    infos = [entry.session_info.description for entry in session.entries if isinstance(entry, SessionInfoEntry)]
    assert infos == ["The recipes"]


def test_what_was_rewound_stays_on_its_branch(data: Path, take: Take) -> None:
    (session,) = take(data / "gemini.jsonl")
    assert session.leaf_id == "i1"
    path = [entry.id for entry in session.path()]
    assert [each for each in path if each in ("g2", "u2", "g3", "u3", "i1")] == ["g2", "u3", "i1"]
    assert [entry.id for entry in session.path("g3")][-3:-1] != ["g2", "u3"]
    assert isinstance(session.entries[-1], CustomEntry), "what is no message is no message here"


def test_a_rewind_at_the_end_is_where_the_session_stands(tmp_path: Path, take: Take) -> None:
    (session,) = take(log(tmp_path / "s.jsonl", user("a"), user("b"), {"$rewindTo": "b"}))
    assert session.leaf_id == "a"
    assert [entry.id for entry in session.entries] == ["a", "b"]


def test_a_rewind_to_what_is_not_there_begins_anew(tmp_path: Path, take: Take) -> None:
    (session,) = take(log(tmp_path / "s.jsonl", user("a"), {"$rewindTo": "x"}, user("b")))
    assert [entry.parent_id for entry in session.entries] == [None, None]
    (session,) = take(log(tmp_path / "s.jsonl", user("a"), {"$rewindTo": "a"}))
    assert [entry.type for entry in session.path()] == ["custom"]


def test_a_history_that_was_replaced_goes_on_where_both_agree(tmp_path: Path, take: Take) -> None:
    new = [user("a"), user("b", "shorter"), user("d")]
    path = log(tmp_path / "s.jsonl", user("a"), user("b"), user("c"), {"$set": {"messages": new}}, user("e"))
    (session,) = take(path)
    assert [plain_text(message.content) for message in session.messages] == ["a", "b", "c", "shorter", "d", "e"]
    texts = {
        entry.id: plain_text(message.content) for entry, message in zip(session.entries, session.messages, strict=True)
    }
    assert [texts[entry.id] for entry in session.path()] == ["a", "shorter", "d", "e"]
    assert [texts[entry.id] for entry in session.path("c")] == ["a", "b", "c"]


def test_the_older_document_is_read(data: Path, take: Take) -> None:
    (session,) = take(data / "gemini.json")
    assert session.header.id == "session-2026-03-01T09-00-5b5b5b5b"
    assert session.roles == ["user", "assistant", "tool", "assistant"]
    (part,) = session.messages[2].content
    assert isinstance(part, ToolResultPart)
    assert part.tool_result.is_error
    assert part.tool_result.content == "command not found"
    assert plain_text(session.messages[3].content) == "pytest is missing."


def test_all_sessions_below_a_folder_are_read(data: Path, tmp_path: Path, take: Take) -> None:
    chats = tmp_path / "hash" / "chats"
    chats.mkdir(parents=True)
    log(chats / "session-1.jsonl", user("a"))
    (chats / "session-2.json").write_bytes((data / "gemini.json").read_bytes())
    assert [len(session.messages) for session in take(tmp_path)] == [1, 4]
    assert [len(session.messages) for session in take(tmp_path, "gemini")] == [1, 4]
