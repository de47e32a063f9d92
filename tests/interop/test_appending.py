"""Appending in pi's and oh-my-pi's formats: the content of a line, and that it reads back as what was appended."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from treering import Entry, EntryNotFound, Session, SessionHost, image, message, plain_text, text
from treering.entries import BranchSummary, Compaction, Content, CustomEntry, CustomMessage, LabelEntry, OpaqueEntry
from treering.events.dialects.detect import DialectName
from treering.events.entries.contextual import BranchSummaryEntry, CompactionEntry, CustomMessageEntry

HEADER = '{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}'
FIRST = '{"type":"message","id":"aaaaaaaa","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":MESSAGE}'


def lines(session: Session) -> list[dict[str, Any]]:
    with open(session.file_path or "", encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if line["type"] not in ("title", "session")]


def line(session: Session, entry_id: str) -> dict[str, Any]:
    """The fields of an entry's line besides its id, parent and timestamp."""
    [found] = [each for each in lines(session) if each["id"] == entry_id]
    return {key: value for key, value in found.items() if key not in ("id", "parentId", "timestamp")}


def folder(session: Session) -> Path:
    return Path(session.file_path or "").parent


async def read_back(session: Session, entry_id: str) -> Entry:
    """Read an entry from the file with a host that knows nothing but the file."""
    before = await session.entry(entry_id)
    async with SessionHost(folder(session)) as other:
        reader = await other.load(session.file_path or "", read_only=True)
        found = await reader.entry(entry_id)
    assert found is not None
    assert found == before
    return found


@pytest.mark.feature("O-17", "O-18", "O-19", "O-43")
async def test_a_compaction_is_written_and_read_back(session: Session, dialect: DialectName) -> None:
    hook = "fromHook" if dialect == "pi" else "fromExtension"
    kept = await session.append_message("user", "hello")
    plain = await session.append_compaction("S", kept, 50000)
    base = {"type": "compaction", "summary": "S", "firstKeptEntryId": kept, "tokensBefore": 50000}
    assert line(session, plain) == base
    found = await read_back(session, plain)
    assert isinstance(found, CompactionEntry)
    assert found.compaction == Compaction("S", kept, 50000)
    assert (found.compaction.from_hook, found.compaction.details) == (False, None)
    noted = {"read": ["a", {"deep": None}], "n": 1.5, "ü": "\u2028"}
    full = await session.append_compaction("S", kept, 50000, details=noted, from_hook=True)
    assert line(session, full) == {**base, "details": noted, hook: True}
    found = await read_back(session, full)
    assert isinstance(found, CompactionEntry)
    assert (found.compaction.from_hook, found.compaction.details) == (True, noted)


@pytest.mark.feature("O-21", "O-23", "O-54")
async def test_a_branch_summary_is_written_and_read_back(session: Session, dialect: DialectName) -> None:
    hook = "fromHook" if dialect == "pi" else "fromExtension"
    first = await session.append_message("user", "hello")
    left = await session.append_message("user", "left")
    plain = await session.branch_with_summary(first, "S")
    assert line(session, plain) == {"type": "branch_summary", "fromId": left, "summary": "S"}
    assert (session.leaf_id, session.path()) == (plain, [first, plain])
    files = {"readFiles": ["a"], "modifiedFiles": []}
    full = await session.branch_with_summary(first, "S", details=files, from_hook=True)
    assert line(session, full) == {
        "type": "branch_summary",
        "fromId": plain,
        "summary": "S",
        "details": files,
        hook: True,
    }
    found = await read_back(session, full)
    assert isinstance(found, BranchSummaryEntry)
    assert found.parent_id == first
    assert (found.branch_summary.from_id, found.branch_summary.from_hook) == (plain, True)
    assert found.branch_summary.details == files
    bare = await read_back(session, plain)
    assert isinstance(bare, BranchSummaryEntry)
    assert bare.branch_summary == BranchSummary("S", left)
    before = len(lines(session))
    with pytest.raises(EntryNotFound):
        await session.branch_with_summary("nobody", "S")
    assert (len(lines(session)), session.leaf_id) == (before, full)


@pytest.mark.feature("O-24", "O-25", "O-44")
async def test_custom_entries_are_written_and_read_back(session: Session) -> None:
    bare = await session.append_custom_entry("my-hook")
    await session.append_custom_entry("another", 1)
    await session.append_message("user", "hello")
    full = await session.append_custom_entry("my-hook", {"count": 42})
    empty = await session.append_custom_entry("my-hook", {})
    assert line(session, bare) == {"type": "custom", "customType": "my-hook"}
    assert line(session, full) == {"type": "custom", "customType": "my-hook", "data": {"count": 42}}
    assert [plain_text(each.content) for each in (await session.context()).messages] == ["hello"]
    async with SessionHost(folder(session)) as other:
        reader = await other.load(session.file_path or "", read_only=True)
        mine = await reader.entries(custom_type="my-hook")
    assert [entry.id for entry in mine] == [bare, full, empty]
    assert [entry.custom.data for entry in mine if isinstance(entry, CustomEntry)] == [None, {"count": 42}, {}]


