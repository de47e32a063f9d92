"""What each room makes of a `Note`, in a copy of the library that has the type; `test_entry_type` runs it there."""

import json
import sys
from pathlib import Path
from typing import Any

COPY = Path(sys.argv[1])
sys.path.insert(0, str(COPY / "src"))

import anyio
from click.testing import CliRunner
from hypothesis import find

import treering
from treering.cli import main as treering_command
from treering.events.dialects.detect import DialectName
from treering.events.entries import payload_of, records
from treering.events.kinds import TYPE_NAMES, kind_of
from treering.projections.search.texts import entry_text
from treering.testing.strategies import entries, payloads

Note: Any = vars(records)["Note"]  # only the copy has it
NoteEntry: Any = vars(records)["NoteEntry"]
REMARK = Note("a remark about TREE-7")


async def append_a_note(dialect: DialectName) -> str:
    """Append a note to a new session, and look at it from every room; return the session's id."""
    root = COPY / dialect
    async with treering.SessionHost(root, dialect=dialect) as host:
        session = await host.create()
        await session.append_message("user", "Hello")
        note_id = await session.append(REMARK)
        await session.append_message("assistant", "Hi!")
        session_id = session.id
    async with treering.SessionHost(root, dialect=dialect) as host:
        session = await host.open(session_id)
        entry = await session.entry(note_id)
        assert isinstance(entry, NoteEntry), entry
        assert payload_of(entry) == REMARK
        assert kind_of(entry) == 20
        assert entry_text(entry) is None
        assert [each.role for each in (await session.context()).messages] == ["user", "assistant"]
        assert session.tree().node(note_id).type == "note"
        assert b"*note*" in await session.export("markdown")
        for format in ("native", "pi", "omp", "json"):
            assert b"a remark about TREE-7" in await session.export(format)
    return session_id


def line_of(dialect: DialectName) -> dict[str, Any]:
    """Follow the note in a dialect from the append to a list of entries; return its line."""
    session_id = anyio.run(append_a_note, dialect)
    listed = CliRunner().invoke(treering_command, ["entries", "--root", str(COPY / dialect), session_id])
    assert "note: a remark about TREE-7" in listed.output, listed.output
    lines = [line for file in (COPY / dialect).rglob("*.jsonl") for line in file.read_text().splitlines()]
    (line,) = (line for line in lines if "TREE-7" in line)
    fields: dict[str, Any] = json.loads(line)
    return fields


assert Path(treering.__file__).is_relative_to(COPY)
assert TYPE_NAMES[20] == "note"
native, pi = line_of("native"), line_of("pi")
assert native["note"] == {"text": "a remark about TREE-7"}
assert (pi["type"], pi["customType"], pi["data"]) == ("custom", "treering.note", native["note"])
assert isinstance(find(payloads(), lambda each: isinstance(each, Note)), Note)
assert find(entries(["note"]), lambda _: True).type == "note"
