"""picoclaw's sessions: a document, or lines with a sidecar; a written document holds what the context shows."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.events.content import Content, ToolUsePart, image, plain_text, text, thinking, tool_result, tool_use
from treering.events.entries import Compaction, CompactionEntry, Entry, Message, SessionInfo, SessionInfoEntry
from treering.formats.chain import Chain
from treering.formats.picoclaw import picoclaw_document
from treering.testing import strategies

from ..sampling import examples
from .conftest import ParsedSession, ReadSessions


def summary_of(session: ParsedSession) -> str | None:
    infos = [entry.session_info.summary for entry in session.entries if isinstance(entry, SessionInfoEntry)]
    return infos[-1] if infos else None


def first_kept_id(session: ParsedSession) -> str | None:
    (entry,) = (entry for entry in session.entries if isinstance(entry, CompactionEntry))
    assert entry.compaction.summary == "", "the summary is kept in the session info"
    return entry.compaction.first_kept_entry_id


@pytest.fixture
def session(data: Path, read_sessions: ReadSessions) -> ParsedSession:
    """The session of the sample."""
    (session,) = read_sessions(data / "picoclaw" / "picoclaw.jsonl")
    return session


@pytest.mark.feature("P-29")
def test_a_document_is_read(data: Path, read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(data / "picoclaw" / "picoclaw.json")
    assert session.header.key == "agent:main:telegram:42"
    assert session.header.timestamp.isoformat() == "2026-03-01T09:00:00+00:00"
    assert session.roles == ["user", "assistant", "tool", "assistant"]
    assert session.messages[2] == Message("tool", (tool_result("c1", "09:00"),), tool_name="clock")
    assert session.messages[1] == Message("assistant", (tool_use("c1", "clock", {"zone": "UTC"}),))
    assert summary_of(session) == "They greeted each other."
    assert session.entries[-1].timestamp.second == 9
    assert not session.of("compaction")


def test_googles_signature_of_a_call_is_read_and_written(tmp_path: Path, read_sessions: ReadSessions) -> None:
    function = {"name": "clock", "arguments": "{}"}
    in_call = {"id": "c1", "function": function, "extra_content": {"google": {"thought_signature": "sealed"}}}
    in_function = {"id": "c2", "function": {**function, "thought_signature": "sealed"}}
    unsigned = {"id": "c3", "function": function, "extra_content": None}
    message = {"role": "assistant", "content": "", "tool_calls": [in_call, in_function, unsigned]}
    path = tmp_path / "signed.json"
    path.write_text(json.dumps({"key": "k", "messages": [message]}))
    (session,) = read_sessions(path, "picoclaw")
    calls = [part.tool_use for part in session.messages[0].content if isinstance(part, ToolUsePart)]
    assert [call.signature for call in calls] == ["sealed", "sealed", None]
    path.write_bytes(picoclaw_document(session.header, session.entries))
    assert read_sessions(path, "picoclaw")[0].messages == session.messages


def test_images_in_parts_are_read_and_their_text_not_repeated(tmp_path: Path, read_sessions: ReadSessions) -> None:
    url = {"url": "data:image/png;base64,aGk="}
    parts = [{"type": "text", "text": "See."}, {"type": "image_url", "image_url": url}]
    path = tmp_path / "parts.json"
    path.write_text(json.dumps({"key": "k", "messages": [{"role": "user", "content": "See.", "content_parts": parts}]}))
    (session,) = read_sessions(path, "picoclaw")
    assert session.messages == [Message("user", (text("See."), image("aGk=", "image/png")))]


@pytest.mark.feature("N-151")
def test_lines_and_their_sidecar_are_read(data: Path, read_sessions: ReadSessions) -> None:
    for name in ("picoclaw.jsonl", "picoclaw.meta.json"):
        (session,) = read_sessions(data / "picoclaw" / name)
        assert session.header.key == "telegram:42"
        assert session.roles == ["user", "assistant", "tool", "tool", "assistant"]
        assert [message.tool_name for message in session.messages if message.role == "tool"] == ["timer", "bell"]
        assert summary_of(session) == "A timer was set."


def test_a_cut_between_a_call_and_its_result_moves_back_and_is_reported(session: ParsedSession) -> None:
    assert first_kept_id(session) == session.entries[1].id, "before the call, since only one of its results was skipped"
    (finding,) = session.findings
    assert (finding.code, finding.entry_id) == ("unsafe_cut", session.entries[1].id)


@pytest.mark.parametrize(("skip", "first"), [(1, 1), (4, 4), (5, None), (99, None)])
def test_skipped_messages_are_stored_before_the_first_kept_entry(
    data: Path, tmp_path: Path, read_sessions: ReadSessions, skip: int, first: int | None
) -> None:
    (tmp_path / "s.jsonl").write_bytes((data / "picoclaw" / "picoclaw.jsonl").read_bytes())
    (tmp_path / "s.meta.json").write_text(json.dumps({"key": "k", "skip": skip, "count": 5}))
    (session,) = read_sessions(tmp_path / "s.jsonl")
    assert len(session.messages) == 5
    assert first_kept_id(session) == (None if first is None else session.entries[first].id)
    assert session.codes() == []


def test_a_damaged_line_counts_as_a_skipped_one(tmp_path: Path, read_sessions: ReadSessions) -> None:
    lines = [json.dumps({"role": "user", "content": each}) for each in ("one", "two", "three", "four", "five")]
    (tmp_path / "s.jsonl").write_text("\n".join([lines[0], lines[1][:20], "", *lines[2:]]) + "\n")
    (tmp_path / "s.meta.json").write_text(json.dumps({"key": "k", "skip": 3, "count": 5}))
    (session,) = read_sessions(tmp_path / "s.jsonl")
    assert [plain_text(message.content) for message in session.messages] == ["one", "three", "four", "five"]
    assert first_kept_id(session) == session.entries[2].id, "the fourth line that is not blank is the first kept"
    assert session.codes() == ["damaged"], "the sidecar counts the damaged line, too"


def test_a_lost_damaged_or_old_sidecar_is_reported(data: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    (tmp_path / "s.jsonl").write_bytes((data / "picoclaw" / "picoclaw.jsonl").read_bytes())
    for content, codes in ((None, ["sidecar"]), ("{", ["sidecar"]), ('{"key":"s","count":9}', ["count"])):
        if content is not None:
            (tmp_path / "s.meta.json").write_text(content)
        (session,) = read_sessions(tmp_path / "s.jsonl")
        assert (session.header.key, len(session.messages), session.codes()) == ("s", 5, codes)


def test_all_sessions_in_a_folder_are_read(data: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    for name in ("picoclaw.json", "picoclaw.jsonl", "picoclaw.meta.json"):
        (tmp_path / name.replace("picoclaw.json", "a.json").replace("picoclaw", "a")).write_bytes(
            (data / "picoclaw" / name).read_bytes()
        )
    assert {session.header.key for session in read_sessions(tmp_path)} == {"agent:main:telegram:42", "telegram:42"}


@pytest.mark.feature("P-29")
def test_a_written_document_reads_back_equal(data: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(data / "picoclaw" / "picoclaw.json")
    path = tmp_path / "again.json"
    path.write_bytes(picoclaw_document(session.header, session.entries))
    written = json.loads(path.read_bytes())
    assert list(written) == ["key", "messages", "summary", "created", "updated"]
    assert (written["created"], written["updated"]) == ("2026-03-01T09:00:00.000000Z", "2026-03-01T09:00:09.000000Z")
    (again,) = read_sessions(path)
    assert (again.header, again.entries) == (session.header, session.entries)


def test_a_document_has_what_is_still_kept(session: ParsedSession, tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = tmp_path / "again.json"
    path.write_bytes(picoclaw_document(session.header, session.entries))
    (again,) = read_sessions(path)
    assert again.messages == session.messages[1:]
    assert summary_of(again) == "A timer was set."


def test_the_latest_summary_wins_and_an_empty_compaction_keeps_it(data: Path, read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(data / "picoclaw" / "picoclaw.json")
    chain = Chain("test", "s", session.header.timestamp)
    first = chain.add(Message("user", (text("Hi"),)))
    entries: list[Entry] = [first, chain.add(SessionInfo(summary="one")), chain.add(Compaction("two", first.id, 0))]
    assert json.loads(picoclaw_document(session.header, entries))["summary"] == "two"
    entries.append(chain.add(Compaction("", None, 0)))
    assert json.loads(picoclaw_document(session.header, entries))["summary"] == "two"
    entries.append(chain.add(SessionInfo(summary="")))
    written = json.loads(picoclaw_document(session.header, entries))
    assert (written["summary"], written["messages"]) == ("", [])


WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
OBJECTS = st.dictionaries(WORDS, strategies.json_values(max_leaves=3), max_size=2)
IMAGES = st.just(image("QUJD", "image/png"))


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """Messages that picoclaw can represent: thinking, then one text, then images or calls; each call has its result."""
    found: list[Message] = []
    for number in range(draw(st.integers(0, 4))):
        asked: list[Content] = [text(draw(WORDS)), *draw(st.lists(IMAGES, max_size=2))]
        found.append(Message(draw(st.sampled_from(["user", "system"])), tuple(asked)))
        calls = [tool_use(f"c{number}-{n}", f"t{n}", draw(OBJECTS)) for n in range(draw(st.integers(0, 3)))]
        thoughts: list[Content] = [thinking(draw(WORDS))] if draw(st.booleans()) else []
        found.append(Message("assistant", (*thoughts, text(draw(WORDS)), *calls)))
        found += (
            Message("tool", (tool_result(call.tool_use.id, draw(WORDS)),), tool_name=call.tool_use.name)
            for call in calls
        )
    return found


@pytest.mark.feature("P-29")
@settings(max_examples=examples(25))
@given(messages=turns(), summary=WORDS)
def test_written_messages_and_summary_read_back_equal(
    tmp_path_factory: pytest.TempPathFactory,
    read_sessions: ReadSessions,
    data: Path,
    messages: list[Message],
    summary: str,
) -> None:
    header = read_sessions(data / "picoclaw" / "picoclaw.json")[0].header
    chain = Chain("test", "s", header.timestamp + timedelta(seconds=1))
    entries: list[Entry] = [*map(chain.add, messages), chain.add(SessionInfo(summary=summary))]
    path = tmp_path_factory.getbasetemp() / "property.json"
    path.write_bytes(picoclaw_document(header, entries))
    (again,) = read_sessions(path, "picoclaw")
    assert again.messages == messages
    assert [plain_text(message.content) for message in again.messages] == [
        plain_text(each.content) for each in messages
    ]
    assert summary_of(again) == summary
