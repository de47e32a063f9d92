"""The titles of imported sessions in the listing: the first prompt that a person wrote."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from treering import Session, SessionHost, SessionSummary, plain_text

Import = Callable[[str], Awaitable[tuple[Session, SessionSummary]]]

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


def codex_parts(*parts: str) -> str:
    first, prompt = codex("").splitlines(keepends=True)
    line = json.loads(prompt)
    line["payload"]["content"] = [{"type": "input_text", "text": each} for each in parts]
    return first + json.dumps(line) + "\n"


def gemini(*asked: object) -> str:
    times = {"startTime": TIME.format(0), "lastUpdated": TIME.format(0)}
    lines: list[dict[str, object]] = [{"sessionId": "titled", "projectHash": "ab", **times}]
    lines += [
        {"id": f"u{at}", "timestamp": TIME.format(at), "type": "user", "content": each} for at, each in enumerate(asked)
    ]
    return "".join(json.dumps(each) + "\n" for each in lines)


def qwen(*parts: str) -> str:
    message = {"role": "user", "parts": [{"text": each} for each in parts]}
    return json.dumps(
        {"uuid": "u", "parentUuid": None, "sessionId": "titled", "timestamp": TIME.format(0), "message": message}
    )


def opencode(*parts: dict[str, object], title: str = "New session - 2026-03-01T09:00:00.000Z") -> str:
    stored = [{"id": f"prt_{at}", "type": "text", **part} for at, part in enumerate(parts)]
    info = {"id": "msg_1", "role": "user", "time": {"created": 1}}
    session = {"id": "ses_titled", "title": title, "time": {"created": 1}}
    return json.dumps({"info": session, "messages": [{"info": info, "parts": stored}]})


def texts(*words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": each} for each in words]


SET_UP = "<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat.\n</session_context>"
HOOK = "<hook_context>Sunday</hook_context>"
OLD_SET_UP = "This is the Gemini CLI. We are setting up the context for our chat.\nToday's date is Sunday."
AGENTS_MD = "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>"
ENVIRONMENT = "<environment_context>\n  <cwd>/work</cwd>\n</environment_context>"
IDE = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\n"
REMINDER = "<system-reminder>\nToday is Sunday.\n</system-reminder>"
PREAMBLES = {
    "gemini, a message before": gemini([{"text": SET_UP}], [{"text": "Plant."}]),
    "gemini, an old message before": gemini(OLD_SET_UP, "Plant."),
    "gemini, parts before": gemini(
        [{"text": SET_UP}, {"text": "<hook_context>Sunday</hook_context>"}, {"text": "Plant."}]
    ),
    "gemini, in one text": gemini(f"{SET_UP}\n\nPlant."),
    "codex, messages before": codex(AGENTS_MD, ENVIRONMENT, "Plant."),
    "codex, one message before": codex_parts(AGENTS_MD, ENVIRONMENT) + codex("Plant.").splitlines()[1],
    "codex, parts before": codex_parts(AGENTS_MD, ENVIRONMENT, "Plant."),
    "codex, in one text": codex(f"{AGENTS_MD}\n\n{ENVIRONMENT}\nPlant."),
    "codex, what the editor shows": codex(f"{IDE}Plant."),
    "claude-code, messages before": claude((texts(REMINDER), False), ("Plant.", False)),
    "claude-code, parts before": claude((texts(REMINDER, "<ide_selection>1 to 3</ide_selection>", "Plant."), False)),
    "claude-code, in one text": claude((f"{REMINDER}\n<ide_opened_file>a.py</ide_opened_file>\nPlant.", False)),
    "opencode, parts before": opencode({"text": "Called the Read tool.", "synthetic": True}, {"text": "Plant."}),
    "opencode, a part after": opencode({"text": "Plant."}, {"text": "Called the Read tool.", "synthetic": True}),
    "qwen, in one text": qwen(f"{REMINDER}\nPlant."),
    "qwen, parts after": qwen(
        "Plant.", "\n--- Content from referenced files ---", "\nContent from a.py:\n", "x", "\n--- End of content ---"
    ),
    "claude-code, parts around": claude((texts(REMINDER, "Plant.", REMINDER), False)),
}

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


@pytest.fixture
def imported(host: SessionHost, tmp_path: Path) -> Import:
    """Import a source, and once more, which adds nothing; return the session and its row in the listing."""

    async def written(source: str) -> tuple[Session, SessionSummary]:
        path = tmp_path / "source.jsonl"
        path.write_text(source)
        (report,) = await host.import_sessions(path)
        assert [each.added for each in await host.import_sessions(path)] == [0]
        (row,) = await host.list_sessions()
        return await host.load(report.id), row

    return written


@pytest.mark.parametrize("name", SOURCES)
async def test_text_that_a_program_injects_as_the_user_is_no_title(name: str, imported: Import, root: Path) -> None:
    session, row = await imported(SOURCES[name])
    assert (row.title, row.first_message) == ("Plant.", "Plant.")
    *injected, asked = [message.metadata.get("is_meta", False) for message in await session.messages()]
    assert ({*injected}, asked) == ({True}, False)
    async with SessionHost(root) as again:
        assert [row.title for row in await again.list_sessions()] == ["Plant."]


@pytest.mark.parametrize("shape", PREAMBLES)
@pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])
async def test_what_programs_write_before_a_prompt_is_nobodys_first_words(shape: str, imported: Import) -> None:
    session, row = await imported(PREAMBLES[shape])
    assert (row.title, row.first_message) == ("Plant.", "Plant.")
    whole = "\n".join(plain_text(each.content) for each in await session.messages())
    assert whole.count("Plant.") == 1
    assert len(whole) > len("Plant.")


@pytest.mark.parametrize("line", BOOKKEEPING)
@pytest.mark.parametrize("in_parts", [False, True])
async def test_bookkeeping_of_claude_code_is_kept_and_no_title(line: str, in_parts: bool, imported: Import) -> None:
    content = texts(CLEARED, line) if in_parts else line
    session, row = await imported(claude((content, False), ("Plant.", False), ("Water.", False)))
    messages = await session.messages()
    assert [each.role for each in messages] == ["user"] * 3
    assert [plain_text([part]) for part in messages[0].content] == ([CLEARED, line] if in_parts else [line])
    assert (row.title, row.first_message, row.message_count) == ("Plant.", "Plant.", 3)


NOTICE, PROMPT = texts("<ide_selection>1 to 3</ide_selection>", "Plant.")
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        *((each, each) for each in ("<div> is not centered", "What does <command-name> mean?")),
        *((each, each) for each in ("<command> is missing", "[Request] interrupted")),
        ([NOTICE, PROMPT], "Plant."),
        ([NOTICE, IMAGE], "Water."),  # a picture has no words
    ],
)
async def test_what_a_person_wrote_is_a_title_however_it_begins(asked: object, title: str, imported: Import) -> None:
    _, row = await imported(claude((CLEARED, False), (asked, False), ("Water.", False)))
    assert row.title == title


async def test_a_session_with_only_injected_messages_has_no_title(host: SessionHost, imported: Import) -> None:
    session, row = await imported(codex("<environment_context>/work</environment_context>"))
    assert row.title is None
    await session.append_message("user", "Plant.")
    assert [row.title for row in await host.list_sessions()] == ["Plant."]


@pytest.mark.parametrize("own", [None, "Mine"])
async def test_a_title_that_comes_after_the_first_import_is_the_sessions(own: str | None, imported: Import) -> None:
    """Unless a person gave it one here. The session follows its source as before."""
    session, row = await imported(claude(("Plant.", False)))
    if own is not None:
        await session.set_title(own)
    for asked in ((), (("Water.", False),)):
        title = json.dumps({"type": "ai-title", "sessionId": "titled", "aiTitle": "Planting"})
        session, row = await imported(claude(("Plant.", False), *asked) + title + "\n")
        assert row.title == (own or "Planting")
        assert len(await session.messages()) == 1 + len(asked if own is None else ())
