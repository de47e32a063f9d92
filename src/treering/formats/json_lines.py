"""Reading files of JSON lines and reporting damage in them.

Lines are read one at a time. A line that is not JSON is left out and reported with its place; other lines are not
affected. If a torn write was followed by another program's append, the two run together in one line; the second part is
complete and is read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ..events.errors import ForeignFormatError, Where
from ..events.findings import Finding, LeftOut, Severity
from ..events.json_values import JSON
from ..events.texts import counted
from .values import Object, as_json_text, as_object

_BOM = b"\xef\xbb\xbf"
_TAILS_MAX = 64  # the last candidate is the whole line, and a line may hold any number of objects
_DIGITS_MAX = 300
_EXAMPLE_MAX = 300  # characters
_WORDS = frozenset({"content", "message", "output", "prompt", "reasoning", "summary", "text", "thinking", "thought"})
"""The names of fields that hold text, even if it is a single word."""


class Line(NamedTuple):
    """A line: its number from 1, its byte offset, its bytes without the newline, and the decoded object."""

    number: int
    byte: int
    data: bytes
    value: Object


class Notes:
    """A collector of findings about one file.

    Args:
        path: The file.
        findings: The list to which findings are added; by default, a new one.

    Attributes:
        findings: That list.
    """

    def __init__(self, path: Path, findings: list[Finding] | None = None) -> None:
        self.findings: list[Finding] = [] if findings is None else findings
        self._path = str(path)
        self._skipped: Counter[str] = Counter()
        self._left_out: dict[str, LeftOut] = {}  # the first of each kind
        self._left_out_counts: Counter[str] = Counter()

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
        """Add a finding about one place, or about the file."""
        self.findings.append(Finding(self._path, line, byte, code, severity, message, entry_id))

    def at(self, line: Line, code: str, severity: Severity, message: str) -> None:
        """Add a finding about a line."""
        self.add(code, severity, message, line=line.number, byte=line.byte)

    def skip(self, kind: str) -> None:
        """Count a harmless record that is left out."""
        self._skipped[kind] += 1

    def leave_out(
        self, kind: str, example: JSON, *, line: int | None = None, byte: int | None = None, kept: bool = False
    ) -> None:
        """Count something that is left out though it may belong to the conversation; see `LeftOut`.

        Args:
            kind: What it is, as a heading.
            example: The thing itself.
            line: The number of its line.
            byte: The offset of its line.
            kept: Whether it is kept as an entry that contexts do not show.
        """
        self._left_out_counts[kind] += 1
        if kind not in self._left_out:
            shown = as_json_text(example)
            shown = shown if len(shown) <= _EXAMPLE_MAX else f"{shown[:_EXAMPLE_MAX]}..."
            outcome = "kept as data of its own, left out of contexts" if kept else "left out"
            self._left_out[kind] = LeftOut(
                self._path, line, byte, "left_out", "warning", outcome, kind=kind, count=1, example=shown
            )

    def check_fields(
        self, holder: str, value: Object, known: AbstractSet[str], *, line: int | None = None, byte: int | None = None
    ) -> None:
        """Count the unknown fields of an object that carry text; a reader ignores them.

        Args:
            holder: What the object is, in a word.
            value: The object.
            known: The fields that the reader knows, including those that it leaves out on purpose.
            line: The number of its line.
            byte: The offset of its line.
        """
        for name in value.keys() - known:
            if carries_text(value[name]) or (name in _WORDS and value[name] not in (None, "", [], {})):
                self.leave_out(f"{holder} field {name}", value[name], line=line, byte=byte)

    def check_strings(self, holder: str, value: Object, *names: str) -> None:
        """Count the named fields of an object that carry text in another form than a string; a reader ignores them."""
        for name in names:
            if not isinstance(value.get(name), str) and carries_text(value.get(name)):
                self.leave_out(f"{holder} field {name}", value[name])

    def check_repeated(self, kind: str, value: JSON, *elsewhere: JSON) -> None:
        """Count a value that a reader leaves out since it repeats others, if any of its words are in none of these."""
        said = "\n".join(each for other in elsewhere for each in _strings_in(other))
        if any(carries_text(each) and each.strip() not in said for each in _strings_in(value)):
            self.leave_out(kind, value)

    def check_items(self, kind: str, value: JSON, *, line: int | None = None, byte: int | None = None) -> None:
        """Count what a list of objects holds besides objects, or what is in its place; a reader ignores it.

        Args:
            kind: What such a thing is, as a heading.
            value: The list, or what is in its place.
            line: The number of its line.
            byte: The offset of its line.
        """
        for each in value if isinstance(value, list) else [value]:
            if (isinstance(each, (str, list)) and each) or (isinstance(each, dict) and each and each is value):
                self.leave_out(kind, each, line=line, byte=byte)

    def close(self) -> None:
        """Add one finding for each kind of record that was skipped, and for each kind that was left out."""
        for kind, count in sorted(self._left_out_counts.items()):
            first = self._left_out[kind]
            message = f"{kind}: {counted(count, 'occurrence')} {first.message}, such as {first.example}"
            self.findings.append(replace(first, message=message, count=count))
        self._left_out_counts.clear()
        self._left_out.clear()
        for kind, count in sorted(self._skipped.items()):
            self.add("skipped", "note", f"{counted(count, 'record')} of kind {kind} left out: bookkeeping")
        self._skipped.clear()


def names_in(*lines: str) -> frozenset[str]:
    """Return the words of lines, such as the names of the fields that a reader knows."""
    return frozenset(" ".join(lines).split())


def unheard() -> Notes:
    """Return notes that nobody reads."""
    return Notes(Path())


def carries_text(value: JSON) -> bool:
    """Return whether a value holds text: ids, times, paths and words of a program have no blank between words."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            pending += each.values()
            if any(isinstance(each.get(name), str) and each[name] for name in _WORDS):
                return True
        elif isinstance(each, list):
            pending += each
        elif isinstance(each, str) and len(each.split(maxsplit=1)) > 1:
            return True
    return False


