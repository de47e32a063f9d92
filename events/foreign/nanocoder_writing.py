"""nanocoder's folder of one session, as its design describes it: writing.

    <folder>/index.jsonl                                     a line a session
             projects/<project-hash>/session-<id>/metadata.json
                                                  messages.jsonl
                                                  tools.jsonl
                                                  summaries/<range-hash>.json

Every file is written under another name and renamed, the metadata after what they tell of and the index last, so a crash
leaves each file old or new. All numbers in the metadata are counted from what is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..disk import OsDisk
from ..entries import (
    CompactionEntry,
    Entry,
    Header,
    Message,
    MessageEntry,
    ModelChangeEntry,
    Provider,
    SessionInfo,
    SessionInfoEntry,
)
from ..errors import InvalidSessionId
from ..previews import TITLE_CHARS_MAX, preview
from ..projects import HASH_DIGITS, project_hash, project_name
from ..stores.files.beside import write_beside
from .json_lines import decoded
from .nanocoder_folder import MESSAGES, METADATA, PREFIX, SUMMARIES, TOOLS, VERSION
from .nanocoder_records import Counter, Records
from .values import Object, iso

INDEX = "index.jsonl"
PROJECTS = "projects"
NO_PROJECT = "0" * HASH_DIGITS
"""Stands for the hash of a project where the session has none."""


class _Project(Struct):
    path: str
    hash: str
    name: str


class _Times(Struct, rename="camel"):
    created_at: str
    last_accessed_at: str
    last_message_at: str


class _Stats(Struct, rename="camel"):
    message_count: int
    tool_execution_count: int
    total_tokens: int
    user_message_count: int
    assistant_message_count: int


class _Provider(Struct, rename="camel", omit_defaults=True):
    type: str
    model: str
    context_window: int
    base_url: str | None = None


class _Display(Struct, omit_defaults=True):
    title: str
    description: str | None = None


class _Metadata(Struct, omit_defaults=True, kw_only=True):
    version: int
    id: str
    project: _Project
    timestamps: _Times
    stats: _Stats
    provider: _Provider
    display: _Display
    status: str
    context: Object | None = None


class _IndexLine(Struct, rename="camel"):
    id: str
    project_path: str
    project_hash: str
    title: str
    created_at: str
    last_accessed_at: str
    message_count: int
    status: str


def estimated_tokens(message: Message) -> int:
    """Estimate the tokens of a message by the length of its content: four bytes a token."""
    return -(-len(msgspec.json.encode(message.content)) // 4)


def write_nanocoder(
    header: Header, entries: Sequence[Entry], folder: Path, *, count: Counter = estimated_tokens
) -> Path:
    """Write a session as nanocoder's design lays it out; the files of an earlier export of it are replaced.

    Args:
        header: The session's header.
        entries: The path to write, from its root on. What a compaction without a summary left out last is not written, since
            the folder has no place for that.
        folder: The folder of all sessions, which nanocoder has at `~/.nanocoder/sessions`; made where it is missing.
        count: Counts the tokens of messages.

    Returns:
        The session's folder.

    Raises:
        InvalidSessionId: The session's id cannot name a folder.
        OSError: It cannot be written; each file is as it was, or new.
    """
    if not header.id or "/" in header.id or "\0" in header.id:
        raise InvalidSessionId(
            f"the session id {header.id!r} cannot name a folder: fork the session to give it another"
        )
    records = Records(_kept(entries), count)
    metadata = _metadata(header, entries, records)
    target = folder.absolute() / PROJECTS / metadata.project.hash / f"{PREFIX}{header.id}"
    _put(target / MESSAGES, records.messages)
    _put(target / TOOLS, records.runs)
    _put_summaries(target / SUMMARIES, records.summaries)
    _put(target / METADATA, [metadata])
    _put(folder.absolute() / INDEX, [*_others(folder / INDEX, header.id), _index_line(metadata)])
    return target


def _kept(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return what of a path still counts, where its latest compaction has no summary; all of it elsewhere."""
    at = next((at for at in reversed(range(len(entries))) if isinstance(entries[at], CompactionEntry)), None)
    latest = None if at is None else entries[at]
    if not isinstance(latest, CompactionEntry) or latest.compaction.summary:
        return entries
    first_kept = latest.compaction.first_kept_entry_id
    return entries[next((place for place, entry in enumerate(entries) if entry.id == first_kept), at) :]


def _put(path: Path, values: Iterable[object]) -> None:
    disk = OsDisk()
    disk.make_directory(str(path.parent))
    write_beside(disk, str(path), [msgspec.json.encode(value) + b"\n" for value in values], sync=True)


def _put_summaries(folder: Path, summaries: Mapping[str, Object]) -> None:
    """Write the summaries, and take away those of an earlier export that are of other messages."""
    for key, summary in summaries.items():
        _put(folder / f"{key}.json", [summary])
    for path in folder.glob("*.json") if folder.is_dir() else ():
        if path.stem not in summaries:
            path.unlink()


def _others(path: Path, session: str) -> list[Object]:
    """Return the lines of an index that are of other sessions."""
    if not path.is_file():
        return []
    lines = map(decoded, path.read_bytes().splitlines())
    return [line for line in lines if line is not None and line.get("id") != session]


def _metadata(header: Header, entries: Sequence[Entry], records: Records) -> _Metadata:
    info = _latest(entries)
    provider = info.provider or _provider(entries)
    path = info.project or header.cwd
    roles = [said.role for said in records.said]
    asked = preview(next((said.text for said in records.said if said.role == "user"), ""))
    title = header.title if info.name is None else info.name
    return _Metadata(
        version=VERSION,
        id=header.id,
        project=_Project(path, project_hash(path), project_name(path)) if path else _Project("", NO_PROJECT, ""),
        timestamps=_Times(
            iso(header.timestamp),
            iso(entries[-1].timestamp if entries else header.timestamp),
            iso(records.said[-1].time if records.said else header.timestamp),
        ),
        stats=_Stats(len(roles), len(records.runs), records.tokens, roles.count("user"), roles.count("assistant")),
        provider=_Provider(provider.type, provider.model, provider.context_window, provider.base_url),
        display=_Display(title or preview(asked, TITLE_CHARS_MAX), asked or None),
        status=info.status or "active",
        context=records.context or None,
    )


def _latest(entries: Sequence[Entry]) -> SessionInfo:
    """Return what is said of the session, each field as it was given last."""
    info = SessionInfo()
    for entry in entries:
        if isinstance(entry, SessionInfoEntry):
            given = entry.session_info
            fields = {name: getattr(given, name) for name in given.__struct_fields__}
            info = replace(info, **{name: value for name, value in fields.items() if value is not None})
    return info


def _provider(entries: Sequence[Entry]) -> Provider:
    """Return who answered last."""
    for entry in reversed(entries):
        if isinstance(entry, ModelChangeEntry):
            return Provider(entry.model_change.provider, entry.model_change.model_id)
        if isinstance(entry, MessageEntry) and entry.message.model:
            return Provider(entry.message.provider or "unknown", entry.message.model)
    return Provider("unknown")


def _index_line(metadata: _Metadata) -> _IndexLine:
    return _IndexLine(
        metadata.id,
        metadata.project.path,
        metadata.project.hash,
        metadata.display.title,
        metadata.timestamps.created_at,
        metadata.timestamps.last_accessed_at,
        metadata.stats.message_count,
        metadata.status,
    )
