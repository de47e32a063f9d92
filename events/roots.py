"""Texts that name a root: paths of directories, and no addresses of other kinds of stores."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from .errors import InvalidInput

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
