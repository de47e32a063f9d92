"""The doctor checks the index, and a repair rebuilds it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from treering import SessionHost
from treering.cli import main

from .sessions import create_session, without_checksums


def doctor(root: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["doctor", str(root), *options])


def codes(root: Path) -> list[str]:
    return [finding["code"] for finding in json.loads(doctor(root, "--json").stdout)]


def replace_bytes(path: Path, old: bytes, new: bytes) -> None:
    before = path.read_bytes()
    assert old in before
    path.write_bytes(without_checksums(before.replace(old, new)))


def append_altered_line(path: Path, alter: Callable[[bytes], bytes]) -> None:
    """Append an altered copy of the first line about a session."""
    whole = path.read_bytes()
    path.write_bytes(whole + without_checksums(alter(whole.splitlines(keepends=True)[1])))


@pytest.mark.feature("U-24")
@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        (b'"message_count":2', b'"message_count":9', "catalog_wrong", "message_count of s1.jsonl"),
        (b'"title":"Hello"', b'"title":"Bye"', "catalog_wrong", "title of s0.jsonl"),
        (b'"status":"active"', b'"status":"waiting"', "catalog_wrong", "status of s0.jsonl"),
        (b'"last_accessed":"20', b'"last_accessed":"19', "catalog_wrong", "last_accessed of s0.jsonl"),
        (b'{"ref":"s1.jsonl"', b'{"ref":', "catalog_torn", "cannot be read"),
        (b'{"treering_index":1', b'{"treering_index":7', "catalog_foreign", "not an index of this version"),
    ],
)
async def test_a_wrong_index_is_found_and_repaired(
    root: Path, index_path: Path, old: bytes, new: bytes, code: str, message: str
) -> None:
    async with SessionHost(root) as host:
        await create_session(host, "s0")
        session = await create_session(host, "s1")
        await session.append_message("assistant", "Good day")
        await create_session(host, "s2")
        await host.load("s2")
        right = await host.list_sessions()
    files = {path: path.read_bytes() for path in (root / "s0.jsonl", root / "s1.jsonl")}
    assert codes(root) == []
    replace_bytes(index_path, old, new)
    assert set(codes(root)) == {code}
    found = doctor(root)
    assert found.exit_code == 1
    assert message in found.stdout.replace("\n", " ")
    repaired = doctor(root, "--repair")
    assert repaired.exit_code == 0, repaired.output
    assert "made_anew" in repaired.stdout
    assert codes(root) == []
    assert "made_anew" not in doctor(root, "--repair").stdout
    async with SessionHost(root) as host:
        assert [(row.id, row.title, row.message_count, row.status) for row in await host.list_sessions()] == [
            (row.id, row.title, row.message_count, row.status) for row in right
        ]
    assert {path: path.read_bytes() for path in files} == files


@pytest.mark.feature("U-24")
async def test_an_index_that_cannot_be_read_at_all_is_found(root: Path, index_path: Path) -> None:
    async with SessionHost(root) as host:
        await create_session(host, "s0")
    os.remove(index_path)
    os.mkdir(index_path)
    assert codes(root) == ["catalog_foreign"]


@pytest.mark.feature("U-24")
async def test_an_outdated_or_missing_index_is_not_a_finding(root: Path, index_path: Path) -> None:
    async with SessionHost(root) as host:
        await create_session(host, "s0")
        await create_session(host, "s1")
    with (root / "s0.jsonl").open("ab") as file:
        file.write(
            b'{"type":"custom","id":"x","parent_id":null,"timestamp":"2099-01-01T00:00:00Z","custom":{"custom_type":"t"}}\n'
        )
    (root / "s1.jsonl").unlink()
    assert not [code for code in codes(root) if code.startswith("catalog")]
    (root / ".treering" / "index.jsonl").unlink()
    assert not [code for code in codes(root) if code.startswith("catalog")]


@pytest.mark.feature("U-24")
async def test_index_lines_that_leave_the_root_or_cannot_be_parsed_are_found(root: Path, index_path: Path) -> None:
    async with SessionHost(root) as host:
        await create_session(host, "s0")
    append_altered_line(index_path, lambda line: line.replace(b'"ref":"s0.jsonl"', b'"ref":"../../s0.jsonl"'))
    append_altered_line(index_path, lambda _: b'{"later":' + b"[" * 50_000 + b"\n")
    findings = json.loads(doctor(root, "--json").stdout)
    assert [each["code"] for each in findings] == ["catalog_torn", "catalog_wrong"]
    assert findings[0]["line"] == 4
    async with SessionHost(root) as host:
        assert [row.id for row in await host.list_sessions()] == ["s0"]
    assert doctor(root, "--repair").exit_code == 0
    assert codes(root) == []
