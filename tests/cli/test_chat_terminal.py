"""`treering chat` at a terminal: a person types, sees answers come, stops them, leaves, and comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import pytest

from treering import BranchSummaryEntry, SyncHost, plain_text
from treering.testing.model_server import ModelServer, Speech

from .terminal import Terminal

Sit: TypeAlias = Callable[..., Terminal]
Talked: TypeAlias = Callable[..., str]

STOPPED = "(stopped; the partial answer is kept)"


@pytest.fixture
def sit(project: Path) -> Iterator[Sit]:
    """Start a chat at a terminal that is high enough for all that is said, in the project's folder."""
    begun: list[Terminal] = []

    def down(*args: str) -> Terminal:
        begun.append(Terminal("chat", *args, cwd=project, columns=100, lines=40))
        return begun[-1]

    yield down
    for each in begun:
        each.close()


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def messages(root: Path) -> list[tuple[str, str, str | None]]:
    with SyncHost(root) as host:
        found = host.load("last", read_only=True).messages()
    return [(each.role, plain_text(each.content), each.stop_reason) for each in found]


def test_a_conversation_at_a_terminal(sit: Sit, root: Path) -> None:
    person = sit()
    shown = person.until("Ctrl-D leaves\n>")
    assert shown == ["treering 0.1.0, treering/echo; /help lists the commands, Ctrl-D leaves", ">"]
    person.press("Hello\r")
    person.until("> Hello\n(echo, 1 message) Hello\n\n>")
    person.press("\x1b[200~two\nlines\x1b[201~\r")  # a paste, and Enter
    person.until("> two\nlines\n(echo, 3 messages) two\nlines\n\n>")
    person.press("/nope\r")
    person.until("treering: there is no command '/nope', and nothing was sent")
    person.press("/tree\r")
    shown = person.until("<- leaf\n>")
    assert [line[0] for line in shown[-5:]] == ["•", "•", "•", "•", ">"]
    person.press("/ses\t")
    person.until("> /session")
    person.press("\x03")
    person.until("(press Ctrl-C again, Ctrl-D, or type /exit to leave)\n>")
    person.press("\x04")
    assert person.ended() == 0
    assert person.lines[-1].startswith("resume with: treering chat -r ")
    assert person.settings == person.first_settings
    assert [text for _, text, _ in messages(root)] == [
        "Hello",
        "(echo, 1 message) Hello",
        "two\nlines",
        "(echo, 3 messages) two\nlines",
    ]


@pytest.mark.feature("N-108")
@pytest.mark.skipif(find_spec("openai") is None, reason="the extra `openai` is not installed")
def test_stopping_an_answer_and_coming_back(sit: Sit, server: ModelServer, root: Path) -> None:
    model = ["--model", "openai:any", "--base-url", server.openai_url, "--system", "Be brief."]
    server.reply(Speech(text=["Once upon ", "a time"], hold_after=3))
    server.says("Well.")
    server.reply(Speech(text=["Never"], hold_after=2))
    person = sit(*model)
    person.until("Ctrl-D leaves\n>")
    person.press("Tell a story\r")
    person.until("\nOnce upon a time")  # it is seen before the answer is whole
    person.press("\x03")
    person.until(f"\nOnce upon a time^C\n{STOPPED}\n>")
    assert server.gone.wait(10)
    person.press("Go on\r")
    person.until("Well.\n\n>")
    story = [
        ("user", "Tell a story", None),
        ("assistant", "Once upon a time", "aborted"),
        ("user", "Go on", None),
        ("assistant", "Well.", "stop"),
    ]
    assert messages(root) == story
    person.press("Again\r")
    person.until("\nNever")
    person.press("\x03")
    person.until(f"\nNever^C\n{STOPPED}\n>")
    person.press("\x03")  # the second leaves
    assert person.ended() == 0
    assert person.lines[-1].startswith("resume with: treering chat -r ")
    story += [("user", "Again", None), ("assistant", "Never", "aborted")]
    assert messages(root) == story

    server.says("I ", "am.")
    person = sit("-c", *model)
    shown = person.until("> Again\nNever\n\n>")
    at = shown.index("> Tell a story")
    assert "'Tell a story': 6 messages" in shown[at - 1]
    assert shown[at:] == ["> Tell a story", "Once upon a time", "", "> Go on", "Well.", "", "> Again", "Never", "", ">"]
    person.press("Who is there?\r")
    person.until("> Who is there?\nI am.\n\n>")
    person.press("\x04")
    assert person.ended() == 0
    sent = [[(each["role"], each["content"]) for each in request.body["messages"]] for request in server.requests]
    system = [("system", "Be brief.")]
    said = [(role, text) for role, text, _ in story]
    assert sent == [
        [*system, *said[:1]],
        [*system, *said[:3]],
        [*system, *said[:5]],
        [*system, *said, ("user", "Who is there?")],
    ]


def test_a_branch_that_is_left_gets_a_summary_where_that_is_wanted(sit: Sit, project: Path, root: Path) -> None:
    with SyncHost(root) as host:
        session = host.create("talk", cwd=project)
        session.append_message("user", "One")
        first = session.append_message("assistant", "One, yes")
        for _ in range(3):
            session.append_message("user", "Once more. " * 60)
            session.append_message("assistant", "Once more, yes. " * 40)
    person = sit("-r", "talk")
    person.until("Once more, yes.\n\n>")
    person.press(f"/branch {first}\r")
    person.until("6 messages left behind: keep a summary of them? [y/N]")
    person.press("y\r")
    person.until("with a summary of 6 messages\n>")
    person.press("\x04")
    assert person.ended() == 0
    with SyncHost(root) as host:
        summary = host.load("talk", read_only=True).entries()[-1]
    assert isinstance(summary, BranchSummaryEntry)
    assert summary.parent_id == first
    assert "The conversation has 6 messages" in summary.branch_summary.summary


@pytest.mark.feature("N-110")
def test_choosing_a_session(sit: Sit, talked: Talked, root: Path) -> None:
    for said in ("Fix the door", "Paint it"):
        talked(said)
    person = sit("-r")
    person.until("Fix the door", "Paint it", "[q] Quit")
    person.press("\r")
    chosen = person.until("yes.\n\n>", without="Quit")
    assert sum("> Fix the door" in line or "> Paint it" in line for line in chosen) == 1
    person.press("/resume\r")
    person.until("[q] Quit")
    person.press("n")
    person.until("started a new session\n>", without="Quit")
    person.press("Afresh\r")
    person.until("(echo, 1 message) Afresh\n\n>")
    person.press("\x04")
    assert person.ended() == 0
    assert [text for _, text, _ in messages(root)] == ["Afresh", "(echo, 1 message) Afresh"]


def test_choosing_none(sit: Sit, talked: Talked, root: Path) -> None:
    talked("Fix the door")
    before = sorted(path.name for path in root.glob("*.jsonl"))
    person = sit("-r")
    person.until("[q] Quit")
    person.press("q")
    assert person.ended() == 0
    assert sorted(path.name for path in root.glob("*.jsonl")) == before
