"""The identity of a project: a hash of its folder, and a name for people.

A project is the folder in which an agent works. The same folder has the same hash in every run, however its path is
written: through a symbolic link, with a trailing slash, or in other letter case on a case-insensitive file system. A
folder that does not exist has a hash too, that of the path it would have.

These functions read the file system and may block; nothing here writes.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

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
    named = _name_in_package(folder / "package.json") or _name_in_pyproject(folder / "pyproject.toml")
    return named or folder.name or str(folder)


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
    import tomllib  # loaded by few programs, and not for nothing

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    try:
        return msgspec.convert(document.get("project"), _Package).name.strip()
    except msgspec.ValidationError:
        return ""
