"""Where exports are put: whole or not at all, over nothing that is there, on every event loop."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from treering import ExportExists, InvalidInput, Redaction, Session, SyncHost


async def test_nothing_is_overwritten_unasked(told: Session, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(ExportExists, match="overwrite"):
        await told.export("html", path)
    assert path.read_text() == "mine"
    assert await told.export("html", str(path), overwrite=True) == path
    assert path.read_bytes() == await told.export("html")
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["page.html", "sessions"]


async def test_what_appears_meanwhile_is_not_overwritten(
    told: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    link: Callable[[str, str], None] = os.link

    def late(source: str, target: str) -> None:
        path.write_text("mine")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(ExportExists):
        await told.export("html", path)
    assert path.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["page.html", "sessions"]


async def test_where_there_are_no_links_it_is_renamed(
    told: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    path = await told.export("json", tmp_path / "session.json")
    assert path.read_bytes() == await told.export("json")
    assert sorted(os.listdir(tmp_path)) == ["session.json", "sessions"]


async def test_a_failed_export_leaves_nothing(told: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    from treering.events.disk import OsDisk

    monkeypatch.setattr(OsDisk, "write", staticmethod(full))
    with pytest.raises(OSError, match="No space"):
        await told.export("html", tmp_path / "page.html")
    assert os.listdir(tmp_path) == ["sessions"]


async def test_a_cancelled_export_leaves_nothing(told: Session, tmp_path: Path) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await told.export("html", tmp_path / "page.html")
    assert scope.cancelled_caught
    assert os.listdir(tmp_path) == ["sessions"]


async def test_what_cannot_be_done_is_refused(told: Session, tmp_path: Path) -> None:
    assert told.file_path is not None
    before = await told.export("native")
    with pytest.raises(InvalidInput, match="choose native, pi"):
        await told.export("pdf")  # type: ignore[call-overload]  # that there is no such format is what is tried
    with pytest.raises(InvalidInput, match="own file"):
        await told.export("native", told.file_path, overwrite=True)
    with pytest.raises(InvalidInput, match="no folder"):
        await told.export("html", tmp_path / "nowhere" / "page.html")
    with pytest.raises(InvalidInput, match="is a folder"):
        await told.export("html", tmp_path, overwrite=True)
    for format in ("native", "pi", "omp", "nanocoder", "picoclaw", "dive"):
        with pytest.raises(InvalidInput, match="json, markdown, html"):
            await told.export(format, tmp_path / "x", redact=Redaction())
    assert await told.export("native") == before
    assert os.listdir(tmp_path) == ["sessions"]


async def test_a_device_or_a_pipe_is_never_replaced(told: Session, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        for overwrite in (False, True):
            with pytest.raises(InvalidInput, match="not a regular file"):
                await told.export("html", tmp_path / name, overwrite=overwrite)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe", "sessions"]


def test_the_blocking_twin_exports_alike(tmp_path: Path) -> None:
    with SyncHost(tmp_path / "sessions") as host:
        session = host.create()
        session.append_message("user", "Hello")
        path = session.export("markdown", tmp_path / "talk.md")
        assert path.read_bytes() == session.export("markdown")
