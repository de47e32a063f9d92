"""Snapshots of another version of treering: rebuilt, and not reported as damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from treering import Limits, SessionHost
from treering.events import index
from treering.events.doctor import examine


async def test_a_snapshot_of_another_version_is_a_note_and_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(index, "_SNAPSHOT_VERSION", index._SNAPSHOT_VERSION - 1)
        async with SessionHost(tmp_path, limits=Limits(snapshot_after_lines=1)) as host:
            session = await host.create("main")
            await session.append_message("user", "still here")
            await session.append_message("assistant", "yes")
    assert (tmp_path / "main.jsonl.index").is_file()
    findings = [(each.code, each.severity) for each in examine(tmp_path)]
    assert ("index_stale", "note") in findings
    assert not [code for code, severity in findings if severity == "error"]
    async with SessionHost(tmp_path) as host:
        assert (await host.load("main")).message_count == 2
