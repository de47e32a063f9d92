"""Gemini CLI: a metadata line and message lines, each replaceable by a later line with its id; formerly, one document.

    {"sessionId":"...","projectHash":"...","startTime":"...","lastUpdated":"...","kind":"main"}
    {"id":"u1","timestamp":"...","type":"user","content":[{"text":"Say hello."}]}
    {"id":"g1","timestamp":"...","type":"gemini","content":"","model":"...","tokens":{...},"toolCalls":[...]}
    {"$set":{"lastUpdated":"..."}}          changes the metadata; with `messages`, the whole history
    {"$rewindTo":"u1"}                      goes back to before this message; to the beginning if the id is unknown

Messages that were rewound or replaced stay on their own branch, and later messages follow the point from which the
history continued. The token usage of an answer counts once, however often the answer was written. A session is held in
memory, since its last line may change its first message. A project's folder names the project in `.project_root`;
`chats/<session>/` holds the sessions that a session started.

What a person saved with `/chat save` is a session of its own. It holds what was sent to the model, without times and
model; earlier versions wrote the list alone::

    checkpoint-<name>.json   {"history":[{"role":"user","parts":[{"text":"Say hello."}]},...],"authType":"..."}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote

from msgspec.structs import replace

from ...events.entries import NATIVE_VERSION, Custom, Header, KnownEntry, ModelChange, SessionInfo
from ...events.errors import ForeignFormatError, Where
from ...events.json_values import JSON
from ..base import ForeignSession, Format
from ..chain import Chain, derived_id
from ..google_messages import ASIDE, ASSISTANTS, USERS, Call, read_answer, read_responses, read_usage, read_user
from ..google_unread import note_unread_of_message
from ..json_lines import Notes, beginning, carries_text, document, first_object, names_in, objects, unheard
from ..opening import modified_at
from ..values import Object, as_object, as_text, as_time, kept_json
from .history import History, HistoryMessage, is_preamble, marks_of_user

NAME = "gemini"

_START = b'{"id"'
_HEAD_PATTERN = re.compile(rb'\{(\s*"\w+"\s*:\s*"[^"]*"\s*,)*\s*"(sessionId|projectHash)"\s*:')
_PROVIDER = "google"
_CHATS = "chats"
_SUBAGENT = "subagent"
_PROJECT = ".project_root"
_CHECKPOINT = re.compile(
    rb'(\{\s*"history"\s*:\s*)?\[\s*\{\s*("role"\s*:\s*"(user|model)"\s*,\s*"parts"|"parts"\s*:\s*\[)'
)
_CHECKPOINT_PREFIX = "checkpoint-"
_SESSION_PREFIX = "session-"
_SESSION_FIELDS = names_in(
    "directories hasUserOrAssistantMessage kind lastUpdated memoryScratchpad projectHash sessionId startTime summary"
)
_CONTENT_FIELDS = frozenset({"parts", "role"})
_TYPES: dict[JSON, str] = {"user": "user", "function": "user", "model": "model"}

_DEPTH_MAX = 3  # levels from a file up to the project's folder: chats/<session>/<file>


class GeminiFormat(Format):
    """`chats/session-*.jsonl`, the older `.json`, and `checkpoint-<name>.json`."""

    name = NAME
    title = "Gemini CLI"
    home = "~/.gemini/tmp"
    checked = "the program, 0.61.0"
    moved_by = ("GEMINI_CLI_HOME", "~")

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether this is a Gemini CLI session or a conversation saved in Gemini CLI."""
        return _is_session(head) or _is_checkpoint(head)

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a session; see `Format.read`. A file that was begun to resume another one beside it has none."""
        return iter(()) if _is_stub(path) else iter((_read(path),))


def _is_session(head: bytes) -> bool:
    start = beginning(head)
    value = first_object(head)
    if value is None:  # the document is longer than the head
        return _HEAD_PATTERN.match(start) is not None
    return {"sessionId", "projectHash"} <= value.keys()


def _is_stub(path: Path) -> bool:
    """Return whether a file holds nothing but Gemini CLI's own words, and another one beside it the session."""
    if path.suffix != ".jsonl" or _is_document(path):
        return False
    history = History(NAME, unheard())
    for line in objects(path, unheard(), _START):
        history.apply(line)
        if any(not is_preamble(each.raw) for each in history.messages):
            return False
    session = as_text(history.metadata.get("sessionId"))
    others = (each for each in path.parent.glob(f"{_SESSION_PREFIX}*.jsonl") if each != path)
    return bool(session) and any(_session_of(each) == session for each in others)


