"""opencode: where its sessions lie. A tree of small JSON files, or an exported file; of the database, see elsewhere.

storage/session/<project>/<session>.json      {"id":"ses_1","directory":"/work/project","title":"...","time":{...}}
storage/message/<session>/<message>.json      {"id":"msg_1","sessionID":"ses_1","role":"user","time":{...}}
storage/part/<message>/<part>.json            {"id":"prt_1","messageID":"msg_1","type":"text","text":"Hello"}

The first versions had the whole tree within `session`, and knew no projects:

storage/session/info/<session>.json           {"id":"ses_1","title":"...","time":{...}}
storage/session/message/<session>/<message>.json
storage/session/part/<session>/<message>/<part>.json

{"info":{...session...},"messages":[{"info":{...message...},"parts":[...]}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from .json_lines import Notes, decoded, document
from .values import Object, as_object, as_objects, as_text


class Record(Struct, frozen=True):
    """A message, with its parts in order."""

    info: Object
    parts: list[Object]


class Stored(Protocol):
    """One session, wherever it lies."""

    @property
    def path(self) -> Path:
        """The file that holds it, or what is said of it as a whole."""
        ...

    def info(self) -> Object:
        """Return what is said of it as a whole.

        Raises:
            ForeignFormatError: It cannot be read.
        """
        ...

    def records(self, notes: Notes) -> Iterator[Record]:
        """Yield its messages in order; what is damaged is noted."""
        ...


class InTree:
    """A session in the tree; `path` is its own file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_first = is_in_first_tree(path)
        self._root = path.parent.parent if self._is_first else path.parent.parent.parent

    def info(self) -> Object:
        """Return what is said of it as a whole; see `Stored.info`."""
        return as_object(document(self.path))

    def records(self, notes: Notes) -> Iterator[Record]:
        """Yield its messages in order; see `Stored.records`."""
        session = as_text(self.info().get("id")) or self.path.stem
        messages, parts = self._root / "message", self._root / "part"
        self._miss(messages, "messages", notes)
        any_message = False
        for info in _values(messages / _plain(session), notes):
            if not any_message:
                any_message = True
                self._miss(parts, "parts of its messages", notes)
            message = as_text(info.get("id"))
            folder = parts / _plain(session) if self._is_first else parts
            yield Record(info, list(_values(folder / _plain(message), notes)) if message else [])

    def _miss(self, folder: Path, what: str, notes: Notes) -> None:
        if not folder.is_dir():
            notes.add(
                "missing",
                "error",
                f"the {what} belong into the folder {folder}, which is missing: it comes without them",
            )


def is_tree(folder: Path) -> bool:
    """Tell whether a folder is a storage tree."""
    sessions = folder / "session"
    return sessions.is_dir() and ((folder / "message").is_dir() or _is_first_tree(sessions))


def is_in_first_tree(path: Path) -> bool:
    """Tell whether a session's own file lies in a tree of the first versions."""
    return path.parent.name == "info" and _is_first_tree(path.parent.parent)


def _is_first_tree(sessions: Path) -> bool:
    return (sessions / "info").is_dir() and (sessions / "message").is_dir()


def _plain(name: str) -> str:
    """Return an id as the name of a folder: one that leads elsewhere names none that is there."""
    return name.replace("/", "_").replace("\0", "_") if name not in (".", "..") else "_"


def _values(folder: Path, notes: Notes) -> Iterator[Object]:
    """Yield the objects in the files of a folder, by the order of their names."""
    try:
        paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    except OSError as error:
        notes.add("damaged", "error", f"what belongs into {folder.name[:40]!r} is left out: {error.strerror}")
        return
    for path in paths:
        try:
            value, problem = decoded(path.read_bytes()), "is no JSON object"
        except OSError as error:
            value, problem = None, f"cannot be read ({error.strerror})"
        if value is None:
            notes.add("damaged", "error", f"{path.parent.name}/{path.name} {problem}: it is left out")
        else:
            yield value


class InFile:
    """A session that `opencode export` wrote."""

    def __init__(self, path: Path, given: Object) -> None:
        self.path = path
        self._given = given

    def info(self) -> Object:
        """Return what is said of it as a whole; see `Stored.info`."""
        return as_object(self._given.get("info"))

    def records(self, notes: Notes) -> Iterator[Record]:
        """Yield its messages in order; see `Stored.records`."""
        for each in as_objects(self._given.get("messages")):
            yield Record(as_object(each.get("info")), as_objects(each.get("parts")))
