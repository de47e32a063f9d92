"""Damaged copies: whatever is cut off or overwritten, a session is read or refused by name; whole parts are read."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from treering.events.content import plain_text
from treering.events.errors import ForeignFormatError

from .conftest import Take

SAMPLES = {
    "codex.jsonl": "codex",
    "gemini.jsonl": "gemini",
    "gemini.json": "gemini",
    "nanocoder.json": "nanocoder",
    "picoclaw.json": "picoclaw",
    "picoclaw.jsonl": "picoclaw",
    "dive.jsonl": "dive",
    "dive.json": "dive",
    "opencode/storage/session/bakery/ses_1.json": "opencode",
}
ODD = ("null", "0", "-1", '""', '"x"', "[]", "[7]", "{}", "true", "1e400", "[[]]")


def damaged(whole: bytes) -> Iterator[bytes]:
    """Yield copies that are cut off, overwritten, or have a value of another type."""
    chance = random.Random(7)
    for length in range(0, len(whole), max(1, len(whole) // 40)):
        yield whole[:length]
    for _ in range(40):
        copy = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            copy[chance.randrange(len(copy))] = chance.choice(b'\0{}[]",:0\xffa\n')
        yield bytes(copy)
    places = [place for place in range(len(whole)) if whole[place : place + 1] == b":"]
    for _ in range(40):
        start = chance.choice(places) + 1
        end = start + chance.choice((1, 4, 12, 40))
        yield whole[:start] + chance.choice(ODD).encode() + whole[end:]


@pytest.mark.parametrize(("sample", "name"), SAMPLES.items(), ids=str)
def test_a_damaged_copy_is_read_or_refused(data: Path, tmp_path: Path, take: Take, sample: str, name: str) -> None:
    path = tmp_path / "session" / "project" / Path(sample).name
    path.parent.mkdir(parents=True)
    whole, refused, read = (data / sample).read_bytes(), 0, 0
    for copy in damaged(whole):
        path.write_bytes(copy)
        try:
            take(path, name)
            read += 1
        except ForeignFormatError:
            refused += 1
    assert refused, "an empty file is no session"
    assert read, "a byte that means nothing does not matter"


@pytest.mark.parametrize("sample", ["codex.jsonl", "gemini.jsonl", "picoclaw.jsonl", "dive.jsonl"])
def test_a_bad_line_costs_itself_alone_and_is_told_with_its_place(
    data: Path, tmp_path: Path, take: Take, sample: str
) -> None:
    lines = (data / sample).read_bytes().splitlines(keepends=True)
    (whole,) = take(data / sample)
    path = tmp_path / sample
    for position in range(1, len(lines)):
        bad = [*lines[:position], b"\0" * 40 + b"\n", *lines[position:]]
        path.write_bytes(b"".join(bad))
        (session,) = take(path)
        assert session.messages == whole.messages
        (finding,) = (each for each in session.findings if each.code == "damaged")
        assert (finding.line, finding.byte) == (position + 1, sum(map(len, lines[:position])))


@pytest.mark.parametrize("sample", [*SAMPLES][:-1])
def test_marks_ends_and_blanks_that_other_programs_leave_do_not_matter(
    data: Path, tmp_path: Path, take: Take, sample: str
) -> None:
    (whole,) = take(data / sample)
    path = tmp_path / Path(sample).name
    path.write_bytes(b"\xef\xbb\xbf" + (data / sample).read_bytes().replace(b"\n", b"\r\n\r\n"))
    if sample == "picoclaw.jsonl":
        shutil.copy(data / "picoclaw.meta.json", tmp_path)
    (session,) = take(path, SAMPLES[sample])
    assert session.messages == whole.messages
    assert session.codes() == whole.codes()


@pytest.mark.parametrize("name", sorted(set(SAMPLES.values())))
@pytest.mark.parametrize(
    "content", [b"", b"\n", b"{}", b"[]", b"null", b"\xff\xfe\x00", b'{"a":' * 3000, b"plain words\n"]
)
def test_what_is_no_session_is_refused(tmp_path: Path, take: Take, name: str, content: bytes) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(content)
    for chosen in (None, name):
        with pytest.raises(ForeignFormatError):
            take(path, chosen)


@pytest.mark.parametrize("name", sorted(set(SAMPLES.values())))
def test_an_empty_folder_is_refused(tmp_path: Path, take: Take, name: str) -> None:
    with pytest.raises(ForeignFormatError):
        take(tmp_path, name)


def test_text_that_is_no_unicode_is_read_with_marks_in_its_place(tmp_path: Path, take: Take) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"role":"user","content":"a\xffb"}\n{"role":"user","content":"c\\ud800d"}\n')
    (session,) = take(path, "picoclaw")
    assert [plain_text(message.content) for message in session.messages] == ["a\ufffdb", "c\ufffdd"]
