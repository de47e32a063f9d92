"""Programs whose sessions are read only: samples that they wrote, whole, damaged, growing, resembled."""

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from treering import Session, SessionHost, plain_text
from treering.errors import ForeignFormatError, UnsupportedVersion
from treering.events.content import ToolResultPart, ToolUsePart
from treering.events.entries import CompactionEntry, Message, MessageEntry
from treering.events.findings import LeftOut
from treering.formats.programs import format_named, formats
from treering.formats.walk import Walk

from .added_programs import ADDED, NOTED, PROGRAMS, Value, copied, is_document, sample, units_of, write_units
from .conftest import DATA, ParsedSession, ReadSessions

once = pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])
LATER = "2026-11-27T22:30:00.000Z"
LINES = [each for each in PROGRAMS if not is_document(sample(each, "kneading"))]
DOCUMENTS = [each for each in PROGRAMS if each not in LINES]


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
    assert "Weigh the flour" in (agent.header.title or said_in(agent)[0])


@pytest.mark.feature("A-27")
@pytest.mark.parametrize("program", LINES)
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
@pytest.mark.parametrize("program", DOCUMENTS)
def test_a_document_that_is_cut_is_refused(program: str, tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = copied(program, "kneading", tmp_path / "cut")
    lines = path.read_bytes().splitlines(keepends=True)
    for position in range(len(lines)):
        path.write_bytes(b"".join(lines[:position]) + lines[position][:-2])
        with pytest.raises(ForeignFormatError):
            read_sessions(path, program)


@pytest.mark.feature("A-27")
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("bad", [b"\0" * 40, b"plain words", b'{"type":', b"[]", b"{}", b'{"type":7,"data":[]}'])
def test_what_is_bad_costs_nothing_else(program: str, bad: bytes, tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = copied(program, "kneading", tmp_path / "bad")
    (whole,) = read_sessions(path)
    units = units_of(path)
    inserted = bad.decode() if program in DOCUMENTS else bad
    write_units(path, [*units[:1], *(each for unit in units[1:] for each in (inserted, unit))])
    (session,) = read_sessions(path)
    assert [each.id for each in session.entries] == [each.id for each in whole.entries]
    counts = [each.count for each in session.findings if isinstance(each, LeftOut)]
    assert len([each for each in session.findings if each.code == "damaged"]) + sum(counts) == len(units) - 1


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
def test_lost_words_are_reported(program: str, what: str, tmp_path: Path, read_sessions: ReadSessions) -> None:
    kind, part, change = ADDED[program].odd[what]
    path = copied(program, "weighing", tmp_path / "odd")
    units = units_of(path)
    at = next(at for at, unit in enumerate(units) if part in json.dumps(unit))
    write_units(path, [*units[:at], change(units[at]), *units[at + 1 :]])
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
async def test_a_file_that_grows_bit_by_bit_is_imported_as_if_at_once(program: str, tmp_path: Path) -> None:
    path = copied(program, "weighing", tmp_path / "grows")
    units = units_of(path)
    async with SessionHost(tmp_path / "at_once") as host:
        reports = await host.import_sessions(path)
        expected = {each.id: await parts_of(await host.load(each.id)) for each in reports}
    async with SessionHost(tmp_path / "root") as host:
        for position in range(1, len(units) + 1):
            write_units(path, units[:position])
            try:
                await host.import_sessions(path)
            except ForeignFormatError:  # nothing but the lines that every file begins with
                assert position < 3
        assert [each.added for each in await host.import_sessions(path)] == [0] * len(expected)
        assert {each: await parts_of(await host.load(each)) for each in expected} == expected
        assert all(expected.values())


@once
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


def again(unit: Value) -> Value:
    """Another prompt in the place of one."""
    if "data" in unit:
        words = {"content": "Bake it.", "transformedContent": "Bake it."}
        return unit | {"id": str(UUID(int=4, version=4)), "timestamp": LATER, "data": unit["data"] | words}
    return unit | {"id": str(UUID(int=4, version=4)), "ts": LATER, "content": "Bake it."}


@once
@pytest.mark.parametrize("program", ["cline", "copilot"])
@pytest.mark.parametrize("ends", [[1], [0], [0, 1]], ids=str)
async def test_what_the_person_took_back_stays_on_its_branch(
    program: str, ends: list[int], host: SessionHost, tmp_path: Path
) -> None:
    """The file is imported without what was taken back, with what was said next, or in both states."""
    path = copied(program, "kneading", tmp_path / "rewound")
    for beside in path.parent.glob("*.compaction.json"):  # it would become an entry below what is left
        beside.unlink()
    (report,) = await host.import_sessions(path)
    units = units_of(path)
    at = next(at for at, unit in enumerate(units) if "Look into the oven." in json.dumps(unit))
    session = await host.load(report.id)
    for end in ends:
        write_units(path, [*units[:at], *[again(units[at])][:end]])
        assert [each.added > 0 for each in await host.import_sessions(path)] == [end > 0]
        said = [plain_text(each.content) for each in await session.messages()]
        assert (said[-1] == "Bake it.") is (end > 0)
        assert "Look into the oven." not in " ".join(said)
    assert [row.added for row in await host.import_sessions(path)] == [0]
    assert any("Look into the oven." in str(each) for each in await session.entries())


def test_a_compaction_of_cline_keeps_what_it_repeats(read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(sample("cline", "kneading"))
    (entry,) = session.of("compaction")
    assert isinstance(entry, CompactionEntry)
    (kept,) = (each for each in session.entries if each.id == entry.compaction.first_kept_entry_id)
    assert isinstance(kept, MessageEntry)
    assert line_of(kept.message) == "assistant answer-3 > run_commands"


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
