"""nanocoder: writing the folder of one session, as its design describes it.

    <folder>/index.jsonl                                     one line per session
             projects/<project-hash>/session-<id>/metadata.json
                                                  messages.jsonl
                                                  tools.jsonl
                                                  summaries/<range-hash>.json

Every file is written under another name and renamed. The metadata is written after the files that it describes and the
index last, so a crash leaves each file either old or new. All numbers in the metadata are counted from what is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ...events.disk import OsDisk
from ...events.disk.atomic_files import write_atomically
from ...events.entries import (
    ARCHIVED,
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
from ...events.errors import InvalidSessionId
from ...events.previews import TITLE_CHARS_MAX, preview
from ...events.projects import HASH_DIGITS, project_hash, project_name
from ..base import CountTokens
from ..json_lines import decoded
from ..messages import is_system
from ..values import Object, iso
from .folder import MESSAGES, METADATA, PREFIX, SUMMARIES, TOOLS, VERSION
from .records import Records

INDEX = "index.jsonl"
PROJECTS = "projects"
NO_PROJECT = "0" * HASH_DIGITS
"""The project hash of a session without a project."""


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
    """Estimate the tokens of a message from the length of its content, at four bytes per token."""
    return -(-len(msgspec.json.encode(message.content)) // 4)


def write_nanocoder(
    header: Header, entries: Sequence[Entry], folder: Path, *, count: CountTokens = estimated_tokens
) -> Path:
    """Write a session in the layout of nanocoder's design, replacing the files of an earlier export of it.

    Args:
        header: The session's header.
        entries: The path to write, starting at its root. If its latest compaction has no summary, the entries that it
            hides are not written, since the folder cannot express such a compaction.
        folder: The folder of all sessions, for nanocoder `~/.nanocoder/sessions`; created if missing.
        count: Counts the tokens of a message.

    Returns:
        The session's folder.

    Raises:
        InvalidSessionId: The session's id cannot name a folder.
        OSError: A file cannot be written; each file is then either unchanged or new.
    """
    if not header.id or "/" in header.id or "\0" in header.id:
        raise InvalidSessionId(
            f"the session id {header.id!r} cannot name a folder: fork the session to give it another"
        )
    records = Records(_visible(entries), count)
    metadata = _metadata(header, entries, records)
    target = folder.absolute() / PROJECTS / metadata.project.hash / f"{PREFIX}{header.id}"
    _write_lines(target / MESSAGES, records.messages)
    _write_lines(target / TOOLS, records.runs)
    _write_summaries(target / SUMMARIES, records.summaries)
    _write_lines(target / METADATA, [metadata])
    _write_lines(folder.absolute() / INDEX, [*_other_lines(folder / INDEX, header.id), _index_line(metadata)])
    return target


def _visible(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries of a path without those hidden by its latest compaction, if that has no summary; else all.

    System messages are always kept.
    """
    at = next((at for at in reversed(range(len(entries))) if isinstance(entries[at], CompactionEntry)), None)
    latest = None if at is None else entries[at]
    if not isinstance(latest, CompactionEntry) or latest.compaction.summary:
        return entries
    first_kept = latest.compaction.first_kept_entry_id
    start = next((place for place, entry in enumerate(entries) if entry.id == first_kept), at)
    # An earlier compaction among the kept entries hides nothing anymore.
    return [
        *filter(is_system, entries[:start]),
        *(each for each in entries[start:] if not isinstance(each, CompactionEntry)),
    ]


def _write_lines(path: Path, values: Iterable[object]) -> None:
    disk = OsDisk()
    disk.make_directory(str(path.parent))
    write_atomically(disk, str(path), [msgspec.json.encode(value) + b"\n" for value in values], sync=True)


def _write_summaries(folder: Path, summaries: Mapping[str, Object]) -> None:
    """Write the summaries, and delete those of an earlier export that are no longer current."""
    for key, summary in summaries.items():
        _write_lines(folder / f"{key}.json", [summary])
    for path in folder.glob("*.json") if folder.is_dir() else ():
        if path.stem not in summaries:
            path.unlink()


def _other_lines(path: Path, session: str) -> list[Object]:
    """Return the index lines of other sessions."""
    if not path.is_file():
        return []
    lines = map(decoded, path.read_bytes().splitlines())
    return [line for line in lines if line is not None and line.get("id") != session]


def _metadata(header: Header, entries: Sequence[Entry], records: Records) -> _Metadata:
    info = _session_info(entries)
    provider = info.provider or _provider(entries)
    path = info.project or header.cwd
    roles = [message.role for message in records.sources]
    first_prompt = preview(next((message.text for message in records.sources if message.role == "user"), ""))
    title = header.title if info.name is None else info.name
    return _Metadata(
        version=VERSION,
        id=header.id,
        project=_Project(path, project_hash(path), project_name(path)) if path else _Project("", NO_PROJECT, ""),
        timestamps=_Times(
            iso(header.timestamp),
            iso(entries[-1].timestamp if entries else header.timestamp),
            iso(records.sources[-1].time if records.sources else header.timestamp),
        ),
        stats=_Stats(len(roles), len(records.runs), records.tokens, roles.count("user"), roles.count("assistant")),
        provider=_Provider(provider.type, provider.model, provider.context_window, provider.base_url),
        display=_Display(title or preview(first_prompt, TITLE_CHARS_MAX), first_prompt or None),
        status=ARCHIVED if info.archived else info.status or "active",
        context=records.context or None,
    )


def _session_info(entries: Sequence[Entry]) -> SessionInfo:
    """Return the session's information, with the latest value of each field."""
    info = SessionInfo()
    for entry in entries:
        if isinstance(entry, SessionInfoEntry):
            info = info.merged(entry.session_info)
    return info


def _provider(entries: Sequence[Entry]) -> Provider:
    """Return the provider and model that were used last."""
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