@pytest.mark.feature("O-26", "O-27", "O-28", "O-29", "O-36", "O-45")
async def test_a_custom_message_is_written_and_read_back(session: Session) -> None:
    shown = await session.append_custom_message("my-hook", "Injected")
    base = {"type": "custom_message", "customType": "my-hook"}
    assert line(session, shown) == {**base, "content": "Injected", "display": True}
    parts: list[Content | str] = [text("look:"), image("aGk=", "image/png")]
    hidden = await session.append_custom_message("my-hook", parts, display=False, details={"SECRET": 1})
    assert line(session, hidden) == {
        **base,
        "display": False,
        "details": {"SECRET": 1},
        "content": [{"type": "text", "text": "look:"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}],
    }
    found = [await read_back(session, each) for each in (shown, hidden)]
    payloads = [each.custom_message for each in found if isinstance(each, CustomMessageEntry)]
    assert payloads[0] == CustomMessage("my-hook", (text("Injected"),), display=True)
    assert (payloads[1].display, payloads[1].details) == (False, {"SECRET": 1})
    context = await session.context()
    assert [(each.entry_id, each.role, each.content) for each in context.messages] == [
        (shown, "custom", (text("Injected"),)),
        (hidden, "custom", tuple(parts)),
    ]
    assert "SECRET" not in repr(context)
    messages = [each for each in await session.messages() if each.role == "custom"]
    assert [[*each.content] for each in messages] == [[text("Injected")], parts], (
        "the model receives it whether it is displayed or not"
    )


@pytest.mark.feature("O-30", "O-46", "O-52")
async def test_a_label_is_written_and_read_back(session: Session) -> None:
    first = await session.append_message("user", "hello")
    assert session.label(first) is None
    for label in ("one", "checkpoint-1"):
        entry_id = await session.set_label(first, label)
        assert line(session, entry_id) == {"type": "label", "targetId": first, "label": label}
        assert (session.label(first), session.leaf_id) == (label, entry_id)
    cleared = await session.set_label(first, None)
    assert line(session, cleared) == {"type": "label", "targetId": first}
    assert session.label(first) is None
    found = await read_back(session, cleared)
    assert isinstance(found, LabelEntry)
    before = len(lines(session))
    with pytest.raises(EntryNotFound, match="'nobody' not found"):
        await session.set_label("nobody", "x")
    assert (session.label("nobody"), len(lines(session))) == (None, before)


@pytest.mark.feature("O-7", "O-31", "O-42", "O-47")
async def test_a_message_has_a_short_id_below_the_leaf(session: Session) -> None:
    assert session.leaf_id is None
    ids = [await session.append_message("user", str(number)) for number in range(3)]
    assert session.leaf_id == ids[-1]
    assert [(each["id"], each["parentId"]) for each in lines(session)] == [
        (ids[0], None),
        (ids[1], ids[0]),
        (ids[2], ids[1]),
    ]
    assert all(len(each) == 8 and int(each, 16) >= 0 for each in ids)


@pytest.mark.feature("O-7")
async def test_an_id_in_the_file_is_not_generated_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [FIRST.replace("MESSAGE", '{"role":"user","content":"hi"}')]
    write(path, HEADER, *rows)
    count = 0

    def repetitive() -> str:
        nonlocal count
        count += 1
        return str(UUID(f"aaaaaaaa-bbbb-4ccc-8ddd-{count:012x}"))

    async with SessionHost(tmp_path, new_id=repetitive) as host:
        session = await host.load(path)
        added = [await session.append_message("user", "again") for _ in range(2)]
        batch = await session.append_many([message("user", "x"), message("user", "y")])
        expected = ["aaaaaaaa", *added, *batch]
        assert len(set(expected)) == 5
        assert [each["id"] for each in lines(session)] == expected


@pytest.mark.feature("O-8")
async def test_names_are_camel_case_in_pi_files_and_snake_case_in_native_files(tmp_path: Path) -> None:
    keys: dict[str, set[str]] = {}
    dialects: tuple[DialectName, ...] = ("native", "pi", "omp")
    for dialect in dialects:
        async with SessionHost(tmp_path / dialect, dialect=dialect) as host:
            session = await host.create()
            first = await session.append_message("user", "hello")
            await session.append_compaction("S", first, 1)
            await session.set_label(first, "x")
            await session.append_custom_message("hook", "y")
            keys[dialect] = names(lines(session))
            reader = await host.load(session.file_path or "", read_only=True)
            entries = await reader.entries()
            assert [entry.type for entry in entries] == ["message", "compaction", "label", "custom_message"]
            assert not [entry for entry in entries if isinstance(entry, OpaqueEntry)]
    assert {"parent_id", "first_kept_entry_id", "tokens_before", "target_id", "custom_type"} <= keys["native"]
    for dialect in ("pi", "omp"):
        assert {"parentId", "firstKeptEntryId", "tokensBefore", "targetId", "customType"} <= keys[dialect]
        assert not [key for key in keys[dialect] if "_" in key]
    assert not [key for key in keys["native"] if key != key.lower()]


def names(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(names, value.values()))
    return set[str]().union(*map(names, value)) if isinstance(value, list) else set()


def write(path: Path, *rows: str) -> None:
    path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")


def file_bytes(path: str | Path) -> bytes:
    return Path(path).read_bytes()
