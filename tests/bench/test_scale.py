"""The programs that measure very many sessions in PostgreSQL, and archived ones, with a few."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from bench import archive
from bench.scale import ENTRIES, ENTRY_BYTES, Measured, measure, report

from treering.stores.postgres.local_server import LocalServer, find_programs


def test_a_few_sessions_are_measured_and_reported(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="objects need the package fsspec")
    if find_programs() is None:
        pytest.skip("PostgreSQL's server is not installed here (Debian: apt-get install postgresql)")
    with LocalServer() as server:
        measured: Measured = anyio.run(measure, server, 6)
        archived: archive.ArchiveMeasured = anyio.run(archive.measure, server, 6, f"file://{tmp_path}")
    assert archived.after_bytes < archived.before_bytes
    assert 0 < archived.object_bytes < 6 * ENTRIES * ENTRY_BYTES
    assert "| its object | " in archive.report(archived)
    assert measured.table_bytes["lines"] > 6 * ENTRIES * ENTRY_BYTES
    assert sum(measured.table_bytes_indexed.values()) > sum(measured.table_bytes.values())
    assert len(measured.took_ms) == 5
    assert all(took > 0 for took in measured.took_ms.values())
    said = report(measured)
    assert said.startswith("6 sessions of 20 entries of 1,024 bytes\n")
    assert all(f"| {what} | " in said for what in measured.took_ms)
