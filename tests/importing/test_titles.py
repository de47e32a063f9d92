"""The titles of imported sessions in the listing: the first prompt that a person wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treering import MessageEntry, SessionHost

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


def claude(*asked: tuple[str, bool]) -> str:
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


async def test_a_session_with_only_injected_messages_has_no_title(tmp_path: Path) -> None:
    (tmp_path / "source.jsonl").write_text(codex("<environment_context>/work</environment_context>"))
    async with SessionHost(tmp_path / "sessions") as host:
        (report,) = await host.import_sessions(tmp_path / "source.jsonl")
        session = await host.load(report.id)
        assert [row.title for row in await host.list_sessions()] == [None]
        await session.append_message("user", "Plant.")
        assert [row.title for row in await host.list_sessions()] == ["Plant."]