def _session_of(path: Path) -> str:
    first = next(objects(path, unheard(), _START), None)
    return "" if first is None else as_text(first.value.get("sessionId"))


def _read(path: Path) -> ForeignSession:
    notes = Notes(path)
    history = History(NAME, notes)
    modified = modified_at(path)
    value = document(path) if _is_document(path) else None
    contents = _contents_of(value)
    if contents is not None:
        history.set({"messages": [*_messages_of(contents, notes)]})
        digest = sha256(path.read_bytes()).hexdigest()
        header = Header(
            id=derived_id(NAME, digest),
            version=NATIVE_VERSION,
            timestamp=modified,
            cwd=_project(path),
            title=_title_of(path),
        )
    else:
        if value is not None:
            history.set(as_object(value))
        else:
            for line in objects(path, notes, _START):
                history.apply(line)
        if not history.holds_session_data:
            raise ForeignFormatError("the file contains nothing of a Gemini CLI session", where=Where(str(path)))
        header = _header(path, history, modified)
    notes.check_fields("session", history.metadata, _SESSION_FIELDS)
    notes.check_strings("session", history.metadata, "summary")
    entries, leaf = _entries(header, history, notes)
    notes.close()
    return ForeignSession(header=header, entries=iter(entries), findings=notes.findings, leaf_id=leaf)


def _is_document(path: Path) -> bool:
    """Return whether a file is one document: by its suffix, or because its first line is not a complete object."""
    with path.open("rb") as file:
        first = beginning(file.readline()).rstrip()
    return path.suffix == ".json" or first == b"{" or first.startswith(b"[")


def _header(path: Path, history: History, modified: datetime) -> Header:
    metadata = history.metadata
    first = next((as_time(message.raw.get("timestamp")) for message in history.messages), None)
    folders = metadata.get("directories")
    folder = as_text(folders[0]) if isinstance(folders, list) and folders else ""
    parent = path.absolute().parent
    is_subagent = metadata.get("kind") == _SUBAGENT and parent.parent.name == _CHATS
    return Header(
        id=as_text(metadata.get("sessionId")) or derived_id(NAME, path.name),
        version=NATIVE_VERSION,
        timestamp=as_time(metadata.get("startTime")) or first or modified,
        cwd=folder or _project(path),
        parent_session=parent.name if is_subagent else None,
    )


def _project(path: Path) -> str | None:
    """Return the path of the project to which a session file belongs; None if no folder above the file names it."""
    for folder in path.absolute().parents[:_DEPTH_MAX]:
        file = folder / _PROJECT
        try:
            if file.is_file():
                return file.read_text(encoding="utf-8").strip() or None
        except (OSError, ValueError):  # the project path is optional
            continue
    return None


def _entries(header: Header, history: History, notes: Notes) -> tuple[list[KnownEntry], str | None]:
    """Return the entries of all branches, and the id of the leaf."""
    chain = Chain(NAME, header.id, header.timestamp)
    entries: list[KnownEntry] = []
    summary = as_text(history.metadata.get("summary"))
    if summary:
        entries.append(chain.describe(SessionInfo(description=summary)))
    leaf_after: dict[HistoryMessage | None, str | None] = {None: chain.leaf}
    reader = _MessageReader(chain, notes)
    model = ""
    for message in history.messages:
        chain.leaf = leaf_after[message.after]
        raw, time = message.raw, as_time(message.raw.get("timestamp"))
        message_model = as_text(raw.get("model"))
        if message_model and message_model != model and message.type in ASSISTANTS:
            model = message_model
            entries.append(chain.add(ModelChange(_PROVIDER, model), time=time))
        entries += reader.entries(message, model)
        leaf_after[message] = chain.leaf
    chain.leaf = leaf_after[history.last]
    if history.messages and history.last is not history.messages[-1]:
        # The leaf follows what an import adds: without this entry, it would stay where it was before the rewind.
        rewind: Object = {"to": history.last.key if history.last else None, "from": history.messages[-1].key}
        time = as_time(history.metadata.get("lastUpdated"))
        entries.append(chain.describe(Custom("gemini.rewind", kept_json(rewind)), time=time))
    return entries, chain.leaf


