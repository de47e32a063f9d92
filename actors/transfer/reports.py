"""The results of an import, a report for each session and which files were not imported; and those of handing over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...events.findings import Finding, LeftOut, NotHeld
from ...events.stores.base import Ref


class ImportReport(Struct, frozen=True, kw_only=True):
    """The outcome of importing one session of another program, or of another machine.

    Attributes:
        id: The session's id here.
        ref: The name of its log in the store.
        source: The file that it was read from; the folder if that is one session, or one storage of sessions.
        format: The name of the format that it was read as.
        entries: How many entries the source holds, as they are counted here.
        messages: How many of these are messages.
        added: How many entries this import wrote; 0 if all of them existed.
        existed: Whether the session existed before.
        findings: What was damaged, or could not be imported, each with its place in the source.
        left_out: Those of the findings that tell what the reader left out because it does not know it, or because
            messages have no place for it, each with its count and an example.
    """

    id: str
    ref: Ref
    source: str
    format: str
    entries: int
    messages: int
    added: int
    existed: bool
    findings: tuple[Finding, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class ImportReports(list[ImportReport]):
    """The reports of one import, one per session in the order in which they were read.

    Args:
        reports: The reports.
        unknown: How many files below a folder are not sessions of a known format.
        unknown_paths: The first of them.
        failed: The sessions below a folder that could not be imported, each with its place and the reason.

    Attributes:
        unknown: See above.
        unknown_paths: See above.
        failed: See above.
    """

    def __init__(
        self,
        reports: Iterable[ImportReport] = (),
        *,
        unknown: int = 0,
        unknown_paths: Sequence[str] = (),
        failed: Sequence[Finding] = (),
    ) -> None:
        super().__init__(reports)
        self.unknown = unknown
        self.unknown_paths = tuple(unknown_paths)
        self.failed = tuple(failed)


class HandedOver(Struct, frozen=True):
    """Where a session was handed over, and what was left behind.

    Attributes:
        program: The program.
        id: What the program's option to resume a session takes; None if nothing was written.
        path: The file of the program's session; None if the program keeps it elsewhere, or nothing was written.
        cwd: The folder in which the program goes on.
        command: The command that resumes the session there; None if nothing was written.
        left_out: What the program cannot hold or does not send to a model.
    """

    program: str
    id: str | None
    path: str | None
    cwd: str
    command: str | None
    left_out: tuple[NotHeld, ...]
