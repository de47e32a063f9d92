"""Programs whose sessions are read only: samples that the real programs wrote, whole, damaged, growing and resembled.

Each program talked to a model on its machine that answers `answer-1`, `answer-2` and so on, with a call of its shell.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from treering import Session, SessionHost, plain_text
from treering.errors import ForeignFormatError, UnsupportedVersion
from treering.events.content import ToolResultPart, ToolUsePart
from treering.events.entries import CompactionEntry, Message, MessageEntry
from treering.events.findings import LeftOut
from treering.formats.programs import format_named, formats
from treering.formats.walk import Walk

from .conftest import DATA, ParsedSession, ReadSessions

once = pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])

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
        file: The file that grows, in the folder of a sample.
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
                "record of kind context.remark", "append_message", replaced_by(RECORD | {"remark": NOTED})
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


def sample(program: str, name: Literal["kneading", "weighing"]) -> Path:
    """The file that grows in one of a program's samples: a long one, or one in which an agent starts another."""
    return DATA / program / name / ADDED[program].file


def copied(program: str, name: Literal["kneading", "weighing"], to: Path) -> Path:
    """The same file in a copy of the sample."""
    shutil.copytree(DATA / program / name, to)
    return to / ADDED[program].file


def line_of(message: Message) -> str:
    """A message in one line: its role, the first line of its text, and the tools that it calls."""
    words = plain_text(message.content)
    for part in message.content:
        words += part.tool_result.text if isinstance(part, ToolResultPart) else ""
    calls = [f"> {part.tool_use.name}" for part in message.content if isinstance(part, ToolUsePart)]
    return " ".join(filter(None, (message.role, words.partition("\n")[0], *calls)))


def said_in(session: ParsedSession) -> list[str]:
    """What is said on the path to the leaf; of a compaction, its summary."""
    said: list[str] = []
    for each in session.path() if session.entries else []:
        if isinstance(each, MessageEntry):
            said.append(line_of(each.message))
        elif isinstance(each, CompactionEntry):
            said.append(f"compaction {each.compaction.summary.partition(chr(10))[0]}")
    return said


