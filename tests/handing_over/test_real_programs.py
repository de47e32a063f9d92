"""The real programs resume what is handed over to them, and what they go on to say comes back.

The model is scripted and on this machine; the words are read from the requests that the programs send to it.
"""

import hashlib
import json
import os
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from treering import MessageEntry, Session, SessionHost, plain_text
from treering.entries import Message, ToolResultPart, ToolUsePart
from treering.formats.handing_over.targets import target_names
from treering.sessions import HandedOver

from .given import PNG, WORDS, make_given, words_of
from .programs import Program, are_installable, installed, node_version
from .scripted_model import scripted_model

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not are_installable(), reason="node and npm are not installed"),
]


TURNS = ("echo printed-0", "echo printed-1", "exit 3", "touch started; sleep 20", "echo printed-4")
"""What the model runs in each turn of a program's own conversation, which is resumed for each but the first one."""

FAILS, INTERRUPTED = 2, 3
"""The turn of which the call fails, and the one that is interrupted while its call runs."""

FOLDER_SAID = "W-rk-dir-x-y"
"""The project's folder as programs name their own after it, which Qwen Code tells its model."""

FOLDERS = {
    "claude-code": ".claude",
    "codex": ".codex",
    "gemini": ".gemini",
    "opencode": ".local/share/opencode",
    "pi": ".pi",
    "copilot": ".copilot",
    "kimi": ".kimi-code",
    "qwen": ".qwen",
}

KIMI = pytest.param("kimi", marks=pytest.mark.skipif(node_version() < 22, reason="Kimi Code needs node 22"))


def conversation(body: dict[str, Any]) -> str:
    """The part of a request that holds the conversation, as text; of each message, what was thought comes first."""
    messages = next(body[name] for name in ("messages", "input", "contents") if name in body)
    ordered = [dict(sorted(each.items(), key=lambda field: field[0] != "reasoning_content")) for each in messages]
    return json.dumps(ordered, ensure_ascii=False)


def fingerprints(folder: Path) -> dict[Path, str]:
    return {each: hashlib.sha256(each.read_bytes()).hexdigest() for each in folder.rglob("*") if each.is_file()}


def check_request(body: dict[str, Any], handed: HandedOver, prompt: str) -> None:
    """Check that a request holds the path, whole and in order, but for what was said to be left out."""
    said = conversation(body).replace(FOLDER_SAID, "")
    left_out = [word for each in handed.left_out for word in words_of(each.text)]
    assert words_of(said) == [word for word in WORDS if word not in left_out]
    assert said.count(PNG) == 1
    assert said.rindex(prompt) > said.rindex(WORDS[-1])


async def said_after(session: Session, leaf: str) -> list[tuple[str, str]]:
    """The prompts and answers below an entry, down to the leaf, without what a program says for itself."""
    path = session.path()
    entries = [await session.entry(each) for each in path[path.index(leaf) + 1 :]]
    messages = [each.message for each in entries if isinstance(each, MessageEntry)]
    shown = [each for each in messages if not each.metadata.get("is_meta") and each.role != "system"]
    return [(each.role, plain_text(each.content)) for each in shown if each.role != "tool"]


def home_of(program: str, home: Path) -> Path:
    return home / FOLDERS[program]


async def hand_over_given(root: Path, program: str, project: Path) -> HandedOver:
    """Make the session `given` and hand it over, after everything else in the home, which stays as it is."""
    async with SessionHost(root) as host:
        return await (await make_given(host)).hand_over(program, cwd=project)


async def check_given(root: Path, source: Path, prompts: list[str]) -> None:
    """Import what a program wrote, twice, and check that the session `given` has each turn once and in order."""
    async with SessionHost(root) as host:
        for _ in range(2):
            await host.import_sessions(source)
        async with await host.load("given") as session:
            (record,) = await session.entries(custom_type="treering.handed_over")
            said = await said_after(session, record.parent_id or "")
            assert [role for role, _ in said] == ["user", "assistant", "assistant"] * len(prompts)
            said_prompts = [words.strip('"') for role, words in said if role == "user"]  # opencode quotes them
            assert said_prompts == prompts
            answers = [words for role, words in said if role == "assistant"]
            assert len({*answers}) == len(answers)
            assert all(words.startswith("answer-") for words in answers)
            path = [await session.entry(each) for each in session.path()]
            messages = [each.message for each in path if isinstance(each, MessageEntry)]
            assert [each.role for each in messages].count("tool") == 3 + len(prompts)
            words = words_of("".join(str(each.content) for each in messages))
            assert [word for word, _ in groupby(words)] == WORDS


