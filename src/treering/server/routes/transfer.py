"""Routes that move whole sessions: export and import, streamed through a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import anyio
from msgspec import Meta, Struct

from ...actors.transfer.reports import ImportReport
from ...events.errors import NotAuthorized
from ...events.findings import Finding, LeftOut
from ...wire import FindingReply, Imported, ImportReply, LeftOutReply
from ..http.fields import Name
from ..routing import Call, Routes
from ..service import Service

routes = Routes()

_PIECE = 256 * 1024


_DESCRIBED = ("native", "pi", "omp", "json", "markdown", "html")
"""The formats that the description lists; those of other programs, which packages may add, are taken too."""


class ExportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In which format, and which path alone; see `Session.export`."""

    format: Annotated[str, Meta(extra_json_schema={"enum": list(_DESCRIBED)})] = "native"
    leaf: Name | None = None


class ImportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The format of the file that is sent; by default it is detected."""

    format: Name | None = None


_TYPES = {"html": "text/html; charset=utf-8", "markdown": "text/markdown; charset=utf-8", "json": "application/json"}
_SUFFIXES = {"html": "html", "markdown": "md", "json": "json"}


class FileReply:
    """A reply that is a file, sent piece by piece.

    Args:
        path: The file, which is removed afterwards together with its folder.
        name: The name that a browser saves it under.
        media_type: Its type.
    """

    def __init__(self, path: Path, name: str, media_type: str) -> None:
        self.path = path
        self.headers = {
            "content-type": media_type,
            "content-length": str(path.stat().st_size),
            "content-disposition": f'attachment; filename="{name}"',
        }

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the content."""
        async with await anyio.open_file(self.path, "rb") as file:
            while piece := await file.read(_PIECE):
                yield piece


@routes.add(
    "GET",
    "/v1/sessions/{session_id}/export",
    right="read",
    query=ExportQuery,
    reply=bytes,
    media_types=("application/x-ndjson", "application/json", "text/html", "text/markdown"),
    errors=(404, 409, 422),
)
async def export_session(call: Call[ExportQuery, None]) -> FileReply:
    """Export a session as a file."""
    session, query = await call.reading(), call.query
    folder = Path(await anyio.to_thread.run_sync(tempfile.mkdtemp))
    path = folder / "export"
    try:
        await session.export(query.format, path, leaf_id=query.leaf)
        reply = FileReply(
            path,
            f"{_file_name(session.id)}.{_SUFFIXES.get(query.format, 'jsonl')}",
            _TYPES.get(query.format, "application/x-ndjson"),
        )
    except BaseException:
        await remove(folder)
        raise
    return reply


def _file_name(session_id: str) -> str:
    return "".join(each if each.isascii() and (each.isalnum() or each in "-_.") else "_" for each in session_id)[:100]


async def remove(folder: Path) -> None:
    """Remove a temporary folder with the one file in it, even if the caller is cancelled."""
    with anyio.CancelScope(shield=True):
        for path in [each async for each in anyio.Path(folder).iterdir()]:
            await path.unlink(missing_ok=True)
        await anyio.Path(folder).rmdir()


@routes.add(
    "POST",
    "/v1/import",
    right="admin",
    query=ImportQuery,
    body=bytes,
    reply=ImportReply,
    status=201,
    errors=(409, 422, 423),
)
async def import_sessions(call: Call[ImportQuery, None]) -> ImportReply:
    """Import the sessions of a file that another program, or treering, wrote; see `SessionHost.import_sessions`."""
    service = call.service
    service.check_writable()
    if call.principal.prefix is not None:
        raise NotAuthorized("an import brings sessions of any key: it takes a token without a prefix", known=True)
    folder = Path(await anyio.to_thread.run_sync(tempfile.mkdtemp))
    try:
        path = folder / "upload.jsonl"
        async with await anyio.open_file(path, "wb") as file:
            async for piece in call.request.stream():
                await file.write(piece)
        reports = await service.host.import_sessions(path, format=call.query.format)
    finally:
        await remove(folder)
    return ImportReply([_imported(service, report) for report in reports])


def _imported(service: Service, report: ImportReport) -> Imported:
    fields = {name: getattr(report, name) for name in Imported.__struct_fields__}
    fields["findings"] = [_finding(service, each) for each in report.findings]
    return Imported(**fields)


def _finding(service: Service, finding: Finding) -> FindingReply:
    fields = {name: getattr(finding, name) for name in Finding.__struct_fields__}
    fields["path"], fields["message"] = service.shown(finding.path), service.shown(finding.message)
    left_out = LeftOutReply(finding.kind, finding.count, finding.example) if isinstance(finding, LeftOut) else None
    return FindingReply(**fields, left_out=left_out)
