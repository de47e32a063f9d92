"""Reading files of JSON lines, and saying what was damaged in them.

Lines are read one at a time. A line that is no JSON costs itself and no other: it is left out, with its place. Where two
lines run together because a write was torn and another program appended, the second is whole and is read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..content import JSON
from ..errors import ForeignFormatError, Where
from ..findings import Finding, Severity
from ..wording import counted
from .values import Object

_BOM = b"\xef\xbb\xbf"
_TAILS_MAX = 64  # what stands last is the whole line, and a line may hold any number of objects
_DIGITS_MAX = 300


class Line(NamedTuple):
    """A line: its number from 1, the offset at which it begins, its bytes without their newline, what it holds."""

    number: int
    byte: int
    data: bytes
    value: Object


class Notes:
    """What was noticed while a file was read.

    Args:
        path: The file.
        findings: Where to put it.
    """

    def __init__(self, path: Path, findings: list[Finding]) -> None:
        self._path = str(path)
        self._findings = findings
        self._skipped: Counter[str] = Counter()

    def add(
        self,
        code: str,
        severity: Severity,
        message: str,
        *,
        line: int | None = None,
        byte: int | None = None,
        entry_id: str | None = None,
    ) -> None:
        """Say something of one place, or of the file."""
        self._findings.append(Finding(self._path, line, byte, code, severity, message, entry_id))

    def at(self, line: Line, code: str, severity: Severity, message: str) -> None:
        """Say something of a line."""
        self.add(code, severity, message, line=line.number, byte=line.byte)

    def skip(self, kind: str) -> None:
        """Count something harmless that is left out."""
        self._skipped[kind] += 1

    def close(self) -> None:
        """Say what was counted, one finding a kind."""
        for kind, count in sorted(self._skipped.items()):
            self.add("skipped", "note", f"{counted(count, 'record')} of kind {kind} left out: bookkeeping")
        self._skipped.clear()


def objects(path: Path, notes: Notes, start: bytes) -> Iterator[Line]:
    """Yield the lines that hold JSON objects, and note those that do not.

    Args:
        path: The file.
        notes: Where damage is noted.
        start: How every line of this format begins, such as `{"role"`; a whole line behind a torn one is found by it.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        yield from objects_of(file, notes, start)


def objects_of(file: Iterator[bytes], notes: Notes, start: bytes) -> Iterator[Line]:
    """Yield the lines of an open file that hold JSON objects; see `objects`."""
    byte = 0
    for number, line in enumerate(file, 1):
        data = line.removeprefix(_BOM) if number == 1 else line
        data = data.rstrip(b"\r\n")
        if data.strip():
            value = decoded(data)
            if value is None:
                value = _behind(data, start) if line.endswith(b"\n") else None
                reason = "no JSON object" if line.endswith(b"\n") else "cut off"
                rest = "what stands before a whole line in it is" if value is not None else "it is"
                notes.add("damaged", "error", f"the line is {reason}; {rest} left out", line=number, byte=byte)
            if value is not None:
                yield Line(number, byte, data, value)
        byte += len(line)


def beginning(head: bytes) -> bytes:
    """Return the first bytes of a file without a mark of their encoding and without blanks."""
    return head.removeprefix(_BOM).lstrip()


def decoded(data: bytes) -> Object | None:
    """Read a JSON object; None where it is none.

    Text that is no Unicode is read with U+FFFD in its place, and a number that no JSON has as null.
    """
    value = _any(data)
    return value if isinstance(value, dict) else None


def tails(data: bytes, *starts: bytes) -> Iterator[memoryview]:
    """Yield what may be a whole line behind a torn one that it ran into: what begins as lines do, the last first."""
    view = memoryview(data)
    for start in starts:
        position = len(data)
        for _ in range(_TAILS_MAX):
            position = data.rfind(start, 0, position)
            if position <= 0:
                break
            yield view[position:]


def document(path: Path) -> JSON:
    """Read a file that is one JSON value.

    Raises:
        ForeignFormatError: It is no JSON.
        OSError: The file cannot be read.
    """
    data = path.read_bytes().removeprefix(_BOM)
    value = _any(data)
    if value is None:
        raise ForeignFormatError("this is no whole JSON document", where=Where(str(path)))
    return value


def _any(data: bytes) -> JSON:
    try:
        value: JSON = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        try:  # halves of surrogate pairs, bytes that are no UTF-8, numbers beyond every float, NaN
            text = json.dumps(_loosely(data.decode(errors="replace")), ensure_ascii=False)
            value = msgspec.json.decode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        except (ValueError, RecursionError):
            return None
    return value


def _behind(data: bytes, start: bytes) -> Object | None:
    """Return the whole line that stands behind a torn one, if there is any."""
    for tail in tails(data, start):
        with suppress(ValueError, RecursionError):
            value: JSON = msgspec.json.decode(tail)
            if isinstance(value, dict):
                return value
    return None


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if isfinite(number) else None


def _whole(digits: str) -> int | None:
    return int(digits) if len(digits) < _DIGITS_MAX else None


_loosely = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite, parse_int=_whole).decode
