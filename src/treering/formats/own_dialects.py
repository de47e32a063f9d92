"""Sessions in a dialect that treering itself writes: native, pi, oh-my-pi. Their lines are copied byte for byte.

Nothing is converted: a file keeps its dialect, and content that treering does not know survives. Only an incomplete
last line without a newline cannot be copied; it is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from ..events.dialects.base import Dialect
from ..events.dialects.detect import HEADER_MAX, detect, header_size
from ..events.dialects.native import is_object
from ..events.entries import Header
from ..events.errors import ForeignFormatError, NotASession, UnsupportedVersion, Where
from ..events.findings import Finding
from .opening import opened

_CHUNK = 64 * 1024


class KeptSession(Struct, frozen=True, kw_only=True):
    """A session whose lines are copied unchanged.

    Attributes:
        header: The decoded header.
        dialect: The dialect of its lines.
        block: The header block, byte for byte.
        lines: The lines after the header, each with its newline, without blank ones; can be iterated once.
        findings: What could not be copied; complete once `lines` is exhausted.
        leaf_id: The leaf, if the lines do not determine it.
    """

    header: Header
    dialect: Dialect
    block: bytes
    lines: Iterator[bytes]
    findings: list[Finding]
    leaf_id: str | None = None


class KeptFormat:
    """A dialect as an import format.

    Attributes:
        name: The format's name on the command line.
        title: The program's name as shown to people.
    """

    name: ClassVar[str]
    title: ClassVar[str]

    def recognizes(self, path: Path, head: bytes) -> bool:
        """Return whether a file begins with a header of this dialect, in a supported or a newer version."""
        if not head:
            return False
        try:
            return detect(head, str(path)).dialect.name == self.name
        except NotASession:
            return False
        except UnsupportedVersion:
            return True

    def read(self, path: Path) -> Iterator[KeptSession]:
        """Read a file, which holds one session.

        Raises:
            ForeignFormatError: The file does not begin with a header of this dialect.
            UnsupportedVersion: A newer program wrote it.
            OSError: The file cannot be read.
        """
        block = _header_block(path)
        try:
            detected = detect(block, str(path))
        except NotASession as error:
            raise ForeignFormatError(error.message, where=error.where) from error
        if detected.dialect.name != self.name:
            raise ForeignFormatError(
                f"this is a {detected.dialect.name} session, not a {self.name} session", where=Where(str(path))
            )
        findings: list[Finding] = []
        header_block = block[: detected.size]
        yield KeptSession(
            header=detected.header,
            dialect=detected.dialect,
            block=header_block if header_block.endswith(b"\n") else header_block + b"\n",
            lines=_lines(path, detected.size, header_block.count(b"\n"), findings),
            findings=findings,
        )


class NativeFormat(KeptFormat):
    """treering's own files."""

    name = "native"
    title = "treering"


class PiFormat(KeptFormat):
    """Files of pi, versions 1 to 3."""

    name = "pi"
    title = "pi"


class OmpFormat(KeptFormat):
    """Files of oh-my-pi."""

    name = "omp"
    title = "oh-my-pi"


def _header_block(path: Path) -> bytes:
    data = b""
    with opened(path) as file:
        while (size := header_size(data)) is None and len(data) <= HEADER_MAX:
            more = file.read(_CHUNK)
            if not more:
                size = header_size(data, at_end=True)
                break
            data += more
    return data if size is None else data[:size]


def _lines(path: Path, start: int, line_number: int, findings: list[Finding]) -> Iterator[bytes]:
    with opened(path) as file:
        file.read(start)
        offset = start
        for line in file:
            line_number += 1
            if line.endswith(b"\n"):
                if not line.isspace():
                    yield line
            elif is_object(line):
                yield line + b"\n"
            elif not line.isspace():
                message = "the last line is incomplete, so it is left out"
                findings.append(Finding(str(path), line_number, offset, "truncated", "warning", message))
            offset += len(line)
