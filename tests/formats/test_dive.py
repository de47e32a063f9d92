"""dive's sessions: turns become batches, compactions keep what they repeat, and written files can be read back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering import Entry, Header, Message, MessageEntry, Usage
from treering.events.content import Content, ThinkingPart, image, plain_text, text, tool_result, tool_use
from treering.events.entries import Compaction, CompactionEntry, SessionInfo, SessionInfoEntry, UsageEntry, UsageRecord
from treering.events.errors import ForeignFormatError
from treering.events.findings import LeftOut
from treering.formats.chain import Chain
from treering.formats.dive import DiveFormat
from treering.formats.dive.events import dive_document
from treering.testing import strategies

from ..sampling import examples
from .conftest import ParsedSession, ReadSessions

HEADER = Header(id="s", version=1, timestamp=datetime(2026, 3, 1, 9, tzinfo=UTC), title="Bakery")


@pytest.fixture
def session(data: Path, read_sessions: ReadSessions) -> ParsedSession:
    """The session of the sample."""
    (session,) = read_sessions(data / "dive" / "dive.jsonl")
    return session


@pytest.mark.feature("D-44")
def test_a_session_with_a_header_and_events_is_read(session: ParsedSession) -> None:
    header = session.header
    assert (header.id, header.title, header.parent_session) == ("bakery-2", "Bakery", "bakery")
    assert session.roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "user", "assistant"]
    (info,) = (entry.session_info for entry in session.entries if isinstance(entry, SessionInfoEntry))
    assert info.metadata == {"owner": "kim"}
    thought = session.messages[1].content[0]
    assert isinstance(thought, ThinkingPart)
    assert (thought.thinking.content, thought.thinking.signature) == ("Read it.", "c2ln")
    assert session.messages[2].tool_name == "read_file"
    assert [(each.kind, each.line) for each in session.findings if isinstance(each, LeftOut)] == [
        ("line of kind marker", 5)
    ]


def test_a_turn_becomes_a_batch_with_a_usage_record(session: ParsedSession) -> None:
    records = [entry for entry in session.entries if isinstance(entry, UsageEntry)]
    assert [entry.id for entry in records] == ["evt-1", "evt-2", "evt-4"]
    assert [(each.usage.kind, each.usage.messages) for each in records] == [("turn", 4), ("turn", 2), ("turn", 2)]
    assert records[0].usage.usage == Usage(10, 3, 2, 0, 15)
    assert records[1].usage.metadata == {"attempt": 2}
    batch = [entry.batch for entry in session.entries if entry.batch is not None and entry.batch.id == "evt-1"]
    assert [(each.session, each.i, each.n) for each in batch] == [("bakery-2", n, 5) for n in range(5)]


def test_an_unsupported_part_is_kept_in_the_messages_metadata(session: ParsedSession, data: Path) -> None:
    message = session.messages[4]
    assert plain_text(message.content) == "And this?"
    assert message.metadata == {"left_out": [{"type": "document", "source": {"type": "text", "data": "x"}}]}


def test_the_messages_that_a_compaction_repeats_are_its_kept_entries(session: ParsedSession) -> None:
    (entry,) = (entry for entry in session.entries if isinstance(entry, CompactionEntry))
    assert (entry.id, entry.compaction.summary) == ("evt-3", "They read bread.md.")
    assert entry.compaction.details == {"original_event_count": 2, "original_message_count": 6}
    kept = next(each for each in session.entries if each.id == entry.compaction.first_kept_entry_id)
    assert isinstance(kept, MessageEntry)
    assert plain_text(kept.message.content) == "And this?"
    assert len(session.messages) == 8, "no message is duplicated or lost"


def test_a_plain_list_of_messages_is_read(data: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(data / "dive" / "dive.json")
    assert session.roles == ["user", "assistant", "tool", "assistant"]
    copy = tmp_path / "other name.json"
    copy.write_bytes((data / "dive" / "dive.json").read_bytes())
    (again,) = read_sessions(copy)
    assert (again.header.id, [entry.id for entry in again.entries]) == (
        session.header.id,
        [entry.id for entry in session.entries],
    )


CHAT = [
    {"role": "system", "content": "You bake."},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "ls", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c", "content": "bread.md"},
]


@pytest.mark.parametrize(
    "messages",
    [
        CHAT,
        [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}, *CHAT],
        [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "x"}}],
            }
        ],
        [{"role": "user", "content": "Hi"}],
        [{"role": "user", "parts": [{"functionCall": {"name": "write", "args": {"content": "x"}}}]}],
        [{"name": "role", "content": [{"type": "text"}]}, {"role": "user"}],
    ],
)
def test_message_lists_of_other_programs_are_not_recognized(tmp_path: Path, messages: list[object]) -> None:
    path = tmp_path / "s.json"
    for indent in (None, 2):
        path.write_text(json.dumps(messages, indent=indent))
        assert not DiveFormat().detects(path, path.read_bytes())


def test_a_list_with_calls_outside_of_the_content_is_refused(tmp_path: Path, read_sessions: ReadSessions) -> None:
    path = tmp_path / "s.json"
    for messages in (CHAT, [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}, *CHAT]):
        path.write_text(json.dumps(messages))
        with pytest.raises(ForeignFormatError, match=r"not messages of dive|no messages"):
            read_sessions(path, "dive")


@pytest.mark.feature("D-44")
def test_a_torn_last_line_is_left_out(data: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    whole = (data / "dive" / "dive.jsonl").read_bytes()
    path = tmp_path / "s.jsonl"
    path.write_bytes(whole[:-20])
    (session,) = read_sessions(path)
    assert len(session.messages) == 6
    assert session.codes() == ["damaged", "left_out"]
    place = session.findings[0]
    assert (place.line, place.byte) == (6, whole[:-1].rindex(b"\n") + 1)
    path.write_bytes(whole[:-1])
    (session,) = read_sessions(path)
    assert len(session.messages) == 8, "a last line that only lacks its newline is complete"
    assert session.codes() == ["left_out"]


def test_events_without_a_header_take_the_files_name(data: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    lines = (data / "dive" / "dive.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "bakery-3.jsonl"
    path.write_bytes(b"".join(lines[1:]))
    (session,) = read_sessions(path)
    assert (session.header.id, len(session.messages), session.codes()) == ("bakery-3", 8, ["damaged", "left_out"])
    assert session.header.timestamp.second == 1


def test_all_sessions_in_a_folder_are_read(data: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes((data / "dive" / "dive.jsonl").read_bytes())
    (tmp_path / "c.jsonl").write_bytes(b'{"line_type":')
    assert [len(session.messages) for session in read_sessions(tmp_path)] == [8, 8]
    with pytest.raises(ForeignFormatError, match="holds no dive session"):
        read_sessions(data / "opencode", "dive")


@pytest.mark.feature("D-44")
def test_a_written_session_reads_back_equal(
    session: ParsedSession, data: Path, tmp_path: Path, read_sessions: ReadSessions
) -> None:
    path = tmp_path / "again.jsonl"
    path.write_bytes(dive_document(session.header, session.entries))
    first, *events = (json.loads(line) for line in path.read_bytes().splitlines())
    assert (first["line_type"], {event["line_type"] for event in events}) == ("header", {"event"})
    original = [json.loads(line) for line in (data / "dive" / "dive.jsonl").read_bytes().splitlines()]
    assert [event["data"]["messages"] for event in events] == [
        each["data"]["messages"] for each in original if each["line_type"] == "event"
    ]
    (again,) = read_sessions(path)
    assert (again.header, again.entries) == (session.header, session.entries)


def test_messages_without_usage_records_are_split_into_turns_at_user_messages(data: Path) -> None:
    chain = Chain("test", "s", HEADER.timestamp)
    used = Usage(5, 1, 0, 0, 6)
    entries: list[Entry] = [
        chain.add(SessionInfo(name="Renamed")),
        chain.add(Message("user", (text("one"),))),
        chain.add(Message("assistant", (text("1"),), usage=used)),
        chain.add(Message("user", (text("two"),))),
        chain.add(Message("assistant", (text("2"),), usage=used)),
        chain.add(UsageRecord("summary", used)),
    ]
    first, *events = (json.loads(line) for line in dive_document(HEADER, entries).splitlines())
    assert first["data"]["title"] == "Renamed"
    assert [len(event["data"]["messages"]) for event in events] == [2, 2]
    assert [event["data"]["usage"] for event in events] == [{"input_tokens": 5, "output_tokens": 1}] * 2


def test_a_compaction_event_repeats_the_kept_messages(data: Path) -> None:
    chain = Chain("test", "s", HEADER.timestamp)
    users = [chain.add(Message("user", (text(each),))) for each in "abc"]
    entries: list[Entry] = [*users, chain.add(Compaction("Sum", users[1].id, 9)), chain.add(Compaction("", None, 9))]
    events = [json.loads(line)["data"] for line in dive_document(HEADER, entries).splitlines()][1:]
    texts = [[message["content"][0]["text"] for message in event["messages"]] for event in events]
    assert texts == [["a"], ["b"], ["c"], ["Sum", "b", "c"], []]
    assert [event["metadata"]["original_message_count"] for event in events[3:]] == [3, 2]


@pytest.mark.parametrize("kept", [0, 1])
def test_a_compaction_without_a_summary_reads_back_with_the_messages_that_it_kept(
    kept: int, tmp_path: Path, read_sessions: ReadSessions
) -> None:
    chain = Chain("test", "s", HEADER.timestamp)
    said = [chain.add(Message(role, (text(role),))) for role in ("user", "user", "assistant")]
    path = tmp_path / "truncated.jsonl"
    path.write_bytes(dive_document(HEADER, [*said, chain.add(Compaction("", said[kept].id, 0))]))
    (again,) = read_sessions(path)
    (compaction,) = (each.compaction for each in again.entries if isinstance(each, CompactionEntry))
    ids = [each.id for each in again.entries if isinstance(each, MessageEntry)]
    assert (compaction.summary, compaction.first_kept_entry_id) == ("", ids[kept])
    assert len(ids) == 3


def test_a_compaction_keeps_messages_that_an_earlier_one_had_hidden(data: Path) -> None:
    chain = Chain("test", "s", HEADER.timestamp)
    first = chain.add(Message("user", (text("a"),)))
    entries = [first, chain.add(Compaction("All", None, 0)), chain.add(Compaction("Less", first.id, 0))]
    *_, event = (json.loads(line)["data"] for line in dive_document(HEADER, entries).splitlines())
    assert [message["content"][0]["text"] for message in event["messages"]] == ["Less", "a"]


WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
OBJECTS = st.dictionaries(WORDS, strategies.json_values(max_leaves=3), max_size=2)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """The messages of one turn."""
    shown: list[Content] = [text(draw(WORDS)), *draw(st.lists(st.just(image("QUJD", "image/png")), max_size=1))]
    calls = [tool_use(f"c{n}", f"t{n}", draw(OBJECTS)) for n in range(draw(st.integers(0, 2)))]
    results = tuple(tool_result(call.tool_use.id, draw(WORDS), is_error=draw(st.booleans())) for call in calls)
    found = [Message("user", tuple(shown)), Message("assistant", (text(draw(WORDS)), *calls))]
    if results:
        found.append(Message("tool", results, tool_name=calls[0].tool_use.name))
    return found


@pytest.mark.feature("D-44")
@settings(max_examples=examples(25))
@given(saved=st.lists(st.tuples(turns(), st.integers(0, 9)), max_size=4))
def test_written_messages_and_usage_read_back_equal(
    tmp_path_factory: pytest.TempPathFactory, read_sessions: ReadSessions, saved: list[tuple[list[Message], int]]
) -> None:
    chain = Chain("test", "s", HEADER.timestamp)
    entries: list[Entry] = []
    for messages, tokens in saved:
        entries += map(chain.add, messages)
        entries.append(chain.add(UsageRecord("turn", Usage(tokens, 0, 0, 0, tokens), messages=len(messages))))
    path = tmp_path_factory.getbasetemp() / "property.jsonl"
    path.write_bytes(dive_document(HEADER, entries))
    (again,) = read_sessions(path, "dive")
    assert again.messages == [message for messages, _ in saved for message in messages]
    records = [entry.usage for entry in again.entries if isinstance(entry, UsageEntry)]
    assert records == [entry.usage for entry in entries if isinstance(entry, UsageEntry)]
