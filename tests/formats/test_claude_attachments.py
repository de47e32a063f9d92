"""Attachments of Claude Code: those that the model was sent for what they contain become messages, in their place."""

import json
from pathlib import Path

import pytest

from treering import SessionHost
from treering.events.content import ImagePart, plain_text
from treering.events.entries import KnownEntry, MessageEntry
from treering.events.errors import ForeignFormatError

from .conftest import ReadSessions

Line = dict[str, object]


def line(uuid: str, parent: str | None, **fields: object) -> Line:
    return {"uuid": uuid, "parentUuid": parent, "sessionId": "s1", "timestamp": "2026-03-01T09:00:00.000Z", **fields}


def prompt(uuid: str, parent: str | None, content: object = "Hello") -> Line:
    return line(uuid, parent, type="user", message={"role": "user", "content": content})


def answer(uuid: str, parent: str | None, *content: Line, message: str = "m1") -> Line:
    return line(
        uuid, parent, type="assistant", message={"id": message, "role": "assistant", "model": "c", "content": content}
    )


def attachment(uuid: str, parent: str | None, type: str, **fields: object) -> Line:
    return line(uuid, parent, type="attachment", attachment={"type": type, **fields})


def call(call_id: str) -> Line:
    return {"type": "tool_use", "id": call_id, "name": "Read", "input": {}}


def result(uuid: str, parent: str, call_id: str) -> Line:
    return prompt(uuid, parent, [{"type": "tool_result", "tool_use_id": call_id, "content": "done"}])


def hook(uuid: str, parent: str | None) -> Line:
    return attachment(uuid, parent, "hook_additional_context", hookName="Check", content=["Mind the oven."])


def transcript(folder: Path, *lines: Line) -> Path:
    path = folder / "s1.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def ids(entries: list[KnownEntry]) -> list[str]:
    return [entry.id for entry in entries]


def text_file(content: str) -> Line:
    return {"type": "text", "file": {"filePath": "/a.py", "content": content, "numLines": 1}}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": "file", "filename": "/a.py", "content": text_file("print()")}, ["/a.py", "print()"]),
        ({"type": "file", "filename": "/a.pdf", "content": {"type": "pdf", "file": {}}}, ["[file: /a.pdf]"]),
        ({"type": "file", "filename": "/a.py", "content": None}, ["[file: /a.py]"]),
        ({"type": "directory", "path": "/src", "content": "a.py\nb.py"}, ["/src", "a.py\nb.py"]),
        ({"type": "edited_text_file", "filename": "/a.py", "snippet": "1\tpass"}, ["/a.py", "1\tpass"]),
        ({"type": "nested_memory", "path": "/C.md", "content": {"content": "Be kind."}}, ["/C.md", "Be kind."]),
        ({"type": "plan_file_reference", "planFilePath": "/p.md", "planContent": "Bake."}, ["/p.md", "Bake."]),
        (
            {"type": "selected_lines_in_ide", "filename": "/a.py", "lineStart": 3, "lineEnd": 4, "content": "x = 1"},
            ["3 to 4 of /a.py", "x = 1"],
        ),
        ({"type": "invoked_skills", "skills": [{"name": "bake", "content": "Knead."}]}, ["bake", "Knead."]),
        ({"type": "hook_additional_context", "hookName": "H", "content": ["One.", "Two."]}, ["H", "One.\nTwo."]),
        ({"type": "hook_additional_context", "hookName": "H", "content": "One."}, ["H", "One."]),
        ({"type": "hook_success", "hookName": "H", "hookEvent": "SessionStart", "content": "Up."}, ["H", "Up."]),
        ({"type": "hook_blocking_error", "hookName": "H", "blockingError": {"blockingError": "No."}}, ["H", "No."]),
        ({"type": "hook_stopped_continuation", "hookName": "H", "message": "Enough."}, ["H", "Enough."]),
    ],
)
def test_an_attachment_with_content_becomes_a_message_of_claude_code(
    tmp_path: Path, read_sessions: ReadSessions, fields: Line, words: list[str]
) -> None:
    lines = (prompt("u1", None), line("a1", "u1", type="attachment", attachment=fields), answer("b1", "a1"))
    (session,) = read_sessions(transcript(tmp_path, *lines))
    assert ids(session.path()) == ["u1", "a1", "b1"]
    message = session.messages[1]
    assert (message.role, message.metadata["is_meta"]) == ("user", True)
    shown = plain_text(message.content)
    assert all(each in shown for each in words)
    assert not session.findings


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "todo_reminder", "content": [{"content": "Bake."}]},
        {"type": "skill_listing", "content": "- bake"},
        {"type": "hook_success", "hookEvent": "PostToolUse", "content": "fine"},
        {"type": "hook_success", "hookEvent": "SessionStart", "content": ""},
        {"type": "hook_success"},
        {"type": "hook_additional_context", "content": []},
    ],
)
def test_an_attachment_that_only_reminds_is_counted(tmp_path: Path, read_sessions: ReadSessions, fields: Line) -> None:
    lines = (prompt("u1", None), line("a1", "u1", type="attachment", attachment=fields), answer("b1", "a1"))
    (session,) = read_sessions(transcript(tmp_path, *lines))
    assert ids(session.path()) == ["u1", "b1"]
    (finding,) = session.findings
    assert (finding.code, finding.severity) == ("skipped", "note")
    assert f"attachment/{fields['type']}" in finding.message


