"""Folders that callers name: the root of a store, and the project in which an agent works.

A root is given as a path or a `file:` URL. A project's folder has the same hash in every run, however its path is
written: through a symbolic link, with a trailing slash, or in other letter case on a case-insensitive file system. A
folder that does not exist has a hash too, that of the path it would have.

The functions for projects read the file system and may block; nothing here writes.
"""

from __future__ import annotations

import os
import re
import tomllib
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote

import msgspec
from msgspec import Struct

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
    if scheme is not None:  # the rest is not repeated, since it may hold a password
        raise InvalidInput(
            f"{what} begins with {scheme[0]!r}, like an address, but sessions are kept in directories: give the path "
            f"of one, or './{scheme[0]}…' if its name really begins so"
        )


HASH_DIGITS = 16
"""The number of hex digits in a project's hash: 64 bits, enough to distinguish any person's projects."""


class _Package(Struct):
    name: str


def project_hash(path: str | os.PathLike[str]) -> str:
    """Return the hash of a project's folder.

    Args:
        path: The folder; a relative path starts at the current directory.

    Returns:
        The first `HASH_DIGITS` hex digits of the SHA-256 of the folder's real path.
    """
    return sha256(real_path(path).encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]


def real_path(path: str | os.PathLike[str]) -> str:
    """Return a path as the file system stores it: absolute, with links resolved, in the stored letter case.

    A value that cannot be a path, since it holds a NUL or half of a surrogate pair, is returned unchanged.
    """
    try:
        resolved = os.path.realpath(path)
    except ValueError:
        return os.fspath(path)
    true = Path(resolved).anchor
    for name in Path(resolved).parts[1:]:
        true = os.path.join(true, _stored_name(true, name))
    return os.path.normcase(true)


def project_name(path: str | os.PathLike[str]) -> str:
    """Return a project's name for people: that in its package.json or pyproject.toml, otherwise that of its folder.

    A manifest that is missing, damaged or without a name is ignored.
    """
    folder = Path(real_path(path))
    return _name_in_package(folder / "package.json") or _name_in_pyproject(folder / "pyproject.toml") or _base(folder)


def _stored_name(parent: str, name: str) -> str:
    """Return the stored name of a file in a folder, which may differ from `name` in letter case."""
    path = os.path.join(parent, name)
    try:
        if name.swapcase() == name or not os.path.samefile(path, os.path.join(parent, name.swapcase())):
            return name
        names = os.listdir(parent)
    except OSError:  # missing, or the folder cannot be listed: the given name is all that is known
        return name
    if name in names:
        return name
    return next((stored for stored in names if stored.casefold() == name.casefold()), name)


def _name_in_package(path: Path) -> str:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Package).name.strip()
    except (OSError, ValueError):
        return ""


def _name_in_pyproject(path: Path) -> str:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    try:
        return msgspec.convert(document.get("project"), _Package).name.strip()
    except msgspec.ValidationError:
        return ""


def _base(folder: Path) -> str:
    return folder.name or str(folder)
