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
from ...events.projects import HASH_DIGITS, project_hash, project_name
from ...events.texts import TITLE_CHARS_MAX, preview
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
    info = _session_info(entries)
    path = info.project or header.cwd
    hashed = project_hash(path) if path else NO_PROJECT
    metadata, index_line = _metadata(header, entries, records, info, path, hashed)
    target = folder.absolute() / PROJECTS / hashed / f"{PREFIX}{header.id}"
    _write_lines(target / MESSAGES, records.messages)
    _write_lines(target / TOOLS, records.runs)
    _write_summaries(target / SUMMARIES, records.summaries)
    _write_lines(target / METADATA, [metadata])
    _write_lines(folder.absolute() / INDEX, [*_other_lines(folder / INDEX, header.id), index_line])
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


def _metadata(
    header: Header, entries: Sequence[Entry], records: Records, info: SessionInfo, path: str | None, hashed: str
) -> tuple[Object, Object]:
    """Return the metadata of a session, and its line in the index."""
    provider = info.provider or _provider(entries)
    roles = [message.role for message in records.sources]
    first_prompt = preview(next((message.text for message in records.sources if message.role == "user"), ""))
    title = (header.title if info.name is None else info.name) or preview(first_prompt, TITLE_CHARS_MAX)
    created, status = iso(header.timestamp), ARCHIVED if info.archived else info.status or "active"
    accessed = iso(entries[-1].timestamp if entries else header.timestamp)
    metadata: Object = {
        "version": VERSION,
        "id": header.id,
        "project": {"path": path or "", "hash": hashed, "name": project_name(path) if path else ""},
        "timestamps": {
            "createdAt": created,
            "lastAccessedAt": accessed,
            "lastMessageAt": iso(records.sources[-1].time if records.sources else header.timestamp),
        },
        "stats": {
            "messageCount": len(roles),
            "toolExecutionCount": len(records.runs),
            "totalTokens": records.tokens,
            "userMessageCount": roles.count("user"),
            "assistantMessageCount": roles.count("assistant"),
        },
        "provider": {
            "type": provider.type,
            "model": provider.model,
            "contextWindow": provider.context_window,
            **({} if provider.base_url is None else {"baseUrl": provider.base_url}),
        },
        "display": {"title": title, **({"description": first_prompt} if first_prompt else {})},
        "status": status,
        **({"context": records.context} if records.context else {}),
    }
    index_line: Object = {
        "id": header.id,
        "projectPath": path or "",
        "projectHash": hashed,
        "title": title,
        "createdAt": created,
        "lastAccessedAt": accessed,
        "messageCount": len(roles),
        "status": status,
    }
    return metadata, index_line


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
