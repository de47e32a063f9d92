"""The titles of imported sessions in the listing: the first prompt that a person wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treering import MessageEntry, SessionHost, plain_text

TIME = "2026-03-01T09:00:0{}.000Z"


def codex(*asked: str) -> str:
    meta: dict[str, object] = {"id": "titled", "timestamp": TIME.format(0), "cwd": "/work"}
    lines: list[tuple[str, dict[str, object]]] = [("session_meta", meta)]
    for each in asked:
        part = {"type": "input_text", "text": each}
        lines.append(("response_item", {"type": "message", "role": "user", "content": [part]}))
    return "".join(
        json.dumps({"timestamp": TIME.format(number), "type": kind, "payload": payload}) + "\n"
        for number, (kind, payload) in enumerate(lines)
    )


def claude(*asked: tuple[object, bool]) -> str:
    lines = [
        {
            "type": "user",
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": "titled",
            "timestamp": TIME.format(number),
            "isMeta": is_meta,
            "message": {"role": "user", "content": words},
        }
        for number, (words, is_meta) in enumerate(asked)
    ]
    return "".join(json.dumps(each) + "\n" for each in lines)


SOURCES = {
    "codex": codex("# AGENTS.md instructions for /work", "<environment_context>/work</environment_context>", "Plant."),
    "claude-code": claude(("<local-command-caveat>Caveat: ...</local-command-caveat>", True), ("Plant.", False)),
}


CLEARED = (
    "<command-name>/clear</command-name>\n  <command-message>clear</command-message>\n  <command-args></command-args>"
)
BOOKKEEPING = (
    CLEARED,
    "<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>12</command-args>",
    "<command-args>12</command-args>",
    "<local-command-stdout></local-command-stdout>",
    "<local-command-stderr>not found</local-command-stderr>",
    "<local-command-caveat>Caveat: ...</local-command-caveat>",
    "<bash-input>ls</bash-input>",
    "<bash-stdout>a\n</bash-stdout><bash-stderr></bash-stderr>",
    "<task-notification>\n<task-id>7</task-id>\n</task-notification>",
    "[Request interrupted by user]",
    "[Request interrupted by user for tool use]",
    "<ide_opened_file>The user opened a.py.</ide_opened_file>\n",
    "<system-reminder>\nOnce.\n</system-reminder>\n<system-reminder>Twice.</system-reminder>",
)


@pytest.mark.parametrize("name", SOURCES)
async def test_text_that_the_program_injects_as_the_user_does_not_become_the_title(name: str, tmp_path: Path) -> None:
    (tmp_path / "source.jsonl").write_text(SOURCES[name])
    async with SessionHost(tmp_path / "sessions") as host:
        (report,) = await host.import_sessions(tmp_path / "source.jsonl")
        session = await host.load(report.id)
        entries = [each for each in await session.entries() if isinstance(each, MessageEntry)]
        assert [each.message.metadata.get("is_meta", False) for each in entries] == [True] * (len(entries) - 1) + [
            False
        ]
        (row,) = await host.list_sessions()
        assert (row.title, row.first_message) == ("Plant.", "Plant.")
    async with SessionHost(tmp_path / "sessions") as host:
        (row,) = await host.list_sessions()
        assert row.title == "Plant."


@pytest.mark.parametrize("line", BOOKKEEPING)
@pytest.mark.parametrize("in_parts", [False, True])
async def test_bookkeeping_of_commands_in_claude_code_is_kept_and_gives_no_title(
    line: str, in_parts: bool, tmp_path: Path
) -> None:
    content = [{"type": "text", "text": CLEARED}, {"type": "text", "text": line}] if in_parts else line
    (tmp_path / "source.jsonl").write_text(claude((content, False), ("Plant.", False), ("Water.", False)))
    async with SessionHost(tmp_path / "sessions") as host:
        (report,) = await host.import_sessions(tmp_path / "source.jsonl")
        session = await host.load(report.id)
        messages = await session.messages()
        assert [each.role for each in messages] == ["user"] * 3
        assert [plain_text([part]) for part in messages[0].content] == ([CLEARED, line] if in_parts else [line])
        (row,) = await host.list_sessions()
        assert (row.title, row.first_message, row.message_count) == ("Plant.", "Plant.", 3)
        (again,) = await host.import_sessions(tmp_path / "source.jsonl")
        assert again.added == 0


@pytest.mark.parametrize(
    "asked",
    [
        "<div> is not centered",
        "What does <command-name> mean?",
        "<command> is missing",
        "<system-reminder>Once.</system-reminder>\nPlant.",
        "[Request] interrupted",
    ],
)
async def test_what_a_person_wrote_gives_a_title_whatever_it_begins_with(asked: str, tmp_path: Path) -> None:
    (tmp_path / "source.jsonl").write_text(claude((CLEARED, False), (asked, False), ("Water.", False)))
    async with SessionHost(tmp_path / "sessions") as host:
        await host.import_sessions(tmp_path / "source.jsonl")
        assert [row.title for row in await host.list_sessions()] == [" ".join(asked.split())]


async def test_a_prompt_with_a_notice_or_an_image_beside_it_gives_a_title(tmp_path: Path) -> None:
    notice = {"type": "text", "text": "<ide_selection>1 to 3</ide_selection>"}
    prompt = {"type": "text", "text": "Plant."}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    for number, content in enumerate(([notice, prompt], [notice, image])):
        source = tmp_path / f"{number}.jsonl"
        source.write_text(claude((content, False), ("Water.", False)).replace("titled", f"titled-{number}"))
    async with SessionHost(tmp_path / "sessions") as host:
        for number in range(2):
            await host.import_sessions(tmp_path / f"{number}.jsonl")
        titles = {row.id: row.title for row in await host.list_sessions()}
    assert titles.keys() == {"titled-0", "titled-1"}
    assert "Water." not in titles.values()


async def test_a_session_with_only_injected_messages_has_no_title(tmp_path: Path) -> None:
    (tmp_path / "source.jsonl").write_text(codex("<environment_context>/work</environment_context>"))
    async with SessionHost(tmp_path / "sessions") as host:
        (report,) = await host.import_sessions(tmp_path / "source.jsonl")
        session = await host.load(report.id)
        assert [row.title for row in await host.list_sessions()] == [None]
        await session.append_message("user", "Plant.")
        assert [row.title for row in await host.list_sessions()] == ["Plant."]
