"""Importing each sample gives the counts that are listed beside it, in `tests/data/<program>/counts.txt`."""

from pathlib import Path

import pytest

from treering import SessionHost

from .samples import Sample, samples

OWN = [sample for sample in samples() if sample.is_own]
REAL = [sample for sample in samples() if not sample.is_own]
NO_SESSIONS = {"INDEX.md", "expected.json", "sessions.json"}


async def count_import(path: Path, sample: Sample, root: Path) -> Sample:
    """Import a sample twice, and return its row with the actual counts."""
    async with SessionHost(root) as host:
        reports = await host.import_sessions(path)
        assert len({report.ref for report in reports}) == len(reports)
        for report in reports:
            session = await host.load(report.id if report.format not in ("pi", "omp") else root / report.ref)
            entries = await session.entries()
            assert len(entries) == report.entries == report.added
            assert session.message_count == report.messages
            assert len({entry.id for entry in entries}) == len(entries)
            await session.context()
        again = await host.import_sessions(path, format=sample.format)
        assert [(each.id, each.added, each.existed) for each in again] == [(each.id, 0, True) for each in reports]
    return Sample(
        sample.path,
        reports[0].format,
        len(reports),
        sum(report.entries for report in reports),
        sum(report.messages for report in reports),
        sum(len(report.findings) for report in reports),
    )


@pytest.mark.parametrize("sample", OWN, ids=lambda sample: str(sample.path))
@pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])
async def test_own_samples_import_with_the_stated_counts(sample: Sample, tmp_path: Path) -> None:
    assert await count_import(sample.where(), sample, tmp_path / "sessions") == sample


@pytest.mark.feature("U-27")
@pytest.mark.parametrize("sample", REAL, ids=lambda sample: str(sample.path))
@pytest.mark.parametrize("anyio_backend", [("asyncio", {})], ids=["asyncio"])
async def test_real_files_import_with_the_stated_counts(sample: Sample, tmp_path: Path, shared_fixtures: Path) -> None:
    assert await count_import(sample.where(shared_fixtures), sample, tmp_path / "sessions") == sample


@pytest.mark.feature("U-27")
def test_every_real_file_is_listed(shared_fixtures: Path) -> None:
    stated = [sample.where(shared_fixtures) for sample in REAL]
    files = [
        path
        for path in sorted(shared_fixtures.rglob("*"))
        if path.is_file() and path.name not in NO_SESSIONS and not path.name.endswith(".meta.json")
    ]
    assert files
    assert [path for path in files if not any(path == each or each in path.parents for each in stated)] == []