@pytest.mark.feature("A-37", "A-38")
@pytest.mark.parametrize("program", target_names())
def test_a_program_goes_on_with_the_session_and_gives_it_back(
    program: str, tmp_path: Path, home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, prompts = tmp_path / "root", list[str]()
    with scripted_model() as model:
        real = Program(program, home, project, model.url)
        real.run("A session of its own.")
        monkeypatch.setenv("PATH", f"{installed()}{os.pathsep}{os.environ['PATH']}")
        before = fingerprints(home)
        handed = anyio.run(hand_over_given, root, program, project)
        after = fingerprints(home)
        changed = {each.relative_to(home) for each in before if after.get(each) != before[each]}
        assert all(str(each).startswith(FOLDERS["opencode"]) for each in changed)  # its own command wrote there
        for turn, command in enumerate(("echo printed-1", "exit 3", "echo printed-2")):
            model.requests.clear()
            prompts.append(f"Prompt number {turn}. [[{command}]]")
            real.run(prompts[-1], handed.id)
            first, second = model.talks()[:2]
            check_request(first, handed, prompts[-1])
            check_request(second, handed, prompts[-1])
            anyio.run(check_given, root, home_of(program, home), prompts)


async def imported(root: Path, source: Path, prompts: list[str]) -> tuple[str, list[Message]]:
    """Import what a program wrote by itself, twice; return the session's id, and what was said on its path."""
    async with SessionHost(root) as host:
        for _ in range(2):
            reports = await host.import_sessions(source)
        (session_id,) = {each.id for each in reports if each.messages}
        async with await host.load(session_id) as session:
            path = [await session.entry(each) for each in session.path()]
        title = (await host.resolve(session_id)).title
    assert title is not None
    assert prompts[0][:20] in title or title.startswith("answer-")  # which opencode asks the model for
    messages = [each.message for each in path if isinstance(each, MessageEntry)]
    return session_id, [each for each in messages if not each.metadata.get("is_meta") and each.role != "system"]


async def check_turns(root: Path, source: Path, prompts: list[str]) -> str:
    """Import what a program wrote by itself, check each turn, and return the session's id."""
    session_id, shown = await imported(root, source, prompts)
    starts = [at for at, each in enumerate(shown) if each.role == "user"]
    assert [plain_text(shown[at].content).strip('"') for at in starts] == prompts  # opencode quotes them
    assert starts[0] == 0
    answers: list[str] = []
    for number, (start, end) in enumerate(pairwise((*starts, len(shown)))):
        turn = shown[start + 1 : end]
        said = [plain_text(each.content) for each in turn if each.role == "assistant"]
        said = [each for each in said if number != INTERRUPTED or each.startswith("answer-")]
        parts = [part for each in turn for part in each.content]
        calls = [part.tool_use for part in parts if isinstance(part, ToolUsePart)]
        results = [part.tool_result for part in parts if isinstance(part, ToolResultPart)]
        assert all(TURNS[number] in json.dumps(each.input) for each in calls)
        if number == INTERRUPTED:  # some programs record no result, and Gemini CLI no call that has not ended
            assert len(calls) <= 1
            assert [each.tool_use_id for each in results] in ([], [each.id for each in calls])
            assert len(said) >= 1
        else:
            assert [each.role for each in turn] == ["assistant", "tool", "assistant"]
            assert len(calls) == 1
            assert [each.tool_use_id for each in results] == [calls[0].id]
            assert (f"printed-{number}" in results[0].text) == (number != FAILS)
            assert len(said) == 2
        answers += said
    assert all(each.startswith("answer-") for each in answers)
    assert len({*answers}) == len(answers)
    return session_id


@pytest.mark.feature("A-33", "A-35")
@pytest.mark.parametrize("program", target_names())
def test_what_a_program_says_is_imported_once_and_in_order_after_each_of_five_turns(
    program: str, tmp_path: Path, home: Path, project: Path
) -> None:
    session_id: str | None = None
    prompts: list[str] = []
    with scripted_model() as model:
        real = Program(program, home, project, model.url)
        for turn, command in enumerate(TURNS):
            prompts.append(f"Prompt number {turn}. [[{command}]]")
            if turn == INTERRUPTED:
                real.interrupt(prompts[-1], session_id, (project / "started").exists)
            else:
                real.run(prompts[-1], session_id)
            session_id = anyio.run(check_turns, tmp_path / "root", home_of(program, home), prompts)


async def check_own(root: Path, source: Path, prompts: list[str]) -> str:
    """Import what a program wrote by itself, check each turn, and return the session's id."""
    session_id, shown = await imported(root, source, prompts)
    assert [plain_text(each.content).strip('"') for each in shown if each.role == "user"] == prompts
    turn = ["user", "assistant", "tool", "assistant"]
    assert [each.role for each in shown] == turn * len(prompts)
    calls = [part.tool_use.id for each in shown for part in each.content if isinstance(part, ToolUsePart)]
    parts = [part for each in shown for part in each.content if isinstance(part, ToolResultPart)]
    assert [part.tool_result.tool_use_id for part in parts] == calls
    assert len({*calls}) == len(prompts)
    for number, part in enumerate(parts):
        assert (f"printed-{number}" in part.tool_result.text) == (number != FAILS)
    return session_id


@pytest.mark.feature("A-35")
@pytest.mark.parametrize("program", ["copilot", KIMI])
def test_what_a_program_says_is_imported_once_after_each_turn_if_it_is_only_read(
    program: str, tmp_path: Path, home: Path, project: Path
) -> None:
    session_id: str | None = None
    prompts: list[str] = []
    with scripted_model() as model:
        real = Program(program, home, project, model.url)
        for turn in range(5):
            prompts.append(f"Prompt number {turn}. [[{'exit 3' if turn == FAILS else f'echo printed-{turn}'}]]")
            real.run(prompts[-1], session_id)
            session_id = anyio.run(check_own, tmp_path / "root", home_of(program, home), prompts)


async def check_interrupted(root: Path, source: Path, session_id: str, prompts: list[str]) -> None:
    """Check that an interrupted turn and those around it are there once and in order, after two imports."""
    async with SessionHost(root) as host:
        for _ in range(2):
            await host.import_sessions(source)
        async with await host.load(session_id) as session:
            path = [await session.entry(each) for each in session.path()]
            messages = [each.message for each in path if isinstance(each, MessageEntry)]
            shown = [each for each in messages if not each.metadata.get("is_meta") and each.role != "system"]
            assert [plain_text(each.content).strip('"') for each in shown if each.role == "user"] == prompts
            answers = [plain_text(each.content) for each in shown if each.role == "assistant"]
            answers = [each for each in answers if each.startswith("answer-")]
            assert len({*answers}) == len(answers) >= len(prompts)
            calls = [part.tool_use.id for each in shown for part in each.content if isinstance(part, ToolUsePart)]
            parts = [part.tool_result for each in shown for part in each.content if isinstance(part, ToolResultPart)]
            assert len({*calls}) == len(calls) >= 2
            answered = [each.tool_use_id for each in parts]
            assert answered == [each for each in calls if each in answered]  # some programs record no result
            assert "printed-0" in parts[0].text


@pytest.mark.parametrize("program", [KIMI])  # of Copilot, an interrupt ends the launcher alone
def test_an_interrupted_turn_of_a_program_that_is_only_read_is_imported_once(
    program: str, tmp_path: Path, home: Path, project: Path
) -> None:
    commands = ("echo printed-0", "touch started; sleep 20", "echo printed-2")
    prompts = [f"Prompt number {number}. [[{command}]]" for number, command in enumerate(commands)]
    root, source = tmp_path / "root", home_of(program, home)
    with scripted_model() as model:
        real = Program(program, home, project, model.url)
        real.run(prompts[0])
        session_id = anyio.run(check_own, root, source, prompts[:1])
        real.interrupt(prompts[1], session_id, (project / "started").exists)
        anyio.run(check_interrupted, root, source, session_id, prompts[:2])
        real.run(prompts[2], session_id)
        anyio.run(check_interrupted, root, source, session_id, prompts)
