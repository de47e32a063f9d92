"""Files that the programs themselves wrote: their contents are counted, and nothing that is complete is left out."""

from collections import Counter
from pathlib import Path

import pytest

from treering.events.content import ToolResultPart, ToolUsePart
from treering.formats.dive.events import dive_document
from treering.formats.nanocoder.writing import write_nanocoder

from .conftest import ReadSessions

COUNTS = {
    "codex/rollout_v050_legacy.jsonl": ("codex", "usage 1", ""),
    "codex/rollout_v0146_ordinal_zoo.jsonl": (
        "codex",
        (
            "message 36 model_change 8 custom 7 compaction 6 thinking_level 2 custom_message 2 session_info 1 usage 1 "
            "tool_execution 1"
        ),
        "user 19 assistant 7 tool 6 system 4",
    ),
    "gemini/v040.jsonl": ("gemini", "message 4 model_change 1", "user 1 assistant 2 tool 1"),
    "gemini/legacy.json": ("gemini", "message 8 model_change 1 custom 1", "user 2 assistant 4 tool 2"),
    "nanocoder/session.json": ("nanocoder", "message 4 model_change 1 session_info 1", "user 1 assistant 2 tool 1"),
    "picoclaw/telegram_123456.jsonl": (
        *("picoclaw", "message 4 session_info 1 compaction 1", "user 1 assistant 2 tool 1"),
    ),
    "dive/fork.jsonl": ("dive", "message 6 usage 3 compaction 1", "user 3 assistant 3"),
    "dive/compaction_swe_debugging.json": ("dive", "message 48", "user 3 assistant 24 tool 21"),
}


def counts(words: str) -> dict[str, int]:
    names_and_counts = iter(words.split())
    return {name: int(next(names_and_counts)) for name in names_and_counts}


@pytest.mark.parametrize("name", COUNTS)
def test_a_real_file_has_these_entries_and_roles(shared_fixtures: Path, read_sessions: ReadSessions, name: str) -> None:
    format_name, entries, roles = COUNTS[name]
    (session,) = read_sessions(shared_fixtures / name)
    assert read_sessions(shared_fixtures / name, format_name) == [session], (
        "it is recognized, and read the same each time"
    )
    assert Counter(entry.type for entry in session.entries) == counts(entries)
    assert Counter(session.roles) == counts(roles)
    assert [each for each in session.findings if each.severity == "error"] == []


def test_a_real_folder_of_opencode_has_these_sessions(shared_fixtures: Path, read_sessions: ReadSessions) -> None:
    large, small = read_sessions(shared_fixtures / "opencode" / "storage_v2")
    assert (large.header.title, small.header.title) == ("OpenCode Large", "OpenCode Small")
    assert large.roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert small.roles == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("name", [name for name in COUNTS if "zoo" not in name])
def test_every_result_follows_its_call(shared_fixtures: Path, read_sessions: ReadSessions, name: str) -> None:
    (session,) = read_sessions(shared_fixtures / name)
    calls: set[str] = set()
    for message in session.messages:
        for part in message.content:
            if isinstance(part, ToolUsePart):
                calls.add(part.tool_use.id)
            elif isinstance(part, ToolResultPart):
                assert part.tool_result.tool_use_id in calls


def test_a_cut_of_picoclaw_parts_no_call_from_its_result(shared_fixtures: Path, read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(shared_fixtures / "picoclaw" / "telegram_123456.jsonl")
    assert session.header.key == "telegram:123456"
    (finding,) = session.findings
    assert (finding.code, finding.entry_id) == ("unsafe_cut", session.entries[1].id)


@pytest.mark.feature("D-44")
def test_files_of_dive_are_written_equal(shared_fixtures: Path, tmp_path: Path, read_sessions: ReadSessions) -> None:
    (session,) = read_sessions(shared_fixtures / "dive" / "fork.jsonl")
    path = tmp_path / "fork.jsonl"
    path.write_bytes(dive_document(session.header, session.entries))
    (again,) = read_sessions(path)
    assert (again.header, again.entries) == (session.header, session.entries)
    assert len(path.read_bytes().splitlines()) == len(
        (shared_fixtures / "dive" / "fork.jsonl").read_bytes().splitlines()
    )


@pytest.mark.parametrize("name", ["nanocoder/session.json", "dive/compaction_swe_debugging.json"])
def test_sessions_of_other_programs_can_be_written_as_nanocoder_folders(
    shared_fixtures: Path, tmp_path: Path, read_sessions: ReadSessions, name: str
) -> None:
    (session,) = read_sessions(shared_fixtures / name)
    (again,) = read_sessions(write_nanocoder(session.header, session.entries, tmp_path))
    assert again.messages == session.messages
    assert again.codes(notes=True) == []
