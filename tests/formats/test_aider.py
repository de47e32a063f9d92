"""Histories of aider: one that the program itself wrote, whole, cut, damaged, growing and resembled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from treering import SessionHost, plain_text
from treering.errors import ForeignFormatError
from treering.formats.programs import format_named, formats
from treering.formats.walk import Walk

from .conftest import DATA, ParsedSession, ReadSessions

once = pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])

SAMPLE = DATA / "aider" / "baking" / ".aider.chat.history.md"
RECIPE = "answer-2\n\nThree steps:\n\n# Knead\n\n#### By hand\n\n> slowly\n\nThen bake."
SAID = [
    ("user", "Count the loaves."),
    ("assistant", "answer-1"),
    ("user", "/add bake.py"),
    ("user", "/run echo three; exit 3"),
    ("user", "/ask Write the recipe."),
    ("user", "Write the recipe."),
    ("assistant", RECIPE),
    ("user", "Bake it.\n# Slowly."),
    ("assistant", "answer-3"),
    ("user", "/exit"),
]


def said_in(session: ParsedSession) -> list[tuple[str, str]]:
    return [(each.role, plain_text(each.content)) for each in session.messages]


@pytest.mark.feature("A-27")
def test_what_aider_wrote_is_read_once_and_in_order(read_sessions: ReadSessions) -> None:
    first, second = read_sessions(SAMPLE)
    assert said_in(first) == SAID
    assert said_in(second) == [("user", "Is_it_done?"), ("assistant", "answer-4")]
    commands = [plain_text(each.content) for each in first.messages if each.metadata.get("is_meta")]
    assert commands == [words for _, words in SAID if words.startswith("/")]
    answers = [each for each in first.messages if each.role == "assistant"]
    assert {(each.provider, each.model) for each in answers} == {("openai", "gpt-4o")}
    assert first.codes(notes=True) == second.codes(notes=True) == []


@pytest.mark.feature("A-27")
def test_no_line_that_the_program_wrote_is_lost(read_sessions: ReadSessions) -> None:
    sessions = read_sessions(SAMPLE)
    kept = str([each for session in sessions for each in session.entries])
    noticed = [line[2:].rstrip() for line in SAMPLE.read_text().splitlines() if line.startswith("> ")]
    assert len(noticed) > 15
    assert [line for line in noticed if line not in kept] == []


def prefixes() -> Iterator[tuple[bytes, bytes]]:
    """Yield the file up to each line, and the next line."""
    lines = SAMPLE.read_bytes().splitlines(keepends=True)
    for position in range(1, len(lines)):
        yield b"".join(lines[:position]), lines[position]


@pytest.mark.feature("A-27")
def test_a_history_that_is_cut_is_read_up_to_there(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = tmp_path / SAMPLE.name
    whole = [each for session in read_sessions(SAMPLE) for each in said_in(session)]
    for start, following in prefixes():
        for torn in (b"", following[:-1] or b"#"):
            path.write_bytes(start + torn)
            if b"####" not in start:
                with pytest.raises(ForeignFormatError, match=r"no prompt|not a session"):
                    read_sessions(path)
                continue
            cut = read_sessions(path)
            said = [each for session in cut for each in said_in(session)]
            *before, (role, words) = said
            assert before == whole[: len(before)]
            assert whole[len(before)][0] == role
            assert whole[len(before)][1].startswith(words)
            asked_before = b"####" in start.rpartition(b"# aider chat started at")[2]
            is_damage = torn and asked_before and not torn.startswith(b"# aider")
            assert cut[-1].codes() == (["damaged"] if is_damage else [])


@pytest.mark.feature("A-27")
def test_bytes_that_are_no_text_are_replaced_and_reported(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = tmp_path / SAMPLE.name
    path.write_bytes(SAMPLE.read_bytes().replace(b"answer-1", b"answer-\xff1").replace(b"\n", b"\r\n"))
    first, _ = read_sessions(path)
    assert said_in(first) == [(role, words.replace("answer-1", "answer-\ufffd1")) for role, words in SAID]
    assert [each.line for each in first.findings if each.code == "replaced"] == [13]


@pytest.mark.feature("A-27")
def test_a_prompt_with_an_empty_line_is_one_message(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = tmp_path / SAMPLE.name
    start = SAMPLE.read_text().partition("#### ")[0]
    path.write_text(f"{start}#### Bake it.  \n####   \n#### /work is warm.  \n\nanswer-1\n")
    (session,) = read_sessions(path)
    assert said_in(session) == [("user", "Bake it.\n\n/work is warm."), ("assistant", "answer-1")]
    assert "is_meta" not in session.messages[0].metadata


@pytest.mark.feature("A-27")
@once
async def test_a_history_that_grows_is_imported_as_if_at_once(tmp_path: Path) -> None:
    path = tmp_path / "project" / SAMPLE.name
    path.parent.mkdir()
    async with SessionHost(tmp_path / "root") as host:
        for start, following in prefixes():
            in_prompt = following.startswith(b"#### ") and not start.endswith(b"\n\n")  # it is written at once
            if b"####" in start and not in_prompt:
                path.write_bytes(start)
                await host.import_sessions(path)
        path.write_bytes(SAMPLE.read_bytes())
        first, second = await host.import_sessions(path)
        assert [each.added for each in await host.import_sessions(path)] == [0, 0]
        messages = await (await host.load(first.id)).messages()
        asked = [words for role, words in SAID if role == "user"]
        assert [plain_text(each.content) for each in messages if each.role == "user"] == asked
        answered = "\n".join(plain_text(each.content).strip() for each in messages if each.role == "assistant")
        expected = "\n".join(words for role, words in SAID if role == "assistant")
        assert answered.replace("\n", "") == expected.replace("\n", "")
        titles = {row.id: row.title for row in await host.list_sessions()}
        assert titles == {first.id: "Count the loaves.", second.id: "Is_it_done?"}


@pytest.mark.feature("A-27", "A-34")
def test_only_a_history_of_aider_is_taken_for_one(tmp_path: Path) -> None:
    head = SAMPLE.read_bytes()
    assert [each.name for each in formats() if each.detects(SAMPLE, head)] == ["aider"]
    others = [each for each in DATA.rglob("*") if each.is_file() and DATA / "aider" not in each.parents]
    assert [each for each in others if format_named("aider").detects(each, each.read_bytes())] == []
    path = tmp_path / "notes.md"
    path.write_text("# aider\n\n#### Count the loaves.  \n\nThree.\n")
    with pytest.raises(ForeignFormatError, match="not a session in any known format"):
        list(Walk(path).sessions())


@pytest.mark.feature("A-27")
def test_the_page_says_what_the_reader_of_aider_was_checked_with() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    (row,) = (line for line in page.splitlines() if "| `aider` |" in line)
    assert f"| {format_named('aider').checked} |" in row
    assert "## aider\n" in page
