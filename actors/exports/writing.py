"""Export a session: select its lines, convert them, and write them to the destination."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from ...events.entries import Header, KnownEntry
from ...events.errors import ExportExists, InvalidInput
from ...events.offload import carried_out
from ...events.redaction import Redaction
from ...projections.tokens import message_tokens
from ..host.names import dialect_named
from ..session.reading import read_log
from . import ExportFormat
from .documents import ForeignWriter, foreign_document, json_document, path_entries, view_document
from .lines import session_file
from .selection import Selection, selected
from .target import in_file, in_memory

if TYPE_CHECKING:
    from ..host.core import HostCore
    from ..log.open_log import OpenLog
    from ..session.reading import Handle

_LINEAR = frozenset({"markdown", "nanocoder", "picoclaw", "dive"})


async def export(
    core: HostCore,
    handle: Handle,
    format: ExportFormat,
    path: Path | None,
    leaf_id: str | None,
    redact: Redaction | None,
    *,
    overwrite: bool,
) -> bytes | Path:
    """Export a session; see `Session.export`."""
    target = path
    if path is not None:
        target = await core.runtime.offload(_checked_path, path, core.path_of(handle.ref))

    async def write(log: OpenLog) -> bytes | Path:
        selection = selected(log, leaf_id, linear=format in _LINEAR)
        if format == "nanocoder":
            return await _nanocoder(core, selection, target, overwrite=overwrite)
        async with aclosing(_pieces(core, handle, format, selection, redact)) as pieces:
            if target is None:
                return await in_memory(pieces)
            return await in_file(core.runtime.offload, target, pieces, overwrite=overwrite)

    return await read_log(handle, write)


def _checked_path(path: Path, own: str | None) -> Path:
    """Return the path to write to, refusing the session's own file."""
    if own is not None and os.path.realpath(path) == os.path.realpath(own):
        raise InvalidInput(f"{path} is the session's own file: export elsewhere")
    return path


def _pieces(
    core: HostCore, handle: Handle, format: ExportFormat, selection: Selection, redact: Redaction | None
) -> AsyncGenerator[bytes]:
    if format in ("native", "pi", "omp"):
        return session_file(core, handle, selection, dialect_named(format))
    if format == "json":
        return json_document(core, handle, selection, redact)
    if format == "markdown" or format == "html":
        return view_document(core, selection, format, redact)
    return foreign_document(core, selection, _foreign_writer(format))


def _foreign_writer(format: ExportFormat) -> ForeignWriter:
    if format == "picoclaw":
        from ...formats.picoclaw import picoclaw_document

        return picoclaw_document
    from ...formats.dive.writing import dive_document

    return dive_document


async def _nanocoder(core: HostCore, selection: Selection, folder: Path | None, *, overwrite: bool) -> Path:
    """Write a nanocoder folder, replacing its files one by one in an order that is safe against crashes."""
    if folder is None:
        raise InvalidInput("nanocoder keeps a session in several files: give the folder of its sessions as destination")
    header, entries = selection.log.index.header, await path_entries(core, selection)
    return await carried_out(core.runtime.offload, _write_folder, header, entries, folder, overwrite)


def _write_folder(header: Header, entries: list[KnownEntry], folder: Path, overwrite: bool) -> Path:
    from ...formats.nanocoder.folder import PREFIX
    from ...formats.nanocoder.writing import PROJECTS, write_nanocoder

    projects = folder / PROJECTS
    candidates = [each / f"{PREFIX}{header.id}" for each in projects.iterdir()] if projects.is_dir() else []
    if not overwrite and (existing := next(filter(os.path.lexists, candidates), None)) is not None:
        raise ExportExists(f"{existing} already exists: give another folder, or overwrite=True")
    return write_nanocoder(header, entries, folder, count=message_tokens)
