"""Cline's command line: one JSON document of messages for each agent of a session, and documents about the session.

    sessions/<session>/<session>.json               {"session_id":"1795...","cwd":"/work/project","metadata":{...},...}
    sessions/<session>/<session>.messages.json      {"version":1,"agent":"lead","sessionId":"1795...","messages":[...]}
    sessions/<session>/<session>.compaction.json    {"version":1,"source_message_count":13,"messages":[...]}
    sessions/<session>/<agent>.messages.json        {"version":1,"agent":"subagent","sessionId":"1795...__...",...}

Messages have ids. A document is written anew as a whole, and messages that the user took back are no longer in it: they
stay on their branch. The compaction that counts is the one that the last of these documents tells of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...events.entries import NATIVE_VERSION, Compaction, Entry, Header, KnownEntry, ModelChange
from ...events.errors import ForeignFormatError, UnsupportedVersion, Where
from ...events.json_values import JSON
from ..base import ForeignSession, Format
from ..chain import Chain, Names, is_derived_or_random
from ..json_lines import Notes, beginning, document, document_beside, first_object
from ..opening import modified_at
from ..values import Object, as_count, as_list, as_object, as_objects, as_text, as_time, as_words
from .messages import NAME, read_message

_VERSION = 1
_END = ".messages.json"
_COMPACTION_END = ".compaction.json"
_START = re.compile(rb'\{\s*"version"\s*:\s*\d+\s*,\s*"updated_at"\s*:\s*"[^"]*"\s*,\s*"agent"\s*:\s*"')
_FIELDS = frozenset({"agent", "messages", "origin", "sessionId", "system_prompt", "taskType", "updated_at", "version"})
_STARTS_AGENT = "spawn_agent"
_MESSAGE_PREFIX = "msg_"


class ClineFormat(Format):
    """`<session>.messages.json` of the command line, with the documents beside it, and those of its sub-agents."""

    name = NAME
    title = "Cline"
    home = "~/.cline/data/sessions"
    checked = "the program, 3.0.65"
    moved_by = ("CLINE_DIR", "~/.cline")

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether this is a document of messages."""
        value = first_object(head)
        if value is None:  # the document is longer than the head
            return _START.match(beginning(head)) is not None
        return {"agent", "messages", "sessionId", "updated_at", "version"} <= value.keys()

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read the session of one agent; see `Format.read`.

        Raises:
            UnsupportedVersion: A later version of the program wrote it.
        """
        return iter((_read(path),))

    def only_lists(self, path: Path, head: bytes) -> bool:
        """Return whether a document only tells about the messages beside it."""
        about = path.name.removesuffix(_COMPACTION_END).removesuffix(".json")
        return path.suffix == ".json" and path.with_name(about + _END).is_file()


def _read(path: Path) -> ForeignSession:
    where, stored = Where(str(path)), as_object(document(path))
    if not isinstance(stored.get("messages"), list):
        raise ForeignFormatError("this is not a session of Cline: it has no messages", where=where)
    version = as_count(stored.get("version"))
    if version > _VERSION:
        raise UnsupportedVersion(
            f"the document has version {version}, this reads up to {_VERSION}: upgrade treering", where=where
        )
    notes = Notes(path)
    origin = as_object(stored.get("origin"))
    parent = as_text(origin.get("parentThreadId"))
    lead = path.with_name((Path(parent).name or path.name.removesuffix(_END)) + _END)
    about = _beside(path.with_name(lead.name.removesuffix(_END) + ".json"), notes)
    messages = as_list(stored["messages"])
    times = (as_time(as_object(each).get("ts")) for each in messages)
    started = None if parent else as_time(about.get("started_at"))
    header = Header(
        id=as_text(stored.get("sessionId")) or path.name.removesuffix(_END),
        version=NATIVE_VERSION,
        timestamp=started or next(filter(None, times), None) or modified_at(path),
        cwd=as_text(about.get("cwd")) or None,
        parent_session=parent or None,
        parent_entry=_caller(lead, messages) if parent else None,
        title=(as_text(as_object(about.get("metadata")).get("title")) or None) if not parent else None,
    )
    compacted = path.with_name(path.name.removesuffix(_END) + _COMPACTION_END)
    compaction = _beside(compacted, notes) if compacted.is_file() else {}
    entries = _entries(header, stored, compaction, notes)
    return ForeignSession(
        header=header,
        entries=entries,
        findings=notes.findings,
        is_of_source=_is_of_cline,
        changed=as_time(stored.get("updated_at")),
    )


def _beside(path: Path, notes: Notes) -> Object:
    """Read a document that tells about the messages."""
    return document_beside(path, notes, "beside", "document", "what it tells is left out")


def _caller(path: Path, messages: Sequence[JSON]) -> str | None:
    """Return the message that started a sub-agent: the one whose call has the agent's first prompt as its task."""
    first = as_object(messages[0]) if messages else {}
    prompts = [as_words(each.get("text")) for each in as_objects(first.get("content"))]
    try:
        calling = as_objects(as_object(document(path)).get("messages")) if path.is_file() else []
    except ForeignFormatError:
        return None  # it is reported where it is read itself
    for message in calling:
        for part in as_objects(message.get("content")):
            if part.get("name") == _STARTS_AGENT and as_object(part.get("input")).get("task") in prompts:
                return as_text(message.get("id")) or None
    return None


def _is_of_cline(entry: Entry) -> bool:
    """Return whether an entry has an id of Cline, or one derived for it."""
    is_own = entry.command_id is None and (entry.id or "").startswith(_MESSAGE_PREFIX)
    return is_own or is_derived_or_random(entry)


def _entries(header: Header, stored: Object, compaction: Object, notes: Notes) -> Iterator[KnownEntry]:
    notes.check_fields("document", stored, _FIELDS)
    chain, names = Chain(NAME, header.id, header.timestamp), Names()
    model = ("", "")
    for position, raw in enumerate(as_list(stored.get("messages"))):
        message, time = as_object(raw), as_time(as_object(raw).get("ts"))
        message_id = as_text(message.get("id"))
        found = read_message(message, notes)
        if found is None:
            notes.add("damaged", "error", f"messages[{position}] has no known role, so it is left out")
            continue
        if not found:
            notes.skip("message without content")
        for each in found:
            answered = (each.provider or "", each.model or "")
            if each.role == "assistant" and all(answered) and answered != model:
                model = answered
                yield chain.add(ModelChange(*model), time=time)
            yield chain.add(names.named(each), id="" if message_id in chain else message_id, time=time)
    yield from _compaction(compaction, chain, notes)
    notes.close()


def _compaction(stored: Object, chain: Chain, notes: Notes) -> Iterator[KnownEntry]:
    """Yield the latest compaction, which stands at the end: it says where the history that is kept begins."""
    summaries = [each for each in as_objects(stored.get("messages")) if "summary" in as_object(each.get("metadata"))]
    if not summaries:
        return
    metadata = as_object(summaries[-1].get("metadata"))
    ids = (as_text(each.get("id")) for each in as_objects(stored.get("messages")))
    kept = next((each for each in ids if each and each in chain), None)
    summary = as_words(metadata.get("summary"))
    notes.check_repeated("compaction field content", summaries[-1].get("content"), f"Context summary:\n\n{summary}")
    yield chain.describe(Compaction(summary, kept, as_count(metadata.get("tokensBefore"))))