def test_an_attached_picture_is_an_image(tmp_path: Path, read_sessions: ReadSessions) -> None:
    content = {"type": "image", "file": {"type": "image/png", "base64": "aGk=", "originalSize": 2}}
    lines = (prompt("u1", None), attachment("a1", "u1", "file", filename="/a.png", content=content))
    (session,) = read_sessions(transcript(tmp_path, *lines))
    _, picture = session.messages[1].content
    assert isinstance(picture, ImagePart)
    assert (picture.image.source.media_type, picture.image.source.data) == ("image/png", "aGk=")


def test_an_attachment_to_a_call_follows_its_result(tmp_path: Path, read_sessions: ReadSessions) -> None:
    lines = (
        prompt("u1", None),
        answer("b1", "u1", call("c1")),
        hook("a1", "b1"),
        result("r1", "a1", "c1"),
        answer("b2", "r1", message="m2"),
    )
    (session,) = read_sessions(transcript(tmp_path, *lines))
    assert ids(session.path()) == ["u1", "b1", "r1", "a1", "b2"]


async def test_a_transcript_that_ends_with_an_attachment_to_a_call_continues_with_its_result(tmp_path: Path) -> None:
    lines = (
        prompt("u1", None),
        answer("b1", "u1", call("c1"), call("c2")),
        hook("a1", "b1"),
        result("r1", "a1", "c1"),
        hook("a2", "r1"),
        result("r2", "a2", "c2"),
        hook("a3", "r2"),
        answer("b2", "a3", message="m2"),
    )
    for count in range(1, len(lines)):
        async with SessionHost(tmp_path / f"root {count}") as host:
            await host.import_sessions(transcript(tmp_path, *lines[:count]))
            (report,) = await host.import_sessions(transcript(tmp_path, *lines))
            assert (await host.load(report.id)).path() == ["u1", "b1", "r1", "r2", "a1", "a2", "a3", "b2"]


def test_an_attachment_within_an_answer_does_not_part_it(tmp_path: Path, read_sessions: ReadSessions) -> None:
    lines = (
        prompt("u1", None),
        answer("b1", "u1", call("c1")),
        hook("a1", "b1"),
        answer("b2", "a1", call("c2")),
        result("r1", "b1", "c1"),
        result("r2", "b2", "c2"),
        answer("b3", "r2", message="m2"),
    )
    (session,) = read_sessions(transcript(tmp_path, *lines))
    called = next(entry for entry in session.entries if isinstance(entry, MessageEntry) and entry.id == "b1")
    assert len(called.message.content) == 2
    assert [each for each in ids(session.path()) if each != "a1"] == ["u1", "b1", "r1", "r2", "b3"]
    assert "a1" in ids(session.entries)


def test_what_a_hook_wrote_comes_first_and_is_no_session_alone(tmp_path: Path, read_sessions: ReadSessions) -> None:
    first, elsewhere = hook("a1", None), {**hook("a2", None), "sessionId": "s2"}
    (session,) = read_sessions(transcript(tmp_path, first, prompt("u1", "a1"), elsewhere))
    assert ids(session.path()) == ["a1", "u1"]
    assert session.codes() == ["alone"]
    with pytest.raises(ForeignFormatError, match="no messages"):
        read_sessions(transcript(tmp_path, first, elsewhere), "claude-code")
