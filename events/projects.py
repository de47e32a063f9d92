"""What a project is called: a hash that stands for its folder, and a name for people.

A project is the folder in which an agent works. The same folder has the same hash in every run, however its path was
written: through a symbolic link, with a trailing slash, in other letter case where the file system does not tell them
apart. A folder that is not there has a hash too, that of the path it would have.

These functions look at the file system and may wait for it; nothing here writes.
"""

from __future__ import annotations

import os
import tomllib
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

HASH_DIGITS = 16
"""How many hex digits a project's hash has: 64 bits, as many as tell any person's projects apart."""


class _Package(Struct):
    name: str


def project_hash(path: str | os.PathLike[str]) -> str:
    """Return the hash that stands for a project's folder.

    Args:
        path: The folder; a relative one is taken from the current directory.

    Returns:
        The first `HASH_DIGITS` hex digits of the SHA-256 of the folder's real path.
    """
    return sha256(real_path(path).encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]


def real_path(path: str | os.PathLike[str]) -> str:
    """Return a path as the file system itself writes it: absolute, without links, in the letter case that is stored.

    What cannot be a path, since it holds a NUL or half of a surrogate pair, is returned as it is.
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
    """Return what people call a project: the name in its package.json or pyproject.toml, or that of its folder.

    A manifest that is missing, damaged or without a name says nothing.
    """
    folder = Path(real_path(path))
    return _name_in_package(folder / "package.json") or _name_in_pyproject(folder / "pyproject.toml") or _base(folder)


def _stored_name(parent: str, name: str) -> str:
    """Return the name under which a folder lists one of its entries, which may differ from `name` in letter case."""
    path = os.path.join(parent, name)
    try:
        if name.swapcase() == name or not os.path.samefile(path, os.path.join(parent, name.swapcase())):
            return name
        names = os.listdir(parent)
    except OSError:  # not there, or not to be listed: the name that was given is all that is known
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
