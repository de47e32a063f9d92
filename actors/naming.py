"""What sessions and their logs are called."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, cast

from ..events.dialects.base import Dialect
from ..events.dialects.native import NativeDialect
from ..events.entries import Header
from ..events.errors import InvalidInput, InvalidSessionId
from ..events.stores.base import Ref
from .keys import id_of_key

SUFFIX = ".jsonl"
"""How the name of a log ends."""

_ID_BYTES_MAX = 255 - len(SUFFIX)


DialectName: TypeAlias = Literal["native", "pi", "omp"]
"""The dialects that a host can be told to write new sessions in."""


def dialect_named(name: str) -> Dialect:
    """Return a dialect by its name: "native", "pi" or "omp".

    Raises:
        InvalidInput: There is no such dialect.
    """
    if name == "native":
        return NativeDialect()
    if name == "pi":
        from ..events.dialects.pi import PiDialect

        return PiDialect()
    if name == "omp":
        from ..events.dialects.omp import OmpDialect

        return OmpDialect()
    raise InvalidInput(f"there is no dialect {name!r} to write: choose native, pi or omp")


def current(dialect: Dialect) -> Dialect:
    """Return the dialect in which a log of an older version is written anew."""
    return dialect_named(dialect.name) if dialect.old else dialect


def checked_id(session_id: str) -> str:
    """Return a session id that can name a file.

    Raises:
        InvalidSessionId: It is no string, empty, too long, a name of directories, or holds a separator or a control
            character.
    """
    if not isinstance(session_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidSessionId(f"{session_id!r} is no session id: give a string")
    if not session_id or session_id in (".", ".."):
        raise InvalidSessionId(f"{session_id!r} is no session id: give one that can name a file")
    if len(session_id.encode("utf-8", "surrogatepass")) > _ID_BYTES_MAX:
        raise InvalidSessionId(f"the session id {session_id[:40]!r}... is longer than {_ID_BYTES_MAX} bytes")
    wrong = next((char for char in session_id if char in "/\\" or ord(char) < 32 or 0xD800 <= ord(char) < 0xE000), None)
    if wrong is not None:
        raise InvalidSessionId(
            f"the session id {session_id!r} holds {wrong!r}: leave out separators and control characters"
        )
    return session_id


def checked_path(path: str | os.PathLike[str]) -> str:
    """Return a path as it is written, but for a `~` at its beginning, which is the user's folder.

    Raises:
        InvalidInput: It is no path, or one of bytes, or holds what no path can.
    """
    given = cast("object", path)  # whatever it is declared to be
    written: object = os.fspath(cast("os.PathLike[str]", given)) if isinstance(given, os.PathLike) else given
    if not isinstance(written, str):
        raise InvalidInput(f"{path!r} is no path: give a string or a `pathlib.Path`")
    try:
        impossible = b"\0" in os.fsencode(written)
    except UnicodeEncodeError:
        impossible = True
    if impossible:
        raise InvalidInput(f"{written!r} is no path: leave out the null character and halves of characters")
    return os.path.expanduser(written)


def absolute(folder: str | os.PathLike[str]) -> str:
    """Return the absolute path of a folder, as headers say it: it means the same wherever it is read.

    Links and letter case stay as they are written.

    Raises:
        InvalidInput: It is no path.
    """
    return os.path.abspath(checked_path(folder))


def ref_of_key(key: str) -> Ref:
    """Return the name of the log of the session that a key means.

    Raises:
        InvalidSessionId: It is no key.
    """
    return id_of_key(key) + SUFFIX


def is_text(name: str) -> bool:
    """Tell whether a name is text: that of a file or folder may be any bytes, and then cannot be written down."""
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def check_text(what: str, given: object) -> None:
    """Refuse what cannot be written down, where anything is given.

    Raises:
        InvalidInput: It is no string, or holds bytes that are no UTF-8.
    """
    if given is None:
        return
    if not isinstance(given, str):
        raise InvalidInput(f"{what} is of type `{type(given).__name__}`: give a string")
    if not is_text(given):
        raise InvalidInput(f"{what} is {given!r}, which is no text: leave out what is no UTF-8")


def new_ref(dialect: Dialect, header: Header) -> Ref:
    """Return the name of the log of a new session: as its key says, or else as its dialect names files."""
    if header.key is not None:
        return ref_of_key(header.key)
    if dialect.name == "native":
        return header.id + SUFFIX
    from ..events.dialects.pi import pi_directory_name, pi_file_name

    name = pi_file_name(header)
    return f"{pi_directory_name(header.cwd)}/{name}" if header.cwd is not None else name
