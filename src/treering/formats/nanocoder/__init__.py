"""nanocoder: the single file per session that it writes, and the folder per session that its design describes.

A file holds the whole session::

    {"id":"da85...","title":"Look at main","createdAt":"...","lastAccessedAt":"...","messageCount":4,
     "provider":"ollama","model":"qwen3:8b","workingDirectory":"/work/project",
     "messages":[{"role":"user","content":"Read main.go"},...]}

A message may have the model's `reasoning`, and `images`: `[{"data":"...","mediaType":"image/png"}]`.

A folder `session-<id>` holds metadata.json, messages.jsonl, tools.jsonl and summaries/. The index files
beside files and folders only repeat what the sessions say, and are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...events.entries import EPOCH, NATIVE_VERSION, Entry, Header, KnownEntry, ModelChange, Provider, SessionInfo
from ...events.errors import ExportExists, ForeignFormatError, Where
from ...events.json_values import JSON
from ...events.providers.common import ANY_IMAGE
from ..base import CountTokens, ForeignSession, Format
from ..chain import Chain, derived_id
from ..json_lines import Notes, beginning, decoded, document, first_object
from ..messages import read_message
from ..values import Object, as_list, as_object, as_text, as_time
from .folder import MESSAGES, METADATA, NAME, PREFIX, read_folder
from .writing import INDEX, PROJECTS, write_nanocoder

_LOOK = 4096
_INDEX_KEYS = (b'"id"', b'"projectPath"', b'"projectHash"')
_SESSION_FIELDS = frozenset({"createdAt", "id", "lastAccessedAt", "workingDirectory"})
_READ_FIELDS = _SESSION_FIELDS | {"messageCount", "messages", "model", "provider", "title", "titleManuallySet"}
_CHAT_FIELDS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "media"})
_OWN_FIELDS = frozenset({"reasoning", "images"})
_THOUGHTS = ("reasoning_content", "reasoning")


class NanocoderFormat(Format):
    """`<uuid>.json`, and the folder of its design, `session-<id>/`."""

    name = NAME
    title = "nanocoder"
    checked = "files of the program"

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether this is a nanocoder session: a file or a folder."""
        if path.is_dir():
            return _is_folder(path)
        return _is_session(head) or _is_message(head)

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a session from a file or a folder; see `Format.read`."""
        return iter((_read(path),))

    def only_lists(self, path: Path, head: bytes) -> bool:
        """Return whether a file is the index of the folder of all sessions."""
        return path.name == INDEX and all(name in head for name in _INDEX_KEYS)

    def write_folder(
        self, header: Header, entries: Sequence[Entry], folder: Path, *, overwrite: bool, count: CountTokens
    ) -> Path:
        """Write a path as the folder of a session; see `WritesFolder.write_folder`."""
        projects = folder / PROJECTS
        candidates = [each / f"{PREFIX}{header.id}" for each in projects.iterdir()] if projects.is_dir() else []
        if not overwrite and (existing := next(filter(os.path.lexists, candidates), None)) is not None:
            raise ExportExists(f"{existing} already exists: give another folder, or overwrite=True")
        return write_nanocoder(header, entries, folder, count=count)


def _is_session(head: bytes) -> bool:
    start, value = beginning(head), first_object(head)
    if value is None:  # the document is longer than the head
        return start.startswith(b"{") and all(f'"{key}"'.encode() in start for key in _SESSION_FIELDS)
    return value.keys() >= _SESSION_FIELDS


def _is_message(head: bytes) -> bool:
    fields = decoded(head.partition(b"\n")[0]) or {}
    return {"parentId", "role"} <= fields.keys() and not {"seq", "tokens", "tokenCount"}.isdisjoint(fields)


def _is_folder(path: Path) -> bool:
    """Return whether a folder is a session, by its name and files, or by the content of these files."""
    present = [name for name in (MESSAGES, METADATA) if (path / name).is_file()]
    if path.name.startswith(PREFIX):
        return bool(present)
    if MESSAGES in present:
        return _is_message(_head(path / MESSAGES))
    return METADATA in present and all(name in _head(path / METADATA) for name in (b'"project', b'"messageCount"'))


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LOOK)


def _read(path: Path) -> ForeignSession:
    if path.is_dir():
        return read_folder(path)
    if path.name in (MESSAGES, METADATA):
        return read_folder(path.parent)
    value = document(path)
    if isinstance(value, list):
        raise ForeignFormatError(
            "this file lists sessions but holds none: import the files beside it", where=Where(str(path))
        )
    stored = as_object(value)
    if not isinstance(stored.get("messages"), list):
        raise ForeignFormatError("this is not a nanocoder session: it has no messages", where=Where(str(path)))
    session = as_text(stored.get("id")) or derived_id(NAME, path.stem)
    created = as_time(stored.get("createdAt")) or as_time(stored.get("lastAccessedAt")) or EPOCH
    header = Header(
        id=session,
        version=NATIVE_VERSION,
        timestamp=created,
        cwd=as_text(stored.get("workingDirectory")) or None,
        title=as_text(stored.get("title")) or None,
    )
    notes = Notes(path)
    return ForeignSession(header=header, entries=_entries(stored, header, notes), findings=notes.findings)


def _as_chat_message(raw: Object, notes: Notes) -> Object:
    """Return a message in the chat completions form, with reasoning and images; note the fields that have no place."""
    for name, value in raw.items():
        if value is not None and name not in _CHAT_FIELDS | _OWN_FIELDS:
            notes.leave_out(f"message field {name}", value)
    chat_message: Object = {name: value for name, value in raw.items() if name in _CHAT_FIELDS}
    thoughts = [thought for name in _THOUGHTS if (thought := as_text(raw.get(name)))]
    chat_message["reasoning_content"] = thoughts[0] if thoughts else None
    if len({*thoughts}) > 1:
        notes.leave_out("message field reasoning", thoughts[1])
    images = as_list(raw.get("images"))
    shown: list[JSON] = [address for each in images if (address := _data_url(as_object(each)))]
    if len(shown) < len(images):
        notes.leave_out("message field images", images)
    if shown:
        chat_message["media"] = [*as_list(raw.get("media")), *shown]
        if raw.get("content") == "":  # an image needs no empty text before it
            del chat_message["content"]
    return chat_message


def _data_url(image: Object) -> str:
    """Return an image as a data URL; "" if it has no data."""
    data, media_type = as_text(image.get("data")), as_text(image.get("mediaType"))
    return f"data:{media_type or ANY_IMAGE};base64,{data}" if data else ""


def _entries(stored: Object, header: Header, notes: Notes) -> Iterator[KnownEntry]:
    notes.check_fields("session", stored, _READ_FIELDS)
    notes.check_strings("session", stored, "title")
    notes.check_items("message of an unknown form", stored.get("messages"))
    chain = Chain(NAME, header.id, header.timestamp)
    for position, raw_message in enumerate(as_list(stored.get("messages"))):
        message = read_message(_as_chat_message(as_object(raw_message), notes), notes)
        if message is None:
            notes.add(
                "damaged",
                "error",
                f"messages[{position}] has no role, or is a tool result without a call id, so it is left out",
            )
            continue
        yield chain.add(message)
    provider, model = as_text(stored.get("provider")), as_text(stored.get("model"))
    if provider and model:
        yield chain.describe(ModelChange(provider, model))
    title = header.title if stored.get("titleManuallySet") is True else None
    if title or provider:
        yield chain.describe(SessionInfo(name=title, provider=Provider(provider, model) if provider else None))
    notes.close()
