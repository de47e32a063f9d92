"""`treering chat` at a terminal: a person types, sees answers come, stops them, leaves, and comes back."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import pexpect
import pyte
import pytest

import treering
from treering import SyncHost, plain_text
from treering.testing.model_server import ModelServer, Speech

if find_spec("openai") is None:
    pytest.skip("the extra `openai` is not installed", allow_module_level=True)

LINES, COLUMNS = 40, 100
SOURCE = str(Path(treering.__file__).parents[1])
PATIENCE_S = 20.0
STOPPED = "(stopped; what was said of it is kept)"


class Person:
    """Sits at a terminal and sees its screen."""

    def __init__(self, folder: Path, *args: str) -> None:
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "PYTHONPATH": SOURCE,
            "COLUMNS": str(COLUMNS),
            "LINES": str(LINES),
        }
        self._process = pexpect.spawn(
            sys.executable,
            ["-m", "treering.cli", "chat", "--root", str(folder / "root"), *args],
            cwd=str(folder),
            env=environment,
            dimensions=(LINES, COLUMNS),
            encoding="utf-8",
        )
        self._process.delaybeforesend = None
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.Stream(self._screen)

    @property
    def seen(self) -> list[str]:
        """The lines of the screen, those below the last one that says something left out."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip("\n").split("\n")

    def until(self, seen: Callable[[list[str]], bool]) -> list[str]:
        """Look at the screen until it shows something, and return its lines."""
        deadline = time.monotonic() + PATIENCE_S
        while not seen(self.seen):
            assert time.monotonic() < deadline, "\n".join(self.seen)
            try:
                self._stream.feed(self._process.read_nonblocking(4096, timeout=PATIENCE_S))
            except pexpect.EOF:
                assert seen(self.seen), "\n".join(self.seen)
        return self.seen

    def until_prompt(self) -> list[str]:
        """Wait until the person is asked to say something."""
        return self.until(lambda lines: lines[-1] == ">" and self._screen.cursor.x == 2)

    def press(self, keys: str) -> None:
        self._process.send(keys)

    def say(self, line: str) -> list[str]:
        """Say something at the prompt, and return the screen when the next prompt is there."""
        at = len([each for each in self.seen if each.startswith(">")])
        self.press(f"{line}\r")
        return self.until(lambda lines: len([each for each in lines if each.startswith(">")]) > at and lines[-1] == ">")

    def leave(self) -> tuple[str, int | None]:
        """Return the last line and the exit status of a program that is ending."""
        try:
            while True:
                self._stream.feed(self._process.read_nonblocking(4096, timeout=PATIENCE_S))
        except pexpect.EOF:
            self._process.close()
        return self.seen[-1], self._process.exitstatus

    def close(self) -> None:
        """End the program, if it has not ended."""
        self._process.close(force=True)


Sit: TypeAlias = Callable[..., Person]


@pytest.fixture
def sit(tmp_path: Path) -> Iterator[Sit]:
    people: list[Person] = []

    def down(*args: str) -> Person:
        person = Person(tmp_path, *args)
        people.append(person)
        return person

    yield down
    for each in people:
        each.close()


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def messages(tmp_path: Path) -> list[tuple[str, str, str | None]]:
    with SyncHost(tmp_path / "root") as host:
        found = host.load("last", read_only=True).messages()
    return [(each.role, plain_text(each.content), each.stop_reason) for each in found]


def test_a_conversation_at_a_terminal(sit: Sit, tmp_path: Path) -> None:
    person = sit()
    assert person.until_prompt() == ["treering 0.1.0, treering/echo; /help tells what can be done, Ctrl-D leaves", ">"]
    assert person.say("Hello")[1:] == ["> Hello", "(echo, 1 messages) Hello", "", ">"]
    person.press("\x1b[200~two\nlines\x1b[201~")  # a paste, which waits for Enter
    assert person.say("")[-5:-1] == ["lines", "(echo, 3 messages) two", "lines", ""]
    assert person.say("/nope")[-2].startswith("treering: there is no command '/nope'") or "/nope" in "".join(
        person.seen
    )
    assert [line[:1] for line in person.say("/tree")[-5:-1]] == ["•"] * 4
    person.press("/ses\t")
    person.until(lambda lines: lines[-1] == "> /session")
    person.press("\x03")
    person.until(lambda lines: "(Ctrl-C once more, Ctrl-D or /exit leaves)" in lines and lines[-1] == ">")
    person.press("\x04")
    last, status = person.leave()
    assert status == 0
    assert last.startswith("kept: treering chat -r ")
    assert [text for _, text, _ in messages(tmp_path)] == [
        "Hello",
        "(echo, 1 messages) Hello",
        "two\nlines",
        "(echo, 3 messages) two\nlines",
    ]


