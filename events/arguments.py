"""The checks of arguments that callers pass: counts, words, texts, and roots, which are paths or addresses."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterable
from urllib.parse import unquote

from .errors import InvalidInput, TreeringError


def check_count(name: str, value: object) -> None:
    """Refuse a value that is not a count.

    Args:
        name: The caller's name for it.
        value: The value.

    Raises:
        InvalidInput: It is not a whole number, or negative.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput(f"{name} is {reprlib.repr(value)}: give a whole number of 0 or more")


_SHOWN_MAX = 80
_WORDS_MAX = 30


def check_word(what: str, word: object, known: Iterable[str], *, error: type[TreeringError] = InvalidInput) -> None:
    """Refuse a word that is none of the known ones.

    Args:
        what: What the words name, such as "export format".
        word: What the caller gave.
        known: The words that the argument accepts; those of a `Literal` are its `get_args`.
        error: The error to raise.

    Raises:
        InvalidInput: It is none of them; or `error`, if another one is given.
    """
    words = tuple(known)
    if word in words:  # compared and not hashed, since callers without a type checker may pass anything
        return
    shown = repr(word)
    if len(shown) > _SHOWN_MAX:
        shown = f"{shown[:_SHOWN_MAX]}…"
    known_words = [*map(repr, words[:_WORDS_MAX]), *([f"{len(words) - _WORDS_MAX} more"] if words[_WORDS_MAX:] else [])]
    *others, last = known_words or ["nothing, since there are none"]
    raise error(f"there is no {what} {shown}: choose {', '.join(others)}{' or ' if others else ''}{last}")


def is_text(name: str) -> bool:
    """Return whether a name is valid text; file names may be arbitrary bytes, which cannot be stored."""
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def check_text(name: str, value: object) -> None:
    """Refuse a value that cannot be stored as text; None is accepted.

    Args:
        name: The caller's name for it.
        value: The value.

    Raises:
        InvalidInput: It is not a string, or contains bytes that are not UTF-8.
    """
    if value is None:
        return
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is of type `{type(value).__name__}`: give a string")
    if not is_text(value):
        raise InvalidInput(f"{name} is {value!r}, which is not valid text: leave out what is not UTF-8")


def check_texts(**given: object) -> None:
    """Refuse arguments that are no texts, None among them; see `check_text`."""
    for name, value in given.items():
        if value is None:
            raise InvalidInput(f"`{name}` is None: give a string")
        check_text(f"`{name}`", value)


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def scheme_of(root: str | os.PathLike[str]) -> str | None:
    """Return the word before the colon with which an address begins, in lower case; None for a path."""
    scheme = _SCHEME.match(root) if isinstance(root, str) else None
    return None if scheme is None else scheme[1].lower()


def without_file_scheme(root: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the path that a `file:` URL names, such as "file:/srv/logs", "file:///srv/logs" or "file:logs".

    Anything else is returned unchanged.

    Raises:
        InvalidInput: The URL names another machine, or no path.
    """
    if not isinstance(root, str) or scheme_of(root) != "file":
        return root
    path = root.partition(":")[2]
    if path.startswith("//"):
        machine, _, rest = path[2:].partition("/")
        if machine not in ("", "localhost"):
            raise InvalidInput(
                f"{root!r} names a file of the machine {machine!r}: give 'file:/path', with one slash or with three"
            )
        path = f"/{rest}"
    if not path:
        raise InvalidInput(f"{root!r} names no directory: give 'file:/path'")
    return unquote(path)


def folder_of(root: str | os.PathLike[str], what: str) -> str | os.PathLike[str]:
    """Return the path that a path or a `file:` URL names.

    Args:
        root: What the caller gave.
        what: The caller's name for it.

    Raises:
        InvalidInput: It begins like another address, or is a `file:` URL of no path here.
    """
    folder = without_file_scheme(root)
    if folder is root:
        check_root(folder, what)
    return folder


def check_root(root: str | os.PathLike[str], what: str = "the root") -> None:
    """Refuse a text that begins like an address, with a word of two or more characters and a colon.

    As a path, it would silently become a directory of that name. A `Path` is always a path, and so is a text with a
    single letter before the colon, as the drives of Windows have.

    Args:
        root: What the caller gave.
        what: The caller's name for it.

    Raises:
        InvalidInput: It begins like an address.
    """
    scheme = _SCHEME.match(root) if isinstance(root, str) else None
    if scheme is not None and scheme[1].lower() == "memory":
        raise InvalidInput(f"{what} is in memory, where nothing was before and nothing stays: give a directory")
    if scheme is not None:  # the rest is not repeated, since it may hold a password
        raise InvalidInput(
            f"{what} begins with {scheme[0]!r}, like an address, but sessions are kept in directories: give the path "
            f"of one, or './{scheme[0]}…' if its name really begins so"
        )
