"""Codex: a rollout, one line an event, in files `rollout-<time>-<id>.jsonl`, of which cold ones are compressed.

    {"timestamp":"...","type":"session_meta","payload":{"id":"...","timestamp":"...","cwd":"/work/project",...}}
    {"timestamp":"...","type":"turn_context","payload":{"model":"gpt-5","effort":"medium",...}}
    {"timestamp":"...","type":"response_item","payload":{"type":"message","role":"user","content":[...]}}
    {"timestamp":"...","type":"event_msg","payload":{"type":"token_count","info":{...}}}
    {"timestamp":"...","type":"compacted","payload":{"message":"...","replacement_history":[...]}}

What the model says comes in pieces; those between two answers of tools or people become one message, so that calls that
were made together stay together. Events repeat what items say, and are left out but for usage, titles, runs of commands
and turns that were rolled back: what follows a rollback hangs where the conversation went on, and the turns that were
rolled back stay on their branch. A compaction keeps nothing of what came before it; the history that Codex put in its
place follows; older versions did not write it down, and went on with the latest prompts. Lines of the first versions have
no envelope, and are read as items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import BinaryIO, cast

from ..entries import NATIVE_VERSION, Header
from ..errors import ExtraMissing, ForeignFormatError, Where
from ..findings import Finding
from .base import ForeignSession
from .chain import derived_id
from .codex_reading import Rollout
from .json_lines import Line, Notes, decoded, objects_of
from .values import Object, as_object, as_text, as_time

NAME = "codex"

_START = b'{"timestamp"'
_PREFIX = "rollout-"
_FIRST = frozenset({"id", "timestamp", "instructions", "git"})
_ID_IN_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ZSTD = b"\x28\xb5\x2f\xfd"


class CodexFormat:
    """Rollouts of Codex."""

    name = NAME
    title = "Codex"

    def recognizes(self, path: Path, head: bytes) -> bool:
        """Tell whether this is a rollout; of one that could not be unpacked, its name has to do."""
        if head.startswith(_ZSTD):
            return path.name.endswith(".jsonl.zst")
        return _is_rollout(head.partition(b"\n")[0], path)

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a rollout; see `Format.read`.

        Raises:
            ForeignFormatError: It is no rollout.
            ExtraMissing: It is compressed, and zstandard is not installed.
        """
        return iter((_read(path),))


def _is_rollout(line: bytes, path: Path) -> bool:
    if b'"payload"' in line:
        return b'"session_meta"' in line or b'"response_item"' in line or b'"event_msg"' in line
    if b'"id"' not in line or b'"timestamp"' not in line:
        return False
    return b'"instructions"' in line or (path.name.startswith(_PREFIX) and _is_first(decoded(line) or {}))


def _is_first(value: Object) -> bool:
    """Tell whether this is the first line of a rollout without envelopes; who had no instructions got none there."""
    return {"id", "timestamp"} <= value.keys() <= _FIRST


def _lines(path: Path, notes: Notes) -> Iterator[Line]:
    with path.open("rb") as file:
        yield from objects_of(file, notes, _START) if path.suffix != ".zst" else _unpacked(file, path, notes)


def _unpacked(file: BinaryIO, path: Path, notes: Notes) -> Iterator[Line]:
    """Yield the lines of a compressed file; where it breaks off, those before."""
    try:
        import zstandard
    except ImportError as error:
        raise ExtraMissing(
            f"{path.name} is compressed, and zstandard is not installed: install it with `pip install 'treering[zstd]'`"
        ) from error
    with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as stream:
        try:
            # the stream has all that a raw stream has, but is not declared to be one
            yield from objects_of(BufferedReader(cast("RawIOBase", stream)), notes, _START)
        except zstandard.ZstdError as error:
            notes.add("damaged", "error", f"what can be unpacked ends here: {error}")


def _read(path: Path) -> ForeignSession:
    first = next(_lines(path, Notes(path, [])), None)
    if first is None:
        raise ForeignFormatError("there is no line of a rollout in this file", where=Where(str(path)))
    payload = as_object(first.value.get("payload"))
    given: Object = payload if first.value.get("type") == "session_meta" else {}
    if not payload:
        if "instructions" not in first.value and not _is_first(first.value):
            what = "this is no rollout of Codex: its first line has no payload"
            raise ForeignFormatError(what, where=Where(str(path), first.number, first.byte))
        given = first.value
    named = _ID_IN_NAME.search(path.name)
    session = as_text(given.get("id")) or as_text(given.get("session_id")) or (named.group() if named else "")
    created = as_time(given.get("timestamp")) or as_time(first.value.get("timestamp"))
    header = Header(
        id=session or derived_id(NAME, path.name),
        version=NATIVE_VERSION,
        timestamp=created or datetime.fromtimestamp(int(path.stat().st_mtime), UTC),
        cwd=as_text(given.get("cwd")) or None,
        parent_session=_parent(given) or None,
    )
    findings: list[Finding] = []
    notes = Notes(path, findings)
    base = as_text(as_object(given.get("history_base")).get("thread_id"))
    if base:
        what = f"the conversation begins in the rollout of {base}, which is a session of its own"
        notes.add("history_elsewhere", "warning", what)
    rollout = Rollout(header, as_text(given.get("model_provider")) or "openai", notes)
    return ForeignSession(header=header, entries=rollout.entries(_lines(path, notes)), findings=findings)


def _parent(given: Object) -> str:
    """Return the session that this one was forked from, or whose sub-agent it is."""
    spawned = as_object(as_object(as_object(given.get("source")).get("subagent")).get("thread_spawn"))
    named = (given.get("forked_from_id"), given.get("parent_thread_id"), spawned.get("parent_thread_id"))
    return next((parent for each in named if (parent := as_text(each))), "")
