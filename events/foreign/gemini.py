"""Gemini CLI: a metadata line and lines of messages, which later lines of the same id replace; before, one document.

    {"sessionId":"...","projectHash":"...","startTime":"...","lastUpdated":"...","kind":"main"}
    {"id":"u1","timestamp":"...","type":"user","content":[{"text":"Say hello."}]}
    {"id":"g1","timestamp":"...","type":"gemini","content":"","model":"...","tokens":{...},"toolCalls":[...]}
    {"$set":{"lastUpdated":"..."}}          changes the metadata; with `messages`, the whole history
    {"$rewindTo":"u1"}                      goes back to before this message; to the beginning where it is not there

A message that was rewound or replaced stays on its branch, and what follows hangs where the history went on; what an answer
took counts once, however often it was written. A session is held in memory, since its last line may change its first
message. The folder of a project names it in `.project_root`, and `chats/<session>/` holds the sessions that a session
started. A conversation that a person saved is read as a session of its own, see `gemini_checkpoint`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from ..entries import NATIVE_VERSION, Custom, Header, KnownEntry, ModelChange, SessionInfo
from ..errors import ForeignFormatError, Where
from ..findings import Finding
from .base import ForeignSession
from .chain import Chain, derived_id
from .gemini_checkpoint import contents_of, is_checkpoint, messages_of, title_of
from .gemini_history import History, Written
from .gemini_messages import ASSISTANTS, USERS, Call, read_answer, read_responses, read_usage, read_user
from .json_lines import Notes, beginning, document, objects
from .values import as_object, as_text, as_time, kept_json

NAME = "gemini"

_START = b'{"id"'
_PROVIDER = "google"
_CHATS = "chats"
_SUBAGENT = "subagent"
_PROJECT = ".project_root"
_DEPTH_MAX = 3  # below the project's folder: chats/, and in it a folder of those that a session started


class GeminiFormat:
    """Sessions of Gemini CLI."""

    name = NAME
    title = "Gemini CLI"

    def recognizes(self, path: Path, head: bytes) -> bool:
        """Tell whether this is a session of Gemini CLI, or a conversation that was saved in it."""
        return _is_session(head) or is_checkpoint(head)

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a session; see `Format.read`."""
        return iter((_read(path),))


def _is_session(head: bytes) -> bool:
    return beginning(head).startswith(b"{") and b'"sessionId"' in head and b'"projectHash"' in head


def _read(path: Path) -> ForeignSession:
    findings: list[Finding] = []
    notes = Notes(path, findings)
    history = History(NAME, notes)
    modified = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
    value = document(path) if _is_document(path) else None
    contents = contents_of(value)
    if contents is not None:
        history.set({"messages": [*messages_of(contents, notes)]})
        said = sha256(path.read_bytes()).hexdigest()
        header = Header(
            id=derived_id(NAME, said),
            version=NATIVE_VERSION,
            timestamp=modified,
            cwd=_project(path),
            title=title_of(path),
        )
    else:
        if value is not None:
            history.set(as_object(value))
        else:
            for line in objects(path, notes, _START):
                history.take(line)
        if not history.is_of_a_session:
            raise ForeignFormatError("there is nothing of a session of Gemini CLI in this file", where=Where(str(path)))
        header = _header(path, history, modified)
    entries, leaf = _entries(header, history)
    notes.close()
    return ForeignSession(header=header, entries=iter(entries), findings=findings, leaf_id=leaf)


def _is_document(path: Path) -> bool:
    """Tell whether a file is one document: its first line is no whole object."""
    with path.open("rb") as file:
        first = beginning(file.readline()).rstrip()
    return path.suffix == ".json" or first == b"{" or first.startswith(b"[")


def _header(path: Path, history: History, modified: datetime) -> Header:
    given = history.metadata
    first = next((as_time(message.given.get("timestamp")) for message in history.written), None)
    folders = given.get("directories")
    folder = as_text(folders[0]) if isinstance(folders, list) and folders else ""
    parent = path.absolute().parent
    started = given.get("kind") == _SUBAGENT and parent.parent.name == _CHATS
    return Header(
        id=as_text(given.get("sessionId")) or derived_id(NAME, path.name),
        version=NATIVE_VERSION,
        timestamp=as_time(given.get("startTime")) or first or modified,
        cwd=folder or _project(path),
        parent_session=parent.name if started else None,
    )


def _project(path: Path) -> str | None:
    """Return the folder that a project's folder is of, in which a file stands, or below; None where nobody says it."""
    for folder in path.absolute().parents[:_DEPTH_MAX]:
        file = folder / _PROJECT
        try:
            if file.is_file():
                return file.read_text(encoding="utf-8").strip() or None
        except (OSError, ValueError):  # it only helps
            continue
    return None


def _entries(header: Header, history: History) -> tuple[list[KnownEntry], str | None]:
    """Return the entries of all branches, and the one at which the history stands."""
    chain = Chain(NAME, header.id, header.timestamp)
    entries: list[KnownEntry] = []
    summary = as_text(history.metadata.get("summary"))
    if summary:
        entries.append(chain.describe(SessionInfo(description=summary)))
    tails: dict[Written | None, str | None] = {None: chain.leaf}
    telling = _Telling(chain)
    model = ""
    for message in history.written:
        chain.leaf = tails[message.after]
        given, time = message.given, as_time(message.given.get("timestamp"))
        named = as_text(given.get("model"))
        if named and named != model and message.type in ASSISTANTS:
            model = named
            entries.append(chain.add(ModelChange(_PROVIDER, model), time=time))
        entries += telling.told(message, model)
        tails[message] = chain.leaf
    if history.written and history.last is None:
        chain.leaf = tails[None]
        time = as_time(history.metadata.get("lastUpdated"))
        entries.append(chain.add(Custom("gemini.rewind", kept_json({"to": None})), time=time))
        return entries, None
    return entries, tails[history.last]


class _Telling:
    """Tells what messages say: an answer, the results of its calls, and what it took where that is not told yet."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._calls: dict[Written | None, Sequence[Call]] = {}
        self._counted: set[str] = set()

    def told(self, message: Written, model: str) -> Iterator[KnownEntry]:
        """Yield what a message says; nothing where an answer before it says all of it."""
        given, time = message.given, as_time(message.given.get("timestamp"))
        message_id = as_text(given.get("id"))
        if message.type in ASSISTANTS:
            yield from self._answer(message, model, time)
        elif message.type in USERS:
            said = read_user(given)
            for result in read_responses(given, message.key, self._calls.get(message.answer, ())):
                yield self._chain.add(result, id="" if said else message_id, time=time)
            if said is not None:
                yield self._chain.add(said, id=message_id, time=time)
        else:
            yield self._chain.add(
                Custom(f"gemini.{message.type or 'message'}", kept_json(given)), id=message_id, time=time
            )

    def _answer(self, message: Written, model: str, time: datetime | None) -> Iterator[KnownEntry]:
        answer = read_answer(message.given, message.key, model)
        self._calls[message] = answer.calls
        usage = None if message.key in self._counted else read_usage(message.given)
        if usage is not None:
            self._counted.add(message.key)
        yield self._chain.add(replace(answer.message, usage=usage), id=as_text(message.given.get("id")), time=time)
        for result, at in answer.results:
            yield self._chain.add(result, time=at)
