"""What an import tells."""

from __future__ import annotations

from msgspec import Struct

from ..events.findings import Finding
from ..events.stores.base import Ref


class ImportReport(Struct, frozen=True, kw_only=True):
    """What became of one session of another program, or of another machine.

    Attributes:
        id: The session's id here.
        ref: The name of its log in the store.
        source: The file or folder that was imported.
        format: The name of the format that it was read as.
        entries: How many entries the source holds, as they are counted here.
        messages: How many of these are messages.
        added: How many entries this import wrote; none where all of them were there.
        existed: Whether the session was there before.
        findings: What was damaged, or could not be taken over, each with its place in the source.
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
