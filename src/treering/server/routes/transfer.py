"""Routes that move whole sessions: export and import, streamed through a temporary file; and retention."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated

import anyio
import anyio.to_thread
import msgspec
from msgspec import Meta, Struct

from ...actors.host.host import SessionHost
from ...actors.session.branching import copy_of
from ...actors.transfer.exporting import foreign_format
from ...actors.transfer.reports import ImportReport
from ...events.errors import InvalidInput, NotASession, NotAuthorized, SessionExists
from ...events.findings import Finding, LeftOut
from ...events.redaction import Redaction
from ...formats.base import WritesFolder
from ...wire import (
    FindingReply,
    Imported,
    ImportReply,
    LeftOutReply,
    RetentionReply,
    RetiredReply,
    SessionRow,
    SparedReply,
)
from ..http.fields import Name
from ..http.problems import Malformed
from ..http.uploads import pieces, remove
from ..preconditions import REPEATED
from ..routing import Call, Nothing, Reply, Routes
from ..service import Service
from .sessions import place_of, row_of

routes = Routes()

_DESCRIBED = ("native", "pi", "omp", "json", "markdown", "html")
"""The formats that the description lists; those of other programs, which packages may add, are taken too."""


class ExportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In which format, which path alone, and whether without secrets; see `Session.export`."""

    format: Annotated[str, Meta(extra_json_schema={"enum": list(_DESCRIBED)})] = "native"
    leaf: Name | None = None
    redact: bool = False


class ImportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The format of the file that is sent; by default it is detected."""

    format: Name | None = None


_TYPES = {  # of documents, which nobody continues
    "html": "text/html; charset=utf-8",
    "markdown": "text/markdown; charset=utf-8",
    "json": "application/json",
}
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

    def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the content."""
        return pieces(self.path)


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
    if isinstance(await call.service.host.core.runtime.offload(foreign_format, query.format), WritesFolder):
        raise Malformed(f"{query.format!r} is a folder, a reply one file: `treering export` makes it", status=422)
    if query.redact and query.format not in _TYPES:
        raise Malformed(f"lines of {query.format!r} with gaps cannot be continued: redact a document", status=422)
    folder = Path(await anyio.to_thread.run_sync(tempfile.mkdtemp))
    path = folder / "export"
    try:
        await session.export(query.format, path, leaf_id=query.leaf, redact=Redaction() if query.redact else None)
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
    _check_brings(call)
    upload = await call.incoming.upload()
    reports = await service.host.import_sessions(upload.path, format=call.query.format)
    failed = [_finding(service, each) for each in reports.failed]
    return ImportReply([_imported(service, report) for report in reports], failed)


def _check_brings(call: Call[object, None]) -> None:
    """Refuse to take whole sessions from whoever could not see each of them."""
    call.service.check_writable()
    if call.principal.prefix is not None:
        raise NotAuthorized("a file brings sessions of any key: this takes a token without a prefix", known=True)


class PutQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether to replace a session that exists, and where its leaf is: by default at the last entry, "" for none."""

    replace: bool = False
    leaf: str | None = None


@routes.add(
    "PUT",
    "/v1/sessions/{session_id}",
    right="admin",
    query=PutQuery,
    body=bytes,
    reply=SessionRow,
    statuses=(201,),
    errors=(404, 409, 422, 423, 507),
    keyed=True,
)
async def put_session(call: Call[PutQuery, None]) -> Reply:
    """Write a whole session as its file says it, in one step; one that is replaced is kept beside it as `.bak`.

    The session of the file has the id that the path names.
    """
    service, query, session_id = call.service, call.query, call.session_id
    _check_brings(call)
    upload = await call.incoming.upload()

    async def write() -> None:
        if not upload.size:  # no file at all, which would be a session that does not exist
            raise NotASession("the request has no body: send the file of the session")
        async with SessionHost(upload.path.parent) as reader:
            session = await reader.load(upload.path, read_only=True)
            if session.id != session_id:
                raise InvalidInput(f"this is the file of session {session.id!r}: name it in the path")
            copy = await copy_of(session)
            if query.leaf is not None:
                session.path(query.leaf or None)  # refuses an entry that does not exist
                copy = msgspec.structs.replace(copy, leaf=query.leaf or None)
            try:
                await service.host.write_copy(copy, replace=query.replace)
            except SessionExists:
                raise SessionExists(f"session {session_id!r} exists: send `?replace=true` to replace it") from None

    what = f"put {upload.digest} {query}"
    async with service.repeats.request(call.principal, call.key, what, session_id) as request:
        if is_new := request.result is None:
            await write()
            request.result = session_id
    service.forget(session_id)
    row = row_of(service, await service.row(call.principal, session_id))
    place = {"Location": place_of(call, session_id)}
    return Reply(row, status=201, headers=place) if is_new else Reply(row, headers={**place, **REPEATED})


def _imported(service: Service, report: ImportReport) -> Imported:
    fields = {name: getattr(report, name) for name in Imported.__struct_fields__}
    fields["findings"] = [_finding(service, each) for each in report.findings]
    return Imported(**fields)


def _finding(service: Service, finding: Finding) -> FindingReply:
    fields = {name: getattr(finding, name) for name in Finding.__struct_fields__}
    fields["path"], fields["message"] = service.shown(finding.path), service.shown(finding.message)
    left_out = LeftOutReply(finding.kind, finding.count, finding.example) if isinstance(finding, LeftOut) else None
    return FindingReply(**fields, left_out=left_out)


class Retention(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether to say only what would be archived."""

    dry_run: bool = False


@routes.add("POST", "/v1/retention", right="admin", body=Retention, reply=RetentionReply)
async def apply_retention(call: Call[Nothing, Retention]) -> RetentionReply:
    """Archive the sessions that exceed the limits of the server's settings; see `SessionHost.apply_retention`."""
    service = call.service
    service.check_writable()
    if call.principal.prefix is not None:
        raise NotAuthorized("retention is for sessions of any key: this takes a token without a prefix", known=True)
    report = await service.host.apply_retention(dry_run=call.body.dry_run)
    retired = RetiredReply.__struct_fields__
    return RetentionReply(
        [RetiredReply(**{name: getattr(each, name) for name in retired}) for each in report.archived],
        [SparedReply(session_id=each.session_id, why=service.shown(each.why)) for each in report.spared],
        report.dry_run,
    )
