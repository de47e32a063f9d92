"""Damaged files: complete parts are read, the others are reported or refused with a typed error."""

import shutil
from pathlib import Path

import pytest

from treering.events.content import plain_text
from treering.events.errors import ForeignFormatError

from .conftest import ReadSessions

SAMPLES = {
    "codex/codex.jsonl": "codex",
    "gemini/gemini.jsonl": "gemini",
    "gemini/gemini.json": "gemini",
    "qwen/qwen.jsonl": "qwen",
    "nanocoder/nanocoder.json": "nanocoder",
    "picoclaw/picoclaw.json": "picoclaw",
    "picoclaw/picoclaw.jsonl": "picoclaw",
    "dive/dive.jsonl": "dive",
    "dive/dive.json": "dive",
    "opencode/storage/session/bakery/ses_1.json": "opencode",
}


@pytest.mark.parametrize(
    "sample",
    ["codex/codex.jsonl", "gemini/gemini.jsonl", "qwen/qwen.jsonl", "picoclaw/picoclaw.jsonl", "dive/dive.jsonl"],
)
def test_a_bad_line_loses_nothing_else_and_is_reported_with_its_position(
    data: Path, tmp_path: Path, read_sessions: ReadSessions, sample: str
) -> None:
    lines = (data / sample).read_bytes().splitlines(keepends=True)
    (whole,) = read_sessions(data / sample)
    path = tmp_path / Path(sample).name
    for position in range(1, len(lines)):
        bad = [*lines[:position], b"\0" * 40 + b"\n", *lines[position:]]
        path.write_bytes(b"".join(bad))
        (session,) = read_sessions(path)
        assert session.messages == whole.messages
        (finding,) = (each for each in session.findings if each.code == "damaged")
        assert (finding.line, finding.byte) == (position + 1, sum(map(len, lines[:position])))


@pytest.mark.parametrize("sample", [*SAMPLES][:-1])
def test_a_byte_order_mark_crlf_and_blank_lines_do_not_matter(
    data: Path, tmp_path: Path, read_sessions: ReadSessions, sample: str
) -> None:
    (whole,) = read_sessions(data / sample)
    path = tmp_path / Path(sample).name
    path.write_bytes(b"\xef\xbb\xbf" + (data / sample).read_bytes().replace(b"\n", b"\r\n\r\n"))
    if sample == "picoclaw/picoclaw.jsonl":
        shutil.copy(data / "picoclaw" / "picoclaw.meta.json", tmp_path)
    for name in (None, SAMPLES[sample]):
        (session,) = read_sessions(path, name)
        assert session.messages == whole.messages
        assert session.codes() == whole.codes()


@pytest.mark.parametrize("name", sorted(set(SAMPLES.values())))
@pytest.mark.parametrize(
    "content", [b"", b"\n", b"{}", b"[]", b"null", b"\xff\xfe\x00", b'{"a":' * 3000, b"plain words\n"]
)
def test_content_that_is_not_a_session_is_refused(
    tmp_path: Path, read_sessions: ReadSessions, name: str, content: bytes
) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(content)
    for chosen in (None, name):
        with pytest.raises(ForeignFormatError):
            read_sessions(path, chosen)


@pytest.mark.parametrize("name", sorted(set(SAMPLES.values())))
def test_an_empty_folder_is_refused(tmp_path: Path, read_sessions: ReadSessions, name: str) -> None:
    with pytest.raises(ForeignFormatError):
        read_sessions(tmp_path, name)


def test_invalid_unicode_is_read_as_replacement_characters(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"role":"user","content":"a\xffb"}\n{"role":"user","content":"c\\ud800d"}\n')
    (session,) = read_sessions(path, "picoclaw")
    assert [plain_text(message.content) for message in session.messages] == ["a\ufffdb", "c\ufffdd"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("claude-code", b'{"type":"user","uuid":"u1","sessionId":"s","message":{"role":"user","content":"a%bb"}}'),
        ("codex", b'{"type":"message","role":"user","content":[{"type":"input_text","text":"a%bb"}]}'),
        (
            "dive",
            b'{"line_type":"event","data":{"messages":[{"role":"user","content":[{"type":"text","text":"a%bb"}]}]}}',
        ),
        ("picoclaw", b'{"role":"user","content":"a%bb"}'),
        ("qwen", b'{"uuid":"u1","parentUuid":null,"message":{"role":"user","parts":[{"text":"a%bb"}]}}'),
    ],
)
@pytest.mark.parametrize(
    ("invalid", "shown", "problem"),
    [(b"\xff", "a\ufffdb", "UTF-8"), (b"\\ud800", "a\ufffdb", "JSON"), ("é€".encode(), "aé€b", None)],
)
def test_what_is_replaced_in_a_line_is_reported(
    tmp_path: Path, read_sessions: ReadSessions, name: str, line: bytes, invalid: bytes, shown: str, problem: str | None
) -> None:
    path = tmp_path / "s.jsonl"
    first = (
        b'{"timestamp":"2026-03-01T09:00:00Z","type":"session_meta","payload":{"id":"s"}}\n' if name == "codex" else b""
    )
    path.write_bytes(first + line % invalid + b"\n")
    (session,) = read_sessions(path, name)
    assert plain_text(session.messages[0].content) == shown
    replaced = [each for each in session.findings if each.code == "replaced"]
    assert len(replaced) == (problem is not None)
    for each in replaced:
        assert (each.severity, each.line) == ("warning", 2 if first else 1)
        assert problem is not None
        assert problem in each.message
