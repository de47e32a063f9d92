"""The row of a session in a listing."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from treering.events.content import image, text
from treering.events.entries import Entry, Header, Label, Payload, SessionInfo, entry_of, message
from treering.events.index import LogIndex
from treering.events.texts import TITLE_CHARS_MAX, preview
from treering.projections.summary import SessionSummary, summarize

START = datetime(2026, 1, 1, tzinfo=UTC)
HEADER = Header(id="s", version=1, timestamp=START, cwd="/work", parent_session="parent", key="telegram:1")


def row(*payloads: Payload, header: Header = HEADER) -> SessionSummary:
    index, entries = LogIndex(header), {0: None} | dict(enumerate(entries_of(*payloads), 1))
    for entry in entries.values():
        if entry is not None:
            index.fold(entry)
    return summarize(index, ref="a/s", dialect="native", path="/sessions/s.jsonl", project_hash="00ff")


def entries_of(*payloads: Payload) -> list[Entry]:
    return [
        entry_of(payload, id=f"e{seq}", parent_id=None, timestamp=START + timedelta(hours=seq), seq=seq)
        for seq, payload in enumerate(payloads, 1)
    ]


def test_a_row_summarizes_the_log() -> None:
    summary = row(
        message("system", "rules"),
        message("user", "Fix\n  the bug"),
        message("assistant", "done"),
        message("user", "thanks"),
        message("tool", ()),
        SessionInfo(name=" Bug hunt ", status="archived"),
    )
    assert summary == SessionSummary(
        id="s",
        ref="a/s",
        path="/sessions/s.jsonl",
        key="telegram:1",
        name="Bug hunt",
        title="Bug hunt",
        created=START,
        modified=START + timedelta(hours=4),
        last_entry=START + timedelta(hours=6),
        last_accessed=START + timedelta(hours=6),
        message_count=5,
        user_count=2,
        assistant_count=1,
        parent_session="parent",
        cwd="/work",
        project="/work",
        project_hash="00ff",
        first_message="Fix the bug",
        dialect="native",
        status="archived",
        archived=True,
        labels=(),
    )


def test_a_row_has_the_newest_labels() -> None:
    labels = [Label(f"entry-{number}", f"step\n{number}") for number in range(10)]
    summary = row(*labels, Label("entry-3", "again"), Label("entry-9", ""), Label("entry-8", "x" * 1000))
    assert summary.labels is not None
    assert summary.labels[1:] == ("again", "step 7", "step 6", "step 5", "step 4", "step 2", "step 1")
    assert len(summary.labels[0]) == TITLE_CHARS_MAX


def test_a_session_without_messages_has_the_headers_time_and_no_preview() -> None:
    summary = row(SessionInfo(description="nothing yet"))
    assert (summary.created, summary.modified) == (START, START)
    assert (summary.message_count, summary.first_message, summary.name, summary.status) == (0, "", None, "active")


@pytest.mark.parametrize(
    ("names", "name"),
    [([], "Automatic"), (["Mine"], "Mine"), (["Mine", ""], None), (["Mine", "Yours"], "Yours"), (["  "], None)],
)
def test_a_name_set_by_a_person_takes_precedence_over_the_automatic_title(names: list[str], name: str | None) -> None:
    titled = replace(HEADER, title="Automatic")
    assert row(*(SessionInfo(name=each) for each in names), header=titled).name == name


def test_a_first_message_of_only_images_has_no_preview() -> None:
    assert row(message("user", [image("aGk=", "image/png")])).first_message == ""
    assert row(message("user", [image("aGk=", "image/png"), text("what is"), text("this?")])).first_message == (
        "what is this?"
    )


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("short", "short"),
        ("  a \t b\n\nc ", "a b c"),
        ("exactly10!", "exactly10!"),
        ("more than ten", "more than…"),
        ("", ""),
        ("123456789e\u0301x", "123456789…"),
        ("12345678e\u0301xy", "12345678…"),
        ("1234567👩\u200d👩\u200d👧xy", "1234567…"),
        ("12345678👍\U0001f3fdxy", "12345678…"),
        ("x" + " " * 200 + "y", "x…"),
        (" " * 15 + "one two three four", "one two t…"),
        (" " * 75 + "one two three four", "one t…"),
    ],
)
def test_a_preview_is_one_line_that_splits_no_character(content: str, shown: str) -> None:
    assert preview(content, 10) == shown
