"""Where objects are: any place that fsspec knows, such as `s3://bucket/prefix` or `file:///var/archive`.

An object is written once under a name that no other has, and never changed. Credentials are fsspec's and the services'
own matter (environment, configuration files): an address with a password in it is refused, since the rows of sessions
hold addresses. Needs the extra `archive`, and the package of the service, such as s3fs.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import tempfile
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Protocol, TypeAlias
from urllib.parse import urlsplit

from ....events.errors import ExtraMissing, InvalidInput, LogDamaged, StoreUnavailable, TreeringError, Where

Content: TypeAlias = bytes | mmap.mmap
"""The bytes of an object: in memory, or in a file without a name if they are many."""

READ_BYTES = 8 * 1024 * 1024
"""How many bytes of an object are asked for at once; larger objects are not held in memory."""

_LOCAL = frozenset({"file", "local"})
_WITH_FOLDERS = _LOCAL | {"dir", "ftp", "hdfs", "sftp", "smb", "ssh"}


class _FileSystem(Protocol):
    """What is used of a file system of fsspec, which has no types."""

    def open(self, path: str, mode: str) -> AbstractContextManager[IO[bytes]]: ...
    def cat_file(self, path: str, *, start: int, end: int) -> bytes: ...  # by name: others come first in S3's
    def rm_file(self, path: str) -> None: ...
    def find(self, path: str) -> list[str]: ...
    def exists(self, path: str) -> bool: ...
    def makedirs(self, path: str, exist_ok: bool) -> None: ...


def check_place(text: str) -> str:
    """Return the address of a place for objects in the form in which it is kept.

    Args:
        text: An address that fsspec knows, or the absolute path of a folder.

    Raises:
        InvalidInput: It is none, or holds a password, or more than a place.
        ExtraMissing: A package is not installed that it needs.
    """
    place = f"file://{text}" if text.startswith("/") else text
    parts = urlsplit(place)
    if not parts.scheme or "::" in place or parts.query or parts.fragment or not place.isprintable():
        raise InvalidInput(
            f"{text!r} is no place for archived sessions: give an address such as 's3://bucket/prefix', or the "
            f"absolute path of a folder"
        )
    if parts.password is not None:
        raise InvalidInput(
            "the place for archived sessions must not hold a password: give credentials in the way of the service, "
            "by its environment or configuration"
        )
    try:
        _fsspec().get_filesystem_class(parts.scheme)
    except ValueError as error:
        raise InvalidInput(f"{text!r} is no place for archived sessions that fsspec knows: {error}") from error
    except ImportError as error:
        raise ExtraMissing(
            f"archived sessions at {parts.scheme}:// need another package ({error}): install it beside "
            f"'treering[archive]'"
        ) from error
    return place.rstrip("/")


def write(uri: str, content: IO[bytes]) -> None:
    """Write an object, so that it survives a power cut; after an error, a part of it may be there.

    Raises:
        StoreUnavailable: The place does not take it.
    """
    try:
        with _reached(uri) as (files, path):
            created = _make_folders(files, uri, path)
            with files.open(path, "wb") as file:
                while piece := content.read(READ_BYTES):
                    file.write(piece)
            if _scheme(uri) in _LOCAL:  # all others are durable when they acknowledge
                for each in (path, *created):
                    _flush(each)
    except LogDamaged as error:
        raise StoreUnavailable(f"{uri}: there is no such bucket or folder: create it, or correct 'archive'") from error


def read(uri: str, size: int) -> Content:
    """Return an object.

    Args:
        uri: Its address.
        size: How many bytes it has.

    Raises:
        LogDamaged: It does not exist.
        StoreUnavailable: The place does not answer.
    """
    with _reached(uri) as (files, path):
        if size <= READ_BYTES:
            return files.cat_file(path, start=0, end=size)
        with tempfile.TemporaryFile() as file:
            for start in range(0, size, READ_BYTES):
                file.write(files.cat_file(path, start=start, end=min(start + READ_BYTES, size)))
            file.flush()
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def hash_of(uri: str, size: int) -> bytes:
    """Return the SHA-256 of an object, as it is read from its place; see `read`."""
    digest = hashlib.sha256()
    with _reached(uri) as (files, path):
        for start in range(0, size, READ_BYTES):
            digest.update(files.cat_file(path, start=start, end=min(start + READ_BYTES, size)))
    return digest.digest()


def remove(uri: str) -> None:
    """Delete an object; one that does not exist is as good as deleted.

    Raises:
        StoreUnavailable: The place does not answer, or refuses.
    """
    try:
        with _reached(uri) as (files, path):
            files.rm_file(path)
    except LogDamaged:
        return


def names(folder: str) -> list[str]:
    """Return the names of all objects in a folder, sorted; there are none in one that does not exist.

    Raises:
        StoreUnavailable: The place does not answer.
    """
    try:
        with _reached(folder) as (files, path):
            return sorted(found.rpartition("/")[2] for found in files.find(path))
    except LogDamaged:
        return []


def _fsspec() -> ModuleType:
    try:
        return import_module("fsspec")
    except ImportError as error:
        raise ExtraMissing(
            "archived sessions outside the database need the package fsspec: pip install 'treering[archive]'"
        ) from error


def _scheme(uri: str) -> str:
    return uri.partition("://")[0]


@contextmanager
def _reached(uri: str) -> Generator[tuple[_FileSystem, str]]:
    """Lend the file system of an address, and the path there, to a block, whose errors are told in the tree's words."""
    fsspec = _fsspec()
    try:
        files: _FileSystem
        # A listing that was kept does not know of what another host has written since.
        files, path = fsspec.url_to_fs(uri, use_listings_cache=False)
        yield files, path
    except TreeringError:
        raise
    except FileNotFoundError as error:
        raise LogDamaged(
            "there is no such object: bring it back from a backup of the place, or from an earlier version of it",
            where=Where(uri),
        ) from error
    except ImportError as error:
        raise ExtraMissing(
            f"{uri} cannot be reached ({error}): install that package beside 'treering[archive]'"
        ) from error
    except Exception as error:  # each service raises what it likes
        raise StoreUnavailable(
            f"{uri}: the place of archived sessions does not serve ({type(error).__name__}: {error}): check that it "
            f"can be reached and this program's rights there, and try again"
        ) from error


def _make_folders(files: _FileSystem, uri: str, path: str) -> list[str]:
    """Make the folder of an object where that is needed; return it, and all whose list of names changed."""
    if _scheme(uri) not in _WITH_FOLDERS:
        return []  # makedirs would create a bucket
    folder = str(Path(path).parent)
    changed = [folder]
    while not files.exists(changed[-1]) and changed[-1] != os.path.dirname(changed[-1]):
        changed.append(os.path.dirname(changed[-1]))
    files.makedirs(folder, exist_ok=True)
    return changed


def _flush(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
