"""Codex: rollouts, with one line per event, in files `rollout-<time>-<id>.jsonl`; old ones are compressed.

    {"timestamp":"...","type":"session_meta","payload":{"id":"...","timestamp":"...","cwd":"/work/project",...}}
    {"timestamp":"...","type":"turn_context","payload":{"model":"gpt-5","effort":"medium",...}}
    {"timestamp":"...","type":"response_item","payload":{"type":"message","role":"user","content":[...]}}
    {"timestamp":"...","type":"event_msg","payload":{"type":"token_count","info":{...}}}
    {"timestamp":"...","type":"compacted","payload":{"message":"...","replacement_history":[...]}}

The model's output comes in items; the items between two inputs, from tools or from the user, become one message, so
that parallel calls stay together. Events repeat what items say and are left out, except for usage, titles, runs of
commands and rollbacks. Entries after a rollback go below the entry at which the conversation continued, and the turns
that were rolled back stay on their branch. After turns were reverted, a newer version continues in another file of the
same session, whose header names the place in the earlier one (`history_base`); the two are read together. A compaction
keeps none of the earlier history; it is followed by the history that Codex put in its place. Older versions did not
record that history, and continued with the latest prompts. Lines of the first versions have no envelope, and are read
as items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import BinaryIO, cast

from ...events.entries import NATIVE_VERSION, Header
from ...events.errors import ExtraMissing, ForeignFormatError, Where
from ..base import ForeignSession, Format
from ..chain import derived_id
from ..glances import Excerpt
from ..json_lines import Line, Notes, beginning, decoded, objects_of, unheard
from ..opening import modified_at
from ..values import Object, as_count, as_object, as_text, as_time
from .reading import Part, Rollout

NAME = "codex"

_START = b'{"timestamp"'
_ENVELOPE = re.compile(rb'\{("timestamp":"[^"]*",)?("ordinal":\d+,)?"type":"(session_meta|response_item|event_msg)"')
_KINDS = frozenset({"compacted", "event_msg", "response_item", "session_meta", "turn_context"})
_PREFIX = "rollout-"
_FIRST = frozenset({"id", "timestamp", "instructions", "git"})
_ID_IN_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DAY_DEPTH = 3  # the folders of a file: year, month, day
_ZSTD = b"\x28\xb5\x2f\xfd"


class CodexFormat(Format):
    """`rollout-*.jsonl`, also of the first versions, and `.jsonl.zst` with the extra `treering[zstd]`."""

    name = NAME
    title = "Codex"
    home = "~/.codex/sessions"
    checked = "the program, 0.169.0"
    moved_by = ("CODEX_HOME", "~/.codex")

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether this is a rollout; one that could not be decompressed is recognized by its name."""
        if head.startswith(_ZSTD):
            return path.name.endswith(".jsonl.zst")
        return _is_rollout(beginning(head).partition(b"\n")[0], path)

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a rollout; see `Format.read`.

        Raises:
            ForeignFormatError: It is not a rollout.
            ExtraMissing: It is compressed, and zstandard is not installed.
        """
        return iter((_read(path),))


def _is_rollout(line: bytes, path: Path) -> bool:
    value = decoded(line)
    if value is None:  # too long for the head, or damaged
        return _ENVELOPE.match(line) is not None
    if "payload" in value:
        return isinstance(value["payload"], dict) and value.get("type") in _KINDS
    if not {"id", "timestamp"} <= value.keys() or "type" in value:
        return False
    return "instructions" in value or (path.name.startswith(_PREFIX) and _is_first(value))


def _is_first(value: Object) -> bool:
    """Return whether this is the first line of a rollout without envelopes, where `instructions` is optional."""
    return {"id", "timestamp"} <= value.keys() <= _FIRST


def _lines(path: Path, notes: Notes) -> Iterator[Line]:
    with path.open("rb") as file:
        yield from objects_of(file, notes, _START) if path.suffix != ".zst" else _decompressed(file, path, notes)


def _decompressed(file: BinaryIO, path: Path, notes: Notes) -> Iterator[Line]:
    """Yield the lines of a compressed file; if it is damaged, those before the damage."""
    try:
        import zstandard
    except ImportError as error:
        raise ExtraMissing(
            f"{path.name} is compressed, and reading it needs zstandard: install it with `pip install 'treering[zstd]'`"
        ) from error
    with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as stream:
        try:
            # the stream has the methods of RawIOBase, but does not declare it
            yield from objects_of(BufferedReader(cast("RawIOBase", stream)), notes, _START)
        except zstandard.ZstdError as error:
            notes.add("damaged", "error", f"the rest of the file cannot be decompressed: {error}")


def _read(path: Path) -> ForeignSession:
    first = next(_lines(path, unheard()), None)
    if first is None:
        raise ForeignFormatError("the file contains no lines of a Codex rollout", where=Where(str(path)))
    payload = as_object(first.value.get("payload"))
    metadata: Object = payload if first.value.get("type") == "session_meta" else {}
    if not payload:
        if "instructions" not in first.value and not _is_first(first.value):
            message = "this is not a Codex rollout: its first line has no payload"
            raise ForeignFormatError(message, where=Where(str(path), first.number, first.byte))
        metadata = first.value
    id_in_name = _ID_IN_NAME.search(path.name)
    session = (
        as_text(metadata.get("id")) or as_text(metadata.get("session_id")) or (id_in_name.group() if id_in_name else "")
    )
    created = as_time(metadata.get("timestamp")) or as_time(first.value.get("timestamp"))
    header = Header(
        id=session or derived_id(NAME, path.name),
        version=NATIVE_VERSION,
        timestamp=created or modified_at(path),
        cwd=as_text(metadata.get("cwd")) or None,
        parent_session=_parent(metadata) or None,
    )
    notes = Notes(path)
    parts, elsewhere = _parts(path, header.id, metadata, notes)
    if elsewhere:
        message = f"the conversation begins in the rollout {elsewhere}, which is a separate session, or is missing"
        notes.add("history_elsewhere", "warning", message)
    rollout = Rollout(header, as_text(metadata.get("model_provider")) or "openai", notes)
    return ForeignSession(header=header, entries=rollout.entries(parts), findings=notes.findings)


def _parts(path: Path, session: str, metadata: Object, notes: Notes) -> tuple[list[Part], str]:
    """Return the parts of a session up to and including a file, or only this file if it does not continue another.

    The second value identifies the rollout of another session that holds what came before; "" if there is none.
    """
    parts: list[Part] = []
    names: list[str] = []
    elsewhere = ""
    has_earlier = metadata.get("history_base") and not isinstance(path, Excerpt)
    for file in (*(_earlier(path, session) if has_earlier else ()), path):
        is_last = file == path
        if _name(file) in names:  # it is also there uncompressed
            continue
        first = metadata if is_last else _metadata(file)
        base = as_object(first.get("history_base"))
        base_id, end = as_text(base.get("thread_id")), as_count(base.get("end_byte_offset"))
        # The id of a file is the last one in its name; that of the first file is the session's.
        endings = (f"-{base_id}", f"_{base_id}")
        index = next((at for at, name in enumerate(names) if base_id and name.endswith(endings)), None)
        if index is None and is_last:
            parts.clear()
        if index is None and (is_last or not parts):
            elsewhere = base_id
        if index is not None or is_last or not parts:
            start = None if index is None else (index, end)
            own_notes = notes if is_last else Notes(file)  # an earlier file reports its own when it is imported
            parts.append(Part(_lines(file, own_notes), own_notes, start, base, as_time(first.get("timestamp"))))
            names.append(_name(file))
    return parts, elsewhere


def _earlier(path: Path, session: str) -> list[Path]:
    """Return the files of a session whose names come before this one's, which begin with the time."""
    days = path.absolute().parents
    by_day = len(days) > _DAY_DEPTH and all(each.name.isdigit() for each in days[:_DAY_DEPTH])
    pattern = f"{_PREFIX}*.jsonl*"
    others = days[_DAY_DEPTH].glob(f"[0-9]*/[0-9]*/[0-9]*/{pattern}") if by_day else days[0].glob(pattern)
    named = [each for each in others if session in each.name and each.name.endswith((".jsonl", ".jsonl.zst"))]
    return sorted((each for each in named if _name(each) < _name(path)), key=lambda each: each.name)


def _name(file: Path) -> str:
    """Return the name of a rollout, the same for its file and for its compressed file."""
    return file.name.partition(".jsonl")[0]


def _metadata(file: Path) -> Object:
    first = next(_lines(file, unheard()), None)
    return as_object(first.value.get("payload")) if first is not None else {}


def _parent(metadata: Object) -> str:
    """Return the id of the session that this one was forked from or started by; "" if there is none."""
    spawned = as_object(as_object(as_object(metadata.get("source")).get("subagent")).get("thread_spawn"))
    candidates = (metadata.get("forked_from_id"), metadata.get("parent_thread_id"), spawned.get("parent_thread_id"))
    return next((parent for each in candidates if (parent := as_text(each))), "")