def lines_in(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.feature("A-27")
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_the_program_wrote_is_read_once_and_in_order(program: str, read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(sample(program, "kneading"))
    assert said_in(session) == lines_in(ADDED[program].said)
    assert session.codes() == []
    found = read_sessions(DATA / program / "weighing")
    main, agent = sorted(found, key=lambda each: each.header.parent_session is not None)
    assert said_in(agent) == lines_in(ADDED[program].agent)
    assert agent.header.parent_session == main.header.id
    (caller,) = (each for each in main.entries if each.id == agent.header.parent_entry)
    assert isinstance(caller, MessageEntry)
    assert "Weigh the flour" in str([each.tool_use for each in caller.message.content if each.type == "tool_use"])
    assert agent.header.title == "Weigh the flour"


@pytest.mark.feature("A-27")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_file_that_is_cut_is_read_up_to_there(program: str, tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = copied(program, "weighing", tmp_path / "cut")
    lines = path.read_bytes().splitlines(keepends=True)
    whole = read_sessions(path, program)
    path.write_bytes(lines[0][: len(lines[0]) // 2])
    with pytest.raises(ForeignFormatError):
        read_sessions(path, program)
    for position in range(1, len(lines)):
        for torn in (b"", lines[position][: len(lines[position]) // 2]):
            path.write_bytes(b"".join(lines[:position]) + torn)
            try:
                cut = read_sessions(path)
            except ForeignFormatError:  # nothing but the lines that every file begins with
                assert position < 3
                continue
            assert [each.header.id for each in cut] == [each.header.id for each in whole[: len(cut)]]
            for part, of_whole in zip(cut, whole, strict=False):
                assert "\n".join(said_in(of_whole)).startswith("\n".join(said_in(part)))
            damaged = [each for each in cut[0].findings if each.code == "damaged"]
            assert [each.line for each in damaged] == ([position + 1] if torn else [])


@pytest.mark.feature("A-27")
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("bad", [b"\0" * 40, b"plain words", b'{"type":', b"[]", b"{}", b'{"type":7,"data":[]}'])
def test_a_bad_line_costs_nothing_else(program: str, bad: bytes, tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = copied(program, "kneading", tmp_path / "bad")
    lines = path.read_bytes().splitlines(keepends=True)
    (whole,) = read_sessions(path)
    path.write_bytes(b"".join([*lines[:1], *(each for line in lines[1:] for each in (bad + b"\n", line))]))
    (session,) = read_sessions(path)
    assert [each.id for each in session.entries] == [each.id for each in whole.entries]
    counts = [each.count for each in session.findings if isinstance(each, LeftOut)]
    assert len([each for each in session.findings if each.code == "damaged"]) + sum(counts) == len(lines) - 1


@pytest.mark.feature("A-27", "A-34")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_file_of_a_later_version_is_refused(program: str, tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = copied(program, "weighing", tmp_path / "later")
    path.write_text(path.read_text().replace(*ADDED[program].later, 1))
    for chosen in (None, program):
        with pytest.raises(UnsupportedVersion, match="upgrade treering"):
            read_sessions(path, chosen)


def files_of(program: str) -> Iterator[Path]:
    folder = DATA / program.replace("-", "_")
    yield from (each for each in folder.rglob("*.json*") if each.is_file())


@pytest.mark.feature("A-27", "A-34")
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_reader_takes_a_file_of_another_program(program: str) -> None:
    own = format_named(program)
    heads = {path: path.read_bytes() for path in files_of(program)}
    assert heads
    for other in formats():
        if other.name != program:
            assert [path for path, head in heads.items() if other.detects(path, head)] == []
            assert [path for path in files_of(other.name) if own.detects(path, path.read_bytes())] == []


@pytest.mark.parametrize(("program", "what"), [(name, what) for name in PROGRAMS for what in ADDED[name].odd])
def test_words_that_nothing_stands_for_are_reported(
    program: str, what: str, tmp_path: Path, read_sessions: ReadSessions
) -> None:
    kind, part, change = ADDED[program].odd[what]
    path = copied(program, "weighing", tmp_path / "odd")
    lines = path.read_text().splitlines()
    at = next(at for at, line in enumerate(lines) if part in line)
    lines[at] = json.dumps(change(json.loads(lines[at])))
    path.write_text("\n".join(lines))
    findings = [each for session in read_sessions(path, program) for each in session.findings]
    (left_out,) = (each for each in findings if isinstance(each, LeftOut))
    assert left_out.kind == kind
    assert NOTED in left_out.example


async def parts_of(session: Session) -> list[tuple[str, str]]:
    """All parts of the messages on the path; an answer that was imported in pieces has the same ones."""
    return [(each.role, str(part)) for each in await session.messages() for part in each.content]


@pytest.mark.feature("A-27")
@once
@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_file_that_grows_line_by_line_is_imported_as_if_at_once(program: str, tmp_path: Path) -> None:
    path = copied(program, "weighing", tmp_path / "grows")
    lines = path.read_bytes().splitlines(keepends=True)
    async with SessionHost(tmp_path / "at_once") as host:
        reports = await host.import_sessions(path)
        expected = {each.id: await parts_of(await host.load(each.id)) for each in reports}
    async with SessionHost(tmp_path / "root") as host:
        for position in range(1, len(lines) + 1):
            path.write_bytes(b"".join(lines[:position]))
            try:
                await host.import_sessions(path)
            except ForeignFormatError:  # nothing but the lines that every file begins with
                assert position < 3
        assert [each.added for each in await host.import_sessions(path)] == [0] * len(expected)
        assert {each: await parts_of(await host.load(each)) for each in expected} == expected
        assert all(expected.values())


@once
@pytest.mark.feature("A-35")
@pytest.mark.parametrize("program", PROGRAMS)
async def test_the_title_is_what_the_person_said_first(program: str, host: SessionHost) -> None:
    (report,) = await host.import_sessions(sample(program, "kneading"))
    (row,) = await host.list_sessions()
    assert (row.id, row.title) == (report.id, "Count the loaves. [[echo three loaves]]")


@pytest.mark.feature("A-27")
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_page_says_what_the_reader_was_checked_with(program: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    (row,) = (line for line in page.splitlines() if f"| `{program}` |" in line)
    assert format_named(program).checked in row
    assert "the program, " in row
    assert f"## {format_named(program).title}\n" in page


def test_nothing_of_this_machine_is_in_the_samples() -> None:
    for program in PROGRAMS:
        for path in (each for each in (DATA / program).rglob("*") if each.is_file()):
            text = path.read_text()
            assert not any(word in text for word in ("/srv/", "/tmp/", "/root", "127.0.0.1")), path


def test_a_file_that_only_resembles_events_is_not_claimed(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    event = {"type": "user.message", "data": {"content": "Plant."}}
    for each in (event, event | {"id": "1", "timestamp": "x", "parentId": None, "data": "Plant."}):
        path.write_text(json.dumps(each) + "\n")
        with pytest.raises(ForeignFormatError, match="not a session in any known format"):
            list(Walk(path).sessions())


@once
async def test_what_a_rewind_of_copilot_cut_off_stays_on_its_branch(host: SessionHost, tmp_path: Path) -> None:
    path = tmp_path / "s" / "events.jsonl"
    shutil.copytree(sample("copilot", "kneading").parent, path.parent)
    (report,) = await host.import_sessions(path)
    lines = path.read_text().splitlines(keepends=True)
    at = next(at for at, line in enumerate(lines) if '"Knead again.' in line)
    again = json.loads(lines[at])
    again |= {"id": "0d9fbb0c-3f6e-4c1e-8a53-6a1c7f3f2f10", "timestamp": "2026-11-27T22:00:00.000Z"}
    again["data"] |= {"content": "Bake it.", "transformedContent": "Bake it."}
    path.write_text("".join([*lines[:at], json.dumps(again) + "\n"]))
    assert [each.added for each in await host.import_sessions(path)] == [1]
    session = await host.load(report.id)
    said = [plain_text(each.content) for each in await session.messages()]
    assert (said[-2:], "Bring sugar." in said) == (["answer-9", "Bake it."], False)
    assert [row.added for row in await host.import_sessions(path)] == [0]
    assert any("Bring sugar." in str(each) for each in await session.entries())


def test_a_file_of_the_older_kimi_cli_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "wire.jsonl"
    lines: list[Value] = [{"type": "metadata", "protocol_version": "1.2"}]
    lines.append({"timestamp": 1.5, "message": {"type": "TurnBegin", "payload": {"user_input": "Plant."}}})
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    for chosen in (None, "kimi"):
        with pytest.raises(ForeignFormatError, match="older Kimi CLI"):
            list(Walk(path, chosen).sessions())
    walk = Walk(tmp_path)
    assert list(walk.sessions()) == []
    assert "older Kimi CLI" in str(walk.failed)


def test_what_the_user_undid_in_kimi_code_stays_on_its_branch(read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(sample("kimi", "kneading"))
    (undone,) = (each for each in session.entries if isinstance(each, MessageEntry) and "Add salt" in str(each))
    (compaction,) = session.of("compaction")
    assert undone.parent_id == compaction.id
    assert undone not in session.path()
