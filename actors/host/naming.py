"""The names of sessions and of their logs."""

from __future__ import annotations

import os
from typing import cast

from ...events.dialects.base import Dialect
from ...events.dialects.detect import dialect_named
from ...events.entries import Header
from ...events.errors import InvalidInput, InvalidSessionId
from ...events.stores.base import Ref
from .names import id_of_key

SUFFIX = ".jsonl"
"""The suffix of a log's name."""

_ID_BYTES_MAX = 255 - len(SUFFIX)
_NEW_ID_BYTES_MAX = 180  # leaves room for the time in pi's file names, and for the longer names of files beside a log


def current(dialect: Dialect) -> Dialect:
    """Return the current version of a dialect, to which a log of an older version is migrated."""
    return dialect_named(dialect.name) if dialect.old else dialect


def checked_id(session_id: str, *, is_new: bool = False) -> str:
    """Return a session id after checking that it can name a file.

    Args:
        session_id: The id.
        is_new: Whether a session is to be created with this id; the names of its files are then limited, too.

    Raises:
        InvalidSessionId: It is not a string, empty, too long, "." or "..", or contains a separator or a control
            character.
    """
    if not isinstance(session_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidSessionId(f"{session_id!r} is not a session id: give a string")
    if not session_id or session_id in (".", ".."):
        raise InvalidSessionId(f"{session_id!r} is not a session id: give one that can name a file")
    bytes_max = _NEW_ID_BYTES_MAX if is_new else _ID_BYTES_MAX
    if len(session_id.encode("utf-8", "surrogatepass")) > bytes_max:
        raise InvalidSessionId(f"the session id {session_id[:40]!r}... is longer than {bytes_max} bytes: shorten it")
    forbidden = next(
        (char for char in session_id if char in "/\\" or ord(char) < 32 or 0xD800 <= ord(char) < 0xE000), None
    )
    if forbidden is not None:
        raise InvalidSessionId(
            f"the session id {session_id!r} contains {forbidden!r}: leave out separators and control characters"
        )
    return session_id


def checked_path(path: str | os.PathLike[str]) -> str:
    """Return a path as a string, with a `~` at its beginning expanded.

    Raises:
        InvalidInput: It is not a path, is empty, is given as bytes, or contains what no path can.
    """
    value = cast("object", path)  # callers without a type checker may pass anything
    text: object = os.fspath(cast("os.PathLike[str]", value)) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise InvalidInput(f"{path!r} is not a path: give a string or a `pathlib.Path`")
    if not text:  # often a variable that is not set; as a path, it would silently mean the current directory
        raise InvalidInput("'' is not a path: give '.' for the current directory")
    try:
        impossible = b"\0" in os.fsencode(text)
    except UnicodeEncodeError:
        impossible = True
    if impossible:
        raise InvalidInput(f"{text!r} is not a path: leave out null characters and lone surrogates")
    return os.path.expanduser(text)


def absolute(folder: str | os.PathLike[str]) -> str:
    """Return the absolute path of a folder, as stored in headers, so that it means the same wherever it is read.

    Links and letter case are kept as written.

    Raises:
        InvalidInput: It is not a path.
    """
    return os.path.abspath(checked_path(folder))


def ref_of_key(key: str) -> Ref:
    """Return the name of the log of a key's session.

    Raises:
        InvalidSessionId: The key is invalid.
    """
    return id_of_key(key) + SUFFIX


def new_ref(dialect: Dialect, header: Header) -> Ref:
    """Return the name of the log of a new session: derived from its key, or as its dialect names files."""
    if header.key is not None:
        return ref_of_key(header.key)
    return dialect.file_name(header)
