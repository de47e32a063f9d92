"""Writing an export to a path: completely or not at all, and never over an existing file unless asked."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import anyio
import pytest

from treering import InvalidInput, Session, SyncHost
from treering.errors import ExportExists
from treering.events.disk import OsDisk
from treering.sessions import ExportFormat, Redaction


async def test_an_existing_file_is_overwritten_only_if_asked(full_session: Session, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(ExportExists, match="overwrite"):
        await full_session.export("html", path)
    assert path.read_text() == "mine"
    assert await full_session.export("html", str(path), overwrite=True) == path
    assert path.read_bytes() == await full_session.export("html")
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["page.html", "sessions"]


async def test_a_file_that_appears_during_the_export_is_not_overwritten(
    full_session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    link: Callable[[str, str], None] = os.link

    def create_then_link(source: str, target: str) -> None:
        path.write_text("mine")
        link(source, target)

    monkeypatch.setattr(os, "link", create_then_link)
    with pytest.raises(ExportExists):
        await full_session.export("html", path)
    assert path.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["page.html", "sessions"]


def failing(error: OSError) -> Callable[..., NoReturn]:
    def fail(*arguments: object) -> NoReturn:
        raise error

    return fail


async def test_an_export_is_renamed_into_place_where_hard_links_are_unsupported(
    full_session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", failing(PermissionError(1, "Operation not permitted")))
    path = await full_session.export("json", tmp_path / "session.json")
    assert path.read_bytes() == await full_session.export("json")
    assert sorted(os.listdir(tmp_path)) == ["session.json", "sessions"]


async def test_an_error_before_the_first_byte_names_the_export(full_session: Session, tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250 + ".md")  # no room for the suffix of a temporary name
    with pytest.raises(OSError, match="too long") as caught:
        await full_session.export("markdown", path)
    assert caught.value.filename == str(path)


async def test_no_failed_export_remains(full_session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OsDisk, "write", staticmethod(failing(OSError(28, "No space left on device"))))
    with pytest.raises(OSError, match=r"No space left on device: .*page\.html"):
        await full_session.export("html", tmp_path / "page.html")
    assert os.listdir(tmp_path) == ["sessions"]


async def test_a_cancelled_export_leaves_no_file(full_session: Session, tmp_path: Path) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await full_session.export("html", tmp_path / "page.html")
    assert scope.cancelled_caught
    assert os.listdir(tmp_path) == ["sessions"]


async def test_invalid_formats_and_targets_are_refused(full_session: Session, tmp_path: Path) -> None:
    assert full_session.file_path is not None
    before = await full_session.export("native")
    with pytest.raises(InvalidInput, match="choose 'native', 'pi'"):
        await full_session.export("pdf")
    wrong: list[tuple[ExportFormat, str | Path, str]] = [
        ("native", full_session.file_path, "own file"),
        ("html", tmp_path / "nowhere" / "page.html", "no folder"),
        ("html", tmp_path, "is a folder"),
    ]
    for format, path, why in wrong:
        with pytest.raises(InvalidInput, match=why):
            await full_session.export(format, path, overwrite=True)
    whole: list[ExportFormat] = ["native", "pi", "omp", "nanocoder", "picoclaw", "dive"]
    for format in whole:
        with pytest.raises(InvalidInput, match="json, markdown, html"):
            await full_session.export(format, tmp_path / "x", redact=Redaction())
    assert await full_session.export("native") == before
    assert os.listdir(tmp_path) == ["sessions"]


async def test_a_pipe_is_never_replaced(full_session: Session, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        for overwrite in (False, True):
            with pytest.raises(InvalidInput, match="not a regular file"):
                await full_session.export("html", tmp_path / name, overwrite=overwrite)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe", "sessions"]


def test_the_blocking_facade_exports_the_same_bytes(tmp_path: Path) -> None:
    with SyncHost(tmp_path / "sessions") as host:
        session = host.create()
        session.append_message("user", "Hello")
        assert session.export("markdown", tmp_path / "talk.md").read_bytes() == session.export("markdown")