class _MessageReader:
    """A converter of messages to entries: an answer, the results of its calls, and its usage unless counted before."""

    def __init__(self, chain: Chain, notes: Notes) -> None:
        self._chain = chain
        self._notes = notes
        self._calls: dict[HistoryMessage | None, Sequence[Call]] = {}
        self._counted_usage: set[str] = set()

    def entries(self, message: HistoryMessage, model: str) -> Iterator[KnownEntry]:
        """Yield the entries of a message; none if an answer before it already holds all of its content."""
        raw, time = message.raw, as_time(message.raw.get("timestamp"))
        message_id = as_text(raw.get("id"))
        if message.type in ASSISTANTS:
            note_unread_of_message(raw, self._notes, is_answer=True)
            yield from self._answer(message, model, time)
        elif message.type in USERS:
            note_unread_of_message(raw, self._notes, is_answer=False)
            user_message = read_user(raw)
            for result in read_responses(raw, message.key, self._calls.get(message.answer, ())):
                yield self._chain.add(result, id="" if user_message else message_id, time=time)
            if user_message is not None:
                marks = marks_of_user(user_message)
                marked = replace(user_message, raw_metadata=kept_json(marks)) if marks else user_message
                yield self._chain.add(marked, id=message_id, time=time, beginning=user_message)
        else:
            if message.type not in ASIDE and carries_text(raw):
                self._notes.leave_out(f"message of kind {message.type or 'unknown'}", raw, kept=True)
            yield self._chain.add(
                Custom(f"gemini.{message.type or 'message'}", kept_json(raw)), id=message_id, time=time
            )

    def _answer(self, message: HistoryMessage, model: str, time: datetime | None) -> Iterator[KnownEntry]:
        answer = read_answer(message.raw, message.key, model)
        self._calls[message] = answer.calls
        usage = None if message.key in self._counted_usage else read_usage(message.raw)
        if usage is not None:
            self._counted_usage.add(message.key)
        yield self._chain.add(replace(answer.message, usage=usage), id=as_text(message.raw.get("id")), time=time)
        for result, result_time in answer.results:
            yield self._chain.add(result, time=result_time)


def _is_checkpoint(head: bytes) -> bool:
    """Return whether a file is a saved conversation, by its first bytes."""
    return _CHECKPOINT.match(beginning(head)) is not None and b'"role"' in head


def _contents_of(value: JSON) -> list[JSON] | None:
    """Return the contents of a saved conversation; None if `value` is not one."""
    contents = value.get("history") if isinstance(value, dict) else value
    if isinstance(contents, list) and any(_is_content(each) for each in contents):
        return contents
    return None


def _messages_of(contents: list[JSON], notes: Notes) -> list[Object]:
    """Return the messages in the form used in sessions; report and leave out items that are not messages."""
    messages: list[Object] = []
    for position, each in enumerate(contents):
        if _is_content(each):
            raw = as_object(each)
            notes.check_fields("message", raw, _CONTENT_FIELDS)
            messages.append({"type": _TYPES[raw["role"]], "content": raw["parts"]})
        else:
            notes.add("damaged", "error", f"history[{position}] has no known role or no parts, so it is left out")
    return messages


def _title_of(path: Path) -> str | None:
    """Return the name under which a conversation was saved, from the file's name; None if it has none."""
    return unquote(path.stem.removeprefix(_CHECKPOINT_PREFIX)) if path.stem.startswith(_CHECKPOINT_PREFIX) else None


def _is_content(value: JSON) -> bool:
    raw = as_object(value)
    role = raw.get("role")
    return isinstance(role, str) and role in _TYPES and isinstance(raw.get("parts"), list)
