"""Sessions in a dialect that treering itself keeps: native, pi, oh-my-pi. Their lines are copied byte for byte.

Nothing is decoded into another shape: a file keeps its dialect, and what no program here knows survives. What cannot be
copied is a fragment at the end, without its newline, that is no whole line; it is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from ..dialects.base import Dialect
from ..dialects.detect import HEADER_MAX, detect, header_size
from ..dialects.native import is_object
from ..entries import Header
from ..errors import ForeignFormatError, NotASession, UnsupportedVersion, Where
from ..findings import Finding
from .opened import opened

_CHUNK = 64 * 1024


class KeptSession(Struct, frozen=True, kw_only=True):
    """A session that keeps its lines.

    Attributes:
        header: What its header says.
        dialect: What its lines are written in.
        block: The header block, byte for byte.
        lines: The lines after it, each with its newline, blank ones left out; may be used up once.
        findings: What could not be copied; complete when `lines` is used up.
        leaf_id: The entry at which the conversation stands, where the lines do not say it.
    """

    header: Header
    dialect: Dialect
    block: bytes
    lines: Iterator[bytes]
    findings: list[Finding]
    leaf_id: str | None = None


class KeptFormat:
    """One of the dialects, as a format to import.

    Attributes:
        name: What it is called on the command line.
        title: What people call the program.
    """

    name: ClassVar[str]
    title: ClassVar[str]

    def recognizes(self, path: Path, head: bytes) -> bool:
        """Tell whether a file begins with a header of this dialect, of a version that can be read or a newer one."""
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
            ForeignFormatError: It does not begin with a header of this dialect.
            UnsupportedVersion: A newer program wrote it.
            OSError: It cannot be read.
        """
        block = _header_block(path)
        try:
            found = detect(block, str(path))
        except NotASession as error:
            raise ForeignFormatError(error.message, where=error.where) from error
        if found.dialect.name != self.name:
            raise ForeignFormatError(
                f"this is a session of {found.dialect.name}, not {self.name}", where=Where(str(path))
            )
        findings: list[Finding] = []
        own = block[: found.size]
        yield KeptSession(
            header=found.header,
            dialect=found.dialect,
            block=own if own.endswith(b"\n") else own + b"\n",
            lines=_lines(path, found.size, own.count(b"\n"), findings),
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


def _lines(path: Path, start: int, number: int, findings: list[Finding]) -> Iterator[bytes]:
    with opened(path) as file:
        file.read(start)
        byte = start
        for line in file:
            number += 1
            if line.endswith(b"\n"):
                if not line.isspace():
                    yield line
            elif is_object(line):
                yield line + b"\n"
            elif not line.isspace():
                what = "the last line was cut off; it is left out"
                findings.append(Finding(str(path), number, byte, "truncated", "warning", what))
            byte += len(line)
