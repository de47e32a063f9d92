"""Formats that other packages add by an entry point."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from treering import SessionHost, plain_text
from treering.errors import ForeignFormatError

READER = """
from datetime import UTC, datetime
from treering.events.entries import Header, MessageEntry
from treering import message
from treering.formats.base import ForeignSession

class Diary:
    name, title = "diary", "Diary"
    def recognizes(self, path, head):
        return head.startswith(b"Dear diary")
    def read(self, path):
        now = datetime(2026, 1, 1, tzinfo=UTC)
        words = path.read_text().splitlines()[1:]
        ids = [f"{path.stem}-{number}" for number in range(len(words))]
        entries = (
            MessageEntry(id=own, parent_id=above, timestamp=now, message=message("user", line))
            for own, above, line in zip(ids, [None, *ids], words)
        )
        yield ForeignSession(header=Header(id=path.stem, version=1, timestamp=now), entries=entries, findings=[])
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path of imports, with the metadata of a package that adds the format "diary"."""
    site = tmp_path / "site"
    metadata = site / "diary_reader-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: diary-reader\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[treering.formats]\ndiary = diary_reader:Diary\npi = diary_reader:Diary\n"
    )
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "diary_reader", raising=False)
    return site


async def imported(root: Path, source: Path, format: str | None) -> list[str]:
    async with SessionHost(root) as host:
        (report,) = await host.import_sessions(source, format=format)
        session = await host.load(report.id)
        return [plain_text(each.content) for each in await session.all_messages()]


@pytest.mark.parametrize("format", [None, "diary"])
async def test_a_package_adds_a_format(install: Path, tmp_path: Path, format: str | None) -> None:
    (install / "diary_reader.py").write_text(READER)
    source = tmp_path / "monday.txt"
    source.write_text("Dear diary\nIt rained.\nThen it stopped.\n")
    assert await imported(tmp_path / "root", source, format) == ["It rained.", "Then it stopped."]


async def test_a_package_that_cannot_be_used_is_named(install: Path, tmp_path: Path) -> None:
    (install / "diary_reader.py").write_text("import a_module_that_is_not_there\n")
    async with SessionHost(tmp_path / "root") as host:
        with pytest.raises(ForeignFormatError, match=r"'diary' of diary_reader:Diary .* remove its package"):
            await host.import_sessions(tmp_path, format="diary")


async def test_an_unknown_format_is_refused_with_all_that_are_known(install: Path, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "root") as host:
        with pytest.raises(ForeignFormatError, match=r"'diry': choose 'native', .* or 'diary'"):
            await host.import_sessions(tmp_path, format="diry")