@pytest.mark.feature("N-108")
def test_stopping_an_answer_and_coming_back(sit: Sit, server: ModelServer, tmp_path: Path) -> None:
    model = ["--model", "openai:any", "--base-url", server.openai_url, "--system", "Be brief."]
    server.reply(Speech(text=["Once upon ", "a time"], hold_after=3))
    server.says("Well.")
    server.reply(Speech(text=["Never"], hold_after=2))
    person = sit(*model)
    person.until_prompt()
    person.press("Tell a story\r")
    person.until(lambda lines: lines[-1] == "Once upon a time")  # it is seen before the answer is whole
    person.press("\x03")
    person.until(lambda lines: lines[-2:] == [STOPPED, ">"])
    assert server.gone.wait(10)
    assert "Well." in person.say("Go on")
    story = [
        ("user", "Tell a story", None),
        ("assistant", "Once upon a time", "aborted"),
        ("user", "Go on", None),
        ("assistant", "Well.", "stop"),
    ]
    assert messages(tmp_path) == story
    person.press("Again\r")
    person.until(lambda lines: lines[-1] == "Never")
    person.press("\x03")
    person.until(lambda lines: lines[-2:] == [STOPPED, ">"])
    person.press("\x03")  # the second leaves
    last, status = person.leave()
    assert (last.startswith("kept: "), status) == (True, 0)
    story += [("user", "Again", None), ("assistant", "Never", "aborted")]
    assert messages(tmp_path) == story

    server.says("I ", "am.")
    person = sit("-c", *model)
    shown = person.until(lambda lines: "> Tell a story" in lines and lines[-1] == ">")
    at = shown.index("> Tell a story")
    assert "'Tell a story': 6 messages" in shown[at - 1]
    assert shown[at:] == ["> Tell a story", "Once upon a time", "", "> Go on", "Well.", "", "> Again", "Never", "", ">"]
    assert person.say("Who is there?")[-3:] == ["I am.", "", ">"]
    person.press("\x04")
    assert person.leave()[1] == 0
    sent = [[(each["role"], each["content"]) for each in request.body["messages"]] for request in server.requests]
    system = [("system", "Be brief.")]
    said = [(role, text) for role, text, _ in story]
    assert sent == [
        [*system, *said[:1]],
        [*system, *said[:3]],
        [*system, *said[:5]],
        [*system, *said, ("user", "Who is there?")],
    ]


@pytest.mark.feature("N-110")
def test_choosing_a_session(sit: Sit, tmp_path: Path) -> None:
    with SyncHost(tmp_path / "root") as host:
        for name, said in (("first", "Fix the door"), ("second", "Paint it")):
            session = host.create(name, cwd=tmp_path)
            session.append_message("user", said)
    person = sit("-r")
    person.until(lambda lines: any("Quit" in line for line in lines))
    person.press("j\r")  # the one below the latest
    person.until(lambda lines: "> Fix the door" in lines and lines[-1] == ">")
    person.press("/resume\r")
    person.until(lambda lines: any("Quit" in line for line in lines))
    person.press("n")
    person.until(lambda lines: lines[-2:] == ["a new session", ">"])
    person.say("Afresh")
    person.press("/branch .\r")
    person.until(lambda lines: lines[-1] == ">" and "going on from" in lines[-2])
    person.press("\x04")
    assert person.leave()[1] == 0
    assert [text for _, text, _ in messages(tmp_path)] == ["Afresh", "(echo, 1 messages) Afresh"]

    person = sit("-r")
    person.until(lambda lines: any("Quit" in line for line in lines))
    person.press("q")
    assert person.leave()[1] == 0
