"""What the tests know of the programs whose sessions are read only, and where their samples are.

Each program talked to a model on its machine that answers `answer-1`, `answer-2` and so on, with a call of its shell.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from .conftest import DATA

Value = dict[str, Any]
NOTED = "Not in the oven."


class Odd(NamedTuple):
    """What a later version may add: what is reported, a part of the line to change, and how it is changed."""

    kind: str
    line: str
    change: Callable[[Value], object]


class Added(NamedTuple):
    """What the tests know of a program.

    Attributes:
        file: What the file that grows matches, in the folder of a sample.
        said: What is said in the sample `kneading`, one message a line: its role, its text, and the tool that it calls.
        agent: What is said in the sample `weighing` by the agent that was started.
        later: What a file says of its version, and what one of a later version says.
        odd: What a later version may add.
    """

    file: str
    said: str
    agent: str
    later: tuple[str, str]
    odd: dict[str, Odd]


def with_aside(*place: str | int) -> Callable[[Value], object]:
    """Return a function that adds a field with words to what is at a place of a line."""

    def change(value: Value) -> object:
        at: Any = value
        for each in place:
            at = at[each]
        at["aside"] = NOTED
        return value

    return change


def replaced_by(value: Value) -> Callable[[Value], object]:
    """Return a function that puts another line in the place of a line."""
    return lambda _: value


EVENT: Value = {"type": "user.remark", "id": "e-1", "parentId": None, "timestamp": "2026-11-27T21:00:00Z"}
RECORD: Value = {"type": "context.remark", "agentId": "main", "time": 1}

ADDED = {
    "cline": Added(
        file="1*.messages.json",
        said="""
            user Count the loaves. [[echo three loaves]]
            assistant answer-1 > run_commands
            tool three loaves
            assistant answer-2
            user Wait for the dough. [[echo rising; sleep 25]]
            assistant answer-3 > run_commands
            tool Command failed: Command was aborted
            user Is it done? [[echo done]]
            assistant answer-4
            user Look into the oven. [[echo cold >&2; exit 3]]
            assistant answer-5 > run_commands
            tool [Command exited with code 3]
            assistant answer-6
            user Serve the bread. [[echo served]]
            assistant answer-8 > run_commands
            tool served
            assistant answer-9
            compaction answer-7
        """,
        agent="""
            user Weigh the flour. [[echo two pounds]]
            assistant answer-2 > run_commands
            tool two pounds
            assistant answer-3
        """,
        later=('"version": 1', '"version": 2'),
        odd={
            "a message with another kind of part": Odd(
                "part of kind aside",
                "Ask",
                replaced_by({"role": "user", "content": [{"type": "aside", "text": NOTED}]}),
            ),
            "a field of a message": Odd("message field aside", "Ask", with_aside()),
            "a field of a call": Odd("part field aside", "spawn_agent", with_aside("content", 1)),
            "a field of a result": Odd("part field aside", "tool_result", with_aside("content", 0)),
        },
    ),
    "copilot": Added(
        file="events.jsonl",
        said="""
            user Count the loaves. [[echo three loaves]]
            assistant answer-1 > bash
            tool three loaves
            assistant answer-2
            user Look into the oven. [[echo cold >&2; exit 3]]
            assistant answer-3 > bash
            tool cold
            assistant answer-4
            user Wait for the dough. [[echo rising; sleep 61]]
            assistant answer-5 > bash
            tool rising
            assistant answer-6
            user <system_notification>
            assistant > read_bash
            tool rising
            assistant answer-7
            user Is it done? [[echo done]]
            assistant answer-8 > bash
            tool done
            assistant answer-9
            user Knead again. [[echo again; sleep 25]]
            assistant answer-11 > bash
            tool again
            assistant answer-14
            user Bring sugar.
            assistant answer-16 > bash
            tool marker-16
            assistant answer-17
            compaction answer-19
            user Serve the bread. [[echo served]]
            assistant answer-27 > bash
            tool served
            assistant answer-28
        """,
        agent="""
            user Weigh the flour. [[echo two pounds]]
            assistant answer-6 > bash
            tool two pounds
            assistant answer-7
        """,
        later=('"version":1', '"version":2'),
        odd={
            "an event of another kind": Odd(
                "event of kind user.remark", "user.message", replaced_by(EVENT | {"data": {"remark": NOTED}})
            ),
            "a field of the line": Odd("event field aside", "user.message", with_aside()),
            "a field of a prompt": Odd("prompt field aside", "user.message", with_aside("data")),
            "a field of an answer": Odd("answer field aside", "assistant.message", with_aside("data")),
            "a field of a call": Odd("call field aside", "assistant.message", with_aside("data", "toolRequests", 0)),
            "a field of a result": Odd("result field aside", "execution_complete", with_aside("data", "result")),
            "a field beside a result": Odd(
                "tool.execution_complete field aside", "execution_complete", with_aside("data")
            ),
            "a part of a result that no model sees": Odd(
                "result field contents",
                "execution_complete",
                lambda value: value | {"data": value["data"] | {"result": {"contents": [{"text": NOTED}]}}},
            ),
            "thinking that was interrupted": Odd(
                "thinking without an answer",
                "session.shutdown",
                replaced_by(EVENT | {"type": "assistant.reasoning", "data": {"content": NOTED}}),
            ),
            "a command of the person that was interrupted": Odd(
                "command of the user without its result so far",
                "turn_end",
                replaced_by(EVENT | {"type": "tool.user_requested", "data": {"toolCallId": "x", "arguments": NOTED}}),
            ),
        },
    ),
    "kimi": Added(
        file="agents/main/wire.jsonl",
        said="""
            user Count the loaves. [[echo three loaves]]
            user <system-reminder>
            user <system-reminder>
            assistant answer-1 > Bash
            tool three loaves
            assistant answer-2
            user Look into the oven. [[echo cold >&2; exit 3]]
            user <system-reminder>
            assistant answer-3 > Bash
            tool cold
            assistant answer-4
            user Wait for the dough. [[echo rising; sleep 61]]
            user <system-reminder>
            assistant answer-5 > Bash
            tool rising
            user <system-reminder>
            user Is it done? [[echo done]]
            user <system-reminder>
            assistant answer-6
            user Knead again. [[echo again; sleep 25]]
            user <system-reminder>
            assistant answer-10 > Bash
            tool again
            user <system-reminder>
            user Bring sugar.
            assistant answer-15
            compaction answer-20
            user Serve the bread. [[echo served]]
            assistant answer-25 > Bash
            tool served
            assistant answer-26
        """,
        agent="""
            user Weigh the flour. [[echo two pounds]]
            user <system-reminder>
            user <system-reminder>
            assistant answer-2 > Bash
            tool two pounds
            assistant answer-3
        """,
        later=('"protocol_version":"1.5"', '"protocol_version":"2.0"'),
        odd={
            "a record of another kind": Odd(
                "record of kind context.remark", "tools_snapshot", replaced_by(RECORD | {"remark": NOTED})
            ),
            "a prompt that was not sent": Odd(
                "prompt that was not sent so far",
                "prompt.completed",
                replaced_by(RECORD | {"type": "turn.steer", "input": [{"type": "text", "text": NOTED}]}),
            ),
            "a field of a record": Odd("record field aside", "append_message", with_aside()),
            "a field of a message": Odd("message field aside", "append_message", with_aside("message")),
            "a field of a part": Odd("part field aside", "append_message", with_aside("message", "content", 0)),
            "a field of a call": Odd("event field aside", "tool.call", with_aside("event")),
            "a field of a result": Odd("result field aside", "tool.result", with_aside("event", "result")),
        },
    ),
}
PROGRAMS = sorted(ADDED)


def file_in(folder: Path, program: str) -> Path:
    """The file that grows in a sample, or in a copy of it."""
    (found,) = folder.glob(ADDED[program].file)
    return found


def sample(program: str, name: Literal["kneading", "weighing"]) -> Path:
    """The file that grows in one of a program's samples: a long one, or one in which an agent starts another."""
    return file_in(DATA / program / name, program)


def copied(program: str, name: Literal["kneading", "weighing"], to: Path) -> Path:
    """The same file in a copy of the sample."""
    shutil.copytree(DATA / program / name, to)
    return file_in(to, program)


def is_document(path: Path) -> bool:
    """Whether a file is one document, and not lines."""
    return path.suffix == ".json"


def units_of(path: Path) -> list[Any]:
    """The lines of a file, or the messages of a document."""
    if is_document(path):
        return [*json.loads(path.read_bytes())["messages"]]
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def write_units(path: Path, units: Sequence[object]) -> None:
    """Write a file with other lines or messages; bytes are written as a line as they are."""
    if is_document(path):
        path.write_text(json.dumps(json.loads(path.read_bytes()) | {"messages": units}))
    else:
        lines = (each if isinstance(each, bytes) else json.dumps(each).encode() for each in units)
        path.write_bytes(b"".join(line + b"\n" for line in lines))
