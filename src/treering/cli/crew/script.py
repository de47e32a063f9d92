"""The script of the demo: stories of conversations, as `stories.txt` tells them, with words that differ each time.

Each line of the file begins with a mark, and continues what a line with the same mark began::

    parser: ledger invoice       a word and what it may be
    == name · title · project    a story begins; without a title, it is a sub-agent's
    > prompt                     a turn begins
    ~ thinking
      text of the answer, after two spaces
    ! tool SECONDS [exit N] {"argument": "value"}, or "+" for a call at the same time as the one before it
    | its output; "|*30 text" is 30 lines, each with words of its own
    ? reason => answer           the call before it waits for a person, who answers
    x reason                     the answer breaks off, and the next one is another attempt; "X reason" fails the turn
    @ label                      of the end of the turn
    < summary                    the next turn begins where this one did; with a summary of it, if there is one
    % summary                    the session is compacted after the turn
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from string import Template

from msgspec import Struct

_CALL = re.compile(r"(?P<tool>\w+) (?P<seconds>[\d.]+)(?: exit (?P<exit>\d+))? (?P<arguments>\{.*\})")
_ROWS = re.compile(r"\*(\d+) (.*)")


class Call(Struct):
    """A call of a tool, and what comes of it.

    Attributes:
        tool: Its name.
        seconds: How long it takes.
        exit_code: The exit code of a command that fails.
        arguments: A JSON object.
        output: The lines of the result.
        reason: Why it waits for a person; None if it does not.
    """

    tool: str
    seconds: float
    exit_code: int | None
    arguments: str
    output: list[str] = []
    reason: str | None = None


class Answer(Struct):
    """An answer of the model.

    Attributes:
        thinking: What it thinks.
        said: What it says.
        calls: The calls that it makes at once.
        failure: Why it breaks off; None if it does not.
        is_final: Whether that ends the turn.
    """

    thinking: list[str] = []
    said: list[str] = []
    calls: list[Call] = []
    failure: str | None = None
    is_final: bool = False


class Turn(Struct):
    """A turn: a prompt, the answers to it, and what is done with it afterwards.

    Attributes:
        prompt: What the person asks.
        answers: The answers, in order.
        label: The label of its end.
        goes_back: Whether the next turn begins where this one did.
        left: The summary of what is left then; "" for none.
        summary: The summary to which the session is compacted; None if it is not.
    """

    prompt: list[str] = []
    answers: list[Answer] = []
    label: str | None = None
    goes_back: bool = False
    left: str = ""
    summary: str | None = None


class Story(Struct):
    """A conversation, or the work of a sub-agent if it has no title."""

    name: str
    title: str = ""
    project: str = ""
    turns: list[Turn] = []


class Words:
    """Fills the words of a story: a name is one word in all of it; `$d`, `$n`, `$ms` and `$hash` differ each time.

    Args:
        choices: The words that each name may be.
        random: Chooses them.
    """

    def __init__(self, choices: Mapping[str, list[str]], random: Random) -> None:
        self._random = random
        self._chosen = {name: random.choice(words) for name, words in choices.items()}

    def __getitem__(self, name: str) -> object:
        """Return the word for a name.

        Raises:
            KeyError: There is no such name; the template leaves it as it is.
        """
        match name:
            case "n":
                return self._random.randint(2, 97)
            case "d":
                return self._random.randint(1, 9)
            case "ms":
                return self._random.randint(3, 940)
            case "hash":
                return f"{self._random.getrandbits(28):07x}"
            case _:
                return self._chosen[name]

    def fill(self, lines: Iterable[str] | str) -> str:
        """Return a text with its words."""
        each = [lines] if isinstance(lines, str) else [row for line in lines for row in _rows(line)]
        return "\n".join(Template(line).safe_substitute(self) for line in each)  # type: ignore[arg-type]  # only indexed


class Script(Struct):
    """All stories.

    Attributes:
        choices: The words that a name may be.
        stories: Those that a person begins.
        further: Turns that may follow in any of them.
        helpers: Those of sub-agents, by name.
    """

    choices: dict[str, list[str]]
    stories: list[Story]
    further: list[Turn]
    helpers: dict[str, Story]

    @classmethod
    def load(cls) -> Script:
        """Return the stories of the demo."""
        choices: dict[str, list[str]] = {}
        stories: list[Story] = []
        for line in Path(__file__).with_name("stories.txt").read_text(encoding="utf-8").splitlines():
            if line.startswith("== "):
                name, title, project = [*line[3:].split(" · "), "", ""][:3]
                stories.append(Story(name, title, project))
            elif stories:
                _tell(stories[-1], line[:1], line[2:] if line[1:2] != "*" else line[1:])
            else:
                name, words = line.split(": ")
                choices[name] = words.split()
        begun = [each for each in stories if each.title]
        helpers = {each.name: each for each in stories if not each.title}
        return cls(choices, begun, helpers.pop("further").turns, helpers)


def _tell(story: Story, mark: str, text: str) -> None:
    """Add a line to a story."""
    if mark == ">":
        if not story.turns or story.turns[-1].answers:
            story.turns.append(Turn())
        story.turns[-1].prompt.append(text)
        return
    turn = story.turns[-1]
    match mark:
        case "@":
            turn.label = text
        case "<":
            turn.goes_back, turn.left = True, text
        case "%":
            turn.summary = text
        case "|":
            turn.answers[-1].calls[-1].output.append(text)
        case "?":
            call = turn.answers[-1].calls[-1]
            call.reason, _, output = text.partition(" => ")
            call.output.append(output)
        case "x" | "X":
            turn.answers[-1].failure, turn.answers[-1].is_final = text, mark == "X"
        case "!" | "+":
            found = _CALL.fullmatch(text)
            assert found is not None, text
            code = found["exit"] and int(found["exit"])
            _answer(turn, of=mark).calls.append(
                Call(found["tool"], float(found["seconds"]), code or None, found["arguments"])
            )
        case "":  # a line between two paragraphs
            turn.answers[-1].said.append(text)
        case _:
            answer = _answer(turn, of=mark)
            (answer.thinking if mark == "~" else answer.said).append(text)


def _answer(turn: Turn, *, of: str) -> Answer:
    """Return the answer that is told, or another one if a line with this mark does not belong to it."""
    last = turn.answers[-1] if turn.answers else None
    if last is None or last.failure is not None or (last.calls and of != "+"):
        last = Answer()
        turn.answers.append(last)
    return last


def _rows(line: str) -> Iterator[str]:
    rows = _ROWS.fullmatch(line)
    for _ in range(int(rows[1]) if rows else 1):
        yield rows[2] if rows else line
