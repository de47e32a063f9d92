"""Existing files: older forms are read, newer ones refused, and no line is rewritten."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from treering import (
    Header,
    MessageEntry,
    NotASession,
    Session,
    SessionHost,
    TextPart,
    TreeringError,
    UnsupportedVersion,
    plain_text,
    text,
)

AT = "2026-01-01T10:00:00.000Z"
HEADER = {"type": "session", "id": "given", "version": 1, "timestamp": AT}

FileBytes = Callable[[Session], bytes]
FileOf = Callable[..., Path]


def user(entry_id: str, parent_id: str | None, body: object) -> dict[str, Any]:
    return {
        "type": "message",
        "id": entry_id,
        "parent_id": parent_id,
        "timestamp": AT,
        "message": {"role": "user", "content": body},
    }


# -- the header


@pytest.mark.feature("G-9")
@pytest.mark.parametrize(
    "first",
    [
        b"this is no JSON",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"type":"message","id":"a","parent_id":null,"timestamp":"2026-01-01T10:00:00Z"}',
        b'{"type":"session"}',
        b'{"type":"session","id":"given","version":"one","timestamp":"2026-01-01T10:00:00Z"}',
        b"\xff\xfe\xfd",
        b"\x00" * 100,
    ],
)
async def test_a_file_whose_first_line_is_not_a_header_is_refused_and_unchanged(
    host: SessionHost, file_of: FileOf, files: Callable[[], list[str]], first: bytes
) -> None:
    for rest in ((), (user("a", None, "Hello"),), (HEADER, user("a", None, "Hello"))):
        path = file_of(first, *rest)
        before = path.read_bytes()
        for read_only in (True, False):
            with pytest.raises(NotASession) as caught:
                await host.load(path, read_only=read_only)
            assert isinstance(caught.value, TreeringError)
            assert str(path) in str(caught.value)
        with pytest.raises(NotASession):
            await host.open("given")
        with pytest.raises(NotASession):
            await host.fork_from(path)
        assert [row.status for row in await host.list_sessions()] == ["corrupted"]
        assert path.read_bytes() == before
        assert set(files()) == {"given.jsonl"}


@pytest.mark.feature("G-33")
@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_the_version_is_an_integer_and_a_newer_one_is_refused_without_a_write(
    host: SessionHost,
    file_of: FileOf,
    files: Callable[[], list[str]],
    header: Callable[[Session], dict[str, Any]],
    dialect: str,
) -> None:
    ours = await host.create("ours")
    await ours.append_message("user", "Hello")
    assert header(ours)["version"] == 1
    assert type(header(ours)["version"]) is int
    for version in (4, 99, 2**40):
        newer: dict[str, Any] = {"type": "session", "id": "given", "version": version, "timestamp": AT}
        line = user("a", None, "Hello")
        if dialect == "pi":
            line = {**{key: value for key, value in line.items() if key != "parent_id"}, "parentId": None}
            newer = {"type": "session", "version": version, "id": "given", "timestamp": AT, "cwd": "/work"}
        path = file_of(newer, line)
        before = path.read_bytes()
        for read_only in (True, False):
            with pytest.raises(UnsupportedVersion, match=str(version)):
                await host.load(path, read_only=read_only)
        with pytest.raises(UnsupportedVersion, match=str(version)):
            await host.open("given")
        with pytest.raises(UnsupportedVersion, match=str(version)):
            await host.fork_from(path)
        assert path.read_bytes() == before
    assert set(files()) == {"given.jsonl", "ours.jsonl"}


# -- older and other forms


@pytest.mark.feature("G-40")
async def test_string_content_reads_as_one_text_part_and_stays_a_string_in_the_file(
    host: SessionHost, file_of: FileOf, file_bytes: FileBytes
) -> None:
    path = file_of(HEADER, user("a", None, "just a string"), user("b", "a", [{"type": "text", "text": "a list"}]))
    before = path.read_bytes()
    session = await host.load(path)
    entry = await session.entry("a")
    assert isinstance(entry, MessageEntry)
    assert entry.message.content == (text("just a string"),)
    assert isinstance(entry.message.content[0], TextPart)
    await session.append_message("assistant", "as a string")
    await session.append_message("assistant", [text("as a list")])
    assert file_bytes(session).startswith(before)
    assert b'"content": "just a string"' in file_bytes(session)
    copy = await session.fork()
    assert b'"content": "just a string"' in file_bytes(copy)
    assert [message.content for message in await copy.messages()] == [
        (text("just a string"),),
        (text("a list"),),
        (text("as a string"),),
        (text("as a list"),),
    ]
    lines = [json.loads(line) for line in file_bytes(session).splitlines()[3:]]
    assert all(isinstance(line["message"]["content"], list) for line in lines)


@pytest.mark.feature("G-7")
async def test_the_two_older_versions_are_read(host: SessionHost, file_of: FileOf) -> None:
    first = file_of(
        {"type": "session", "id": "one", "timestamp": AT, "cwd": "/work", "provider": "p", "modelId": "m"},
        {"type": "message", "timestamp": AT, "message": {"role": "user", "content": "Hello", "timestamp": 1}},
        {"type": "message", "timestamp": AT, "message": {"role": "hookMessage", "customType": "h", "content": "hook"}},
        {"type": "compaction", "timestamp": AT, "summary": "short", "firstKeptEntryIndex": 2, "tokensBefore": 5},
        {"type": "message", "timestamp": AT, "message": {"role": "user", "content": "more", "timestamp": 2}},
        name="one.jsonl",
    )
    second = file_of(
        {"type": "session", "version": 2, "id": "two", "timestamp": AT, "cwd": "/work"},
        {
            "type": "message",
            "id": "0000000a",
            "parentId": None,
            "timestamp": AT,
            "message": {"role": "user", "content": "Hello", "timestamp": 1},
        },
        {
            "type": "message",
            "id": "0000000b",
            "parentId": "0000000a",
            "timestamp": AT,
            "message": {"role": "hookMessage", "customType": "h", "content": "hook", "display": True, "timestamp": 2},
        },
        name="two.jsonl",
    )
    for path, expected in (
        (first, [("compactionSummary", "short"), ("custom", "hook"), ("user", "more")]),
        (second, [("user", "Hello"), ("custom", "hook")]),
    ):
        before = path.read_bytes()
        reader = await host.load(path, read_only=True)
        assert [(each.role, plain_text(each.content)) for each in await reader.messages()] == expected
        assert path.read_bytes() == before
        session = await host.load(path)
        assert [(each.role, plain_text(each.content)) for each in await session.messages()] == expected
        await session.append_message("user", "now")
        assert [plain_text(each.content) for each in await session.messages()][-1] == "now"


async def test_a_header_with_an_unknown_field_is_read(host: SessionHost, file_of: FileOf) -> None:
    session = await host.load(file_of({**HEADER, "cwd": "/work", "unknown": 1}))
    assert isinstance(session.header, Header)
    assert (session.header.id, session.header.version, session.header.cwd) == ("given", 1, "/work")
