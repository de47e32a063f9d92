"""The JSON document: an import restores what was exported, and redacted or invalid documents are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from treering import Session, SessionHost, UnsupportedVersion
from treering.errors import ForeignFormatError, RedactedSession
from treering.sessions import Redaction

from .conftest import BASE, HEADER, Carry, LoadOdd


async def state_of(session: Session) -> dict[str, Any]:
    return {
        "header": session.header,
        "entries": await session.entries(),
        "leaf": session.leaf_id,
        "tree": session.tree(),
        "labels": session.labels(),
        "name": session.name,
        "context": await session.context(),
    }


@pytest.mark.feature("N-56", "U-21")
@pytest.mark.parametrize("leaf", [-1, 3], ids=["newest", "moved"])
async def test_an_imported_document_restores_the_session(full_session: Session, import_there: Carry, leaf: int) -> None:
    await full_session.branch(full_session.path()[leaf])
    copy = await import_there(full_session, "json")
    assert await state_of(copy) == await state_of(full_session)
    assert await copy.export("json") == await full_session.export("json")


async def test_a_lone_surrogate_in_a_line_leaves_the_document_valid(load_odd: LoadOdd, import_there: Carry) -> None:
    message = {"role": "user", "content": "cut \ud83d off"}
    odd = await load_odd(
        HEADER,
        {"type": "message", "id": "a", **BASE, "note": 1, "message": message},
        {"type": "bark", "id": "b", "parent_id": "a", **BASE, "said": "woof \udc36"},
    )
    copy = await import_there(odd, "json")
    assert [each.id for each in await copy.entries()] == ["a", "b"]
    assert (await copy.context()).messages == (await odd.context()).messages
    assert b"cut \xef\xbf\xbd off" in await copy.export("native")
    assert b'"note"' in await copy.export("native")


async def test_a_number_beyond_a_double_is_exported_as_it_was_written(load_odd: LoadOdd, import_there: Carry) -> None:
    place = {"type": "custom", "id": "a", "parent_id": None, "seq": 1, **BASE}
    line = json.dumps({**place, "custom": {"custom_type": "x", "data": ["\x1b", 1.5]}})
    odd = await load_odd(HEADER, line.replace("1.5", "1e999"))
    copy = await import_there(odd, "json")
    assert await copy.entries() == await odd.entries()
    assert b'["\\u001b", 1e999]' in await copy.export("json")


@pytest.mark.feature("N-167")
async def test_a_session_continued_on_another_machine_can_be_imported_back(
    full_session: Session, host: SessionHost, import_there: Carry, tmp_path: Path
) -> None:
    there = await import_there(full_session, "json")
    theirs = await there.append_message("user", "said there")
    ours = await full_session.append_message("user", "said here")
    await host.import_sessions(await there.export("json", tmp_path / "back.json"))
    assert {ours, theirs} <= {entry.id for entry in await full_session.entries()}
    assert [each for each in full_session.path() if each in (ours, theirs)] == [ours]
    assert len(await full_session.entries()) == len(await there.entries()) + 1


async def test_a_document_that_was_reformatted_as_other_json_can_be_imported(
    full_session: Session, elsewhere: SessionHost, tmp_path: Path
) -> None:
    document = json.loads(await full_session.export("json"))
    head = (document["format"], document["version"], document["leaf_id"], document["header"]["id"])
    assert head == ("treering-session", 1, full_session.leaf_id, full_session.id)
    assert [entry["id"] for entry in document["entries"]] == [entry.id for entry in await full_session.entries()]
    path = tmp_path / "pretty.json"
    path.write_text(json.dumps(document, indent=2))
    [report] = await elsewhere.import_sessions(path)
    assert (report.format, report.findings) == ("treering-json", ())
    copy = await elsewhere.load(report.id)
    assert json.loads(await copy.export("json")) == document
    ours, theirs = await state_of(full_session), await state_of(copy)
    del ours["entries"], theirs["entries"]  # they keep how they were written
    assert theirs == ours


async def test_unknown_fields_and_types_are_kept_and_torn_batches_not(load_odd: LoadOdd, import_there: Carry) -> None:
    batch = {"session": "odd", "id": "x", "i": 0, "n": 2}
    message = {"role": "user", "content": [{"type": "text", "text": {"content": "Hello"}}]}
    session = await load_odd(
        HEADER,
        {"type": "message", "id": "a", "parent_id": None, "seq": 1, **BASE, "extra": [1], "message": message},
        {"type": "message", "id": "torn", "parent_id": "a", "seq": 2, **BASE, "batch": batch, "message": message},
        {"type": "novel", "id": "b", "parent_id": "a", "seq": 3, **BASE, "chapter": "\N{EVERGREEN TREE}"},
    )
    document = await session.export("json")
    assert [entry["id"] for entry in json.loads(document)["entries"]] == ["a", "b"]
    assert b'"extra": [1]' in document
    copy = await import_there(session, "json")
    entries = [(entry.type, entry.id, entry.parent_id) for entry in await copy.entries()]
    assert entries == [("message", "a", None), ("novel", "b", "a")]
    assert (await copy.context()).messages == (await session.context()).messages


@pytest.mark.feature("U-21")
async def test_no_redacted_document_is_imported(full_session: Session, elsewhere: SessionHost, tmp_path: Path) -> None:
    await full_session.append_message("user", "The key is sk-ant-api03-abcdefghijklmnop1234.")
    redaction = Redaction()
    path = await full_session.export("json", tmp_path / "redacted.json", redact=redaction)
    document = json.loads(path.read_bytes())
    assert document["redacted"] is True
    assert document["entries"][-1]["message"]["content"][0]["text"]["content"] == "The key is [redacted:anthropic_key]."
    assert redaction.counts == {"anthropic_key": 1}
    for formatted in (json.dumps(document), json.dumps(document, indent=1, sort_keys=True)):
        path.write_text(formatted)
        with pytest.raises(RedactedSession, match="secrets were taken out"):
            await elsewhere.import_sessions(path, format="treering-json")
    path.write_text(json.dumps(document))
    with pytest.raises(RedactedSession, match="secrets were taken out"):
        await elsewhere.import_sessions(path)
    for view in ("markdown", "html"):
        page = await full_session.export(view, tmp_path / f"page.{view}", redact=Redaction())
        with pytest.raises(ForeignFormatError):
            await elsewhere.import_sessions(page)
    assert await elsewhere.list_sessions() == []


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"version": 2}, UnsupportedVersion),
        ({"format": "other"}, ForeignFormatError),
        ({"header": {"type": "session"}}, ForeignFormatError),
        ({"entries": {}}, ForeignFormatError),
    ],
)
async def test_importing_an_invalid_document_is_refused(
    full_session: Session, elsewhere: SessionHost, tmp_path: Path, change: dict[str, object], error: type[Exception]
) -> None:
    path = tmp_path / "session.json"
    path.write_text(json.dumps(json.loads(await full_session.export("json")) | change))
    with pytest.raises(error):
        await elsewhere.import_sessions(path, format="treering-json")
    path.write_bytes((await full_session.export("json"))[:-20])
    with pytest.raises(ForeignFormatError, match="not a complete JSON document"):
        await elsewhere.import_sessions(path)
    assert await elsewhere.list_sessions() == []


async def test_an_invalid_entry_is_told_and_left(full_session: Session, elsewhere: SessionHost, tmp_path: Path) -> None:
    document = json.loads(await full_session.export("json"))
    document["entries"].insert(2, "not an entry")
    path = tmp_path / "session.json"
    path.write_text(json.dumps(document))
    [report] = await elsewhere.import_sessions(path)
    assert [finding.code for finding in report.findings] == ["not_an_entry"]
    assert report.entries == len(await full_session.entries())