def _strings_in(value: JSON) -> Iterator[str]:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, (dict, list)):
            pending += each.values() if isinstance(each, dict) else each


def first_object(head: bytes) -> Object | None:
    """Return the object that a file's first line, or its whole head, is; None if it is none or does not end there."""
    start = beginning(head)
    return decoded(start.partition(b"\n")[0]) or decoded(start)


def first_item(head: bytes) -> Object | None:
    """Return the first item of the list that a file is, if it is an object that ends within the head; None if not."""
    text = beginning(head).decode(errors="replace")
    start = text.find("{")
    if not text.startswith("[") or start < 0:
        return None
    try:
        value: JSON = json.JSONDecoder().raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def objects(path: Path, notes: Notes, start: bytes) -> Iterator[Line]:
    """Yield the lines that hold JSON objects, and report those that do not.

    Args:
        path: The file.
        notes: Receives the damage found.
        start: The bytes with which every line of this format begins, such as `{"role"`; used to find a complete line
            behind a torn one.

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
            exact = _exact_value(data)
            value = exact if isinstance(exact, dict) else decoded(data)
            if value is not None and exact is None and (problem := replaced_in(data)):
                notes.add("replaced", "warning", f"the line {problem}", line=number, byte=byte)
            if value is None:
                value = _line_behind_torn(data, start) if line.endswith(b"\n") else None
                problem = "not a JSON object" if line.endswith(b"\n") else "cut off"
                dropped = "the part before a complete line in it" if value is not None else "it"
                notes.add(
                    "damaged", "error", f"the line is {problem}, so {dropped} is left out", line=number, byte=byte
                )
            if value is not None:
                yield Line(number, byte, data, value)
        byte += len(line)


def beginning(head: bytes) -> bytes:
    """Return the first bytes of a file without a byte order mark and leading whitespace."""
    return head.removeprefix(_BOM).lstrip()


def decoded(data: bytes) -> Object | None:
    """Decode a JSON object; return None if `data` is not one.

    Invalid UTF-8 and lone surrogates become U+FFFD, and numbers that JSON does not allow become null.
    """
    value = _decoded_value(data)
    return value if isinstance(value, dict) else None


def tails(data: bytes, *starts: bytes) -> Iterator[memoryview]:
    """Yield what may be a complete line behind a torn one: each tail that begins with one of `starts`, last first."""
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
        ForeignFormatError: The file is not JSON.
        OSError: The file cannot be read.
    """
    data = path.read_bytes().removeprefix(_BOM)
    value = _decoded_value(data)
    if value is None:
        raise ForeignFormatError("the file is not a complete JSON document", where=Where(str(path)))
    return value


def document_beside(path: Path, notes: Notes, code: str, what: str, without: str) -> Object:
    """Read a document that tells about a session; without it, the session is read all the same.

    Args:
        path: Where the document is.
        notes: Gets a warning if there is none, or it cannot be read.
        code: The code of that warning.
        what: What the document is.
        without: What becomes of the session without it.
    """
    try:
        return as_object(document(path))
    except FileNotFoundError:
        reason = f"the {what} is missing"
    except ForeignFormatError as error:
        reason = error.message
    Notes(path, notes.findings).add(code, "warning", f"{reason}: {without}")
    return {}


def replaced_in(data: bytes) -> str | None:
    """Return what reading JSON replaces in it; None if it is valid."""
    if _exact_value(data) is not None:
        return None
    try:
        data.decode()
    except UnicodeDecodeError:
        return "is not valid UTF-8: U+FFFD stands for each invalid byte"
    return "has characters or numbers that JSON does not allow: U+FFFD or null stands for them"


def _exact_value(data: bytes) -> JSON:
    """Decode valid JSON; return None for other data, and for null."""
    try:
        value: JSON = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None
    return value


def _decoded_value(data: bytes) -> JSON:
    value = _exact_value(data)
    if value is None:
        try:  # lone surrogates, invalid UTF-8, numbers out of range, NaN
            text = json.dumps(_decode_leniently(data.decode(errors="replace")), ensure_ascii=False)
            value = msgspec.json.decode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        except (ValueError, RecursionError):
            return None
    return value


def _line_behind_torn(data: bytes, start: bytes) -> Object | None:
    """Return the object of a complete line behind a torn one, if there is one."""
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


_decode_leniently = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite, parse_int=_whole).decode
