"""The JSON document: exported, imported, equal; redacted, refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from treering import ForeignFormatError, RedactedSession, Redaction, Session, SessionHost, UnsupportedVersion


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop is enough here: what a document holds does not depend on it."""
    return "asyncio"


@pytest.fixture
async def elsewhere(tmp_path: Path) -> AsyncIterator[SessionHost]:
    """Another machine's host."""
    async with SessionHost(tmp_path / "elsewhere") as host:
        yield host


async def taken_in(host: SessionHost, path: Path) -> Session:
    [report] = await host.import_sessions(path)
    assert (report.format, report.findings) == ("treering-json", ())
    return await host.load(report.id)


def given(root: Path, content: str) -> None:
    root.mkdir()
    (root / "odd.jsonl").write_text(content)


async def everything(session: Session) -> dict[str, Any]:
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
async def test_what_is_imported_is_what_was_exported(told: Session, elsewhere: SessionHost, tmp_path: Path) -> None:
    path = await told.export("json", tmp_path / "session.json")
    copy = await taken_in(elsewhere, path)
    assert await everything(copy) == await everything(told)
    assert await copy.export("json") == path.read_bytes()


async def test_half_a_surrogate_pair_in_a_line_spoils_no_document(elsewhere: SessionHost, tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [
        {"type": "session", "id": "odd", "version": 1, "timestamp": "2026-01-01T10:00:00Z"},
        {"type": "message", "id": "a", "timestamp": "2026-01-01T10:00:01Z", "note": 1,
         "message": {"role": "user", "content": "cut \ud83d off"}},
        {"type": "bark", "id": "b", "parent_id": "a", "timestamp": "2026-01-01T10:00:02Z", "said": "woof \udc36"},
    ]  # fmt: skip
    given(tmp_path / "given", "".join(json.dumps(line) + "\n" for line in lines))
    async with SessionHost(tmp_path / "given") as host:
        odd = await host.load("odd")
        copy = await taken_in(elsewhere, await odd.export("json", tmp_path / "odd.json"))
        assert [each.id for each in await copy.entries()] == ["a", "b"]
        assert (await copy.context()).messages == (await odd.context()).messages
        assert b"cut \xef\xbf\xbd off" in await copy.export("native")
        assert b'"note"' in await copy.export("native")


@pytest.mark.feature("N-167")
async def test_a_session_goes_to_another_machine_and_on_there(
    told: Session, host: SessionHost, elsewhere: SessionHost, tmp_path: Path
) -> None:
    there = await taken_in(elsewhere, await told.export("json", tmp_path / "first.json"))
    theirs = await there.append_message("user", "said there")
    ours = await told.append_message("user", "said here")
    await host.import_sessions(await there.export("json", tmp_path / "second.json"))
    assert {ours, theirs} <= {entry.id for entry in await told.entries()}
    assert [each for each in told.path() if each in (ours, theirs)] == [ours]
    assert len(await told.entries()) == len(await there.entries()) + 1


async def test_the_leaf_stands_where_it_stood(told: Session, elsewhere: SessionHost, tmp_path: Path) -> None:
    await told.branch(told.path()[3])
    copy = await taken_in(elsewhere, await told.export("json", tmp_path / "session.json"))
    assert copy.leaf_id == told.leaf_id == told.path()[3]
    assert await copy.context() == await told.context()


async def test_the_document_is_plain_json_and_may_be_laid_out_anew(
    told: Session, elsewhere: SessionHost, tmp_path: Path
) -> None:
    document = json.loads(await told.export("json"))
    assert (document["format"], document["version"], document["leaf_id"]) == ("treering-session", 1, told.leaf_id)
    assert document["header"]["id"] == told.id
    assert [entry["id"] for entry in document["entries"]] == [entry.id for entry in await told.entries()]
    path = tmp_path / "pretty.json"
    path.write_text(json.dumps(document, indent=2))
    copy = await taken_in(elsewhere, path)
    assert json.loads(await copy.export("json")) == document
    assert (copy.tree(), copy.header, copy.labels()) == (told.tree(), told.header, told.labels())


async def test_what_is_not_known_and_what_is_torn(root: Path, elsewhere: SessionHost, tmp_path: Path) -> None:
    batch = {"session": "odd", "id": "x", "i": 0, "n": 2}
    base = {"timestamp": "2026-01-01T10:00:00Z"}
    said = {"role": "user", "content": [{"type": "text", "text": {"content": "Hello"}}]}
    lines = [
        {"type": "session", "id": "odd", "version": 1, **base},
        {"type": "message", "id": "a", "parent_id": None, "seq": 1, **base, "extra": [1], "message": said},
        {"type": "message", "id": "torn", "parent_id": "a", "seq": 2, **base, "batch": batch, "message": said},
        {"type": "novel", "id": "b", "parent_id": "a", "seq": 3, **base, "chapter": "\N{EVERGREEN TREE}"},
    ]
    given(root, "".join(json.dumps(line) + "\n" for line in lines))
    async with SessionHost(root) as host:
        session = await host.load("odd", read_only=True)
        document = await session.export("json")
        assert [entry["id"] for entry in json.loads(document)["entries"]] == ["a", "b"]
        assert b'"extra": [1]' in document
        (tmp_path / "odd.json").write_bytes(document)
        copy = await taken_in(elsewhere, tmp_path / "odd.json")
        assert [(entry.type, entry.id, entry.parent_id) for entry in await copy.entries()] == [
            ("message", "a", None),
            ("novel", "b", "a"),
        ]
        assert (await copy.context()).messages == (await session.context()).messages


@pytest.mark.feature("U-21")
async def test_a_redacted_document_is_refused(told: Session, elsewhere: SessionHost, tmp_path: Path) -> None:
    await told.append_message("user", "The key is sk-ant-api03-abcdefghijklmnop1234.")
    redaction = Redaction()
    path = await told.export("json", tmp_path / "redacted.json", redact=redaction)
    document = json.loads(path.read_bytes())
    assert document["redacted"] is True
    assert document["entries"][-1]["message"]["content"][0]["text"]["content"] == "The key is [redacted:anthropic_key]."
    assert redaction.counts == {"anthropic_key": 1}
    path.write_text(json.dumps(document, indent=1, sort_keys=True))
    with pytest.raises(RedactedSession, match="secrets were taken out"):
        await elsewhere.import_sessions(path, format="treering-json")
    path.write_text(json.dumps(document))
    with pytest.raises(RedactedSession, match="secrets were taken out"):
        await elsewhere.import_sessions(path)
    for view in ("markdown", "html"):
        page = await told.export(view, tmp_path / f"page.{view}", redact=Redaction())
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
async def test_what_is_no_such_document_is_refused(
    told: Session, elsewhere: SessionHost, tmp_path: Path, change: dict[str, object], error: type[Exception]
) -> None:
    path = tmp_path / "session.json"
    path.write_text(json.dumps(json.loads(await told.export("json")) | change))
    with pytest.raises(error):
        await elsewhere.import_sessions(path, format="treering-json")
    path.write_bytes((await told.export("json"))[:-20])
    with pytest.raises(ForeignFormatError, match="not a complete JSON document"):
        await elsewhere.import_sessions(path)
    assert await elsewhere.list_sessions() == []


async def test_an_entry_that_is_none_is_reported(told: Session, elsewhere: SessionHost, tmp_path: Path) -> None:
    document = json.loads(await told.export("json"))
    document["entries"].insert(2, "not an entry")
    path = tmp_path / "session.json"
    path.write_text(json.dumps(document))
    [report] = await elsewhere.import_sessions(path)
    assert [finding.code for finding in report.findings] == ["not_an_entry"]
    assert report.entries == len(await told.entries())
