"""The current session of each project: a pointer under the root, `.treering/current/<project hash>`.

It is a symbolic link to the session's file, which people and any program can follow; if the system or the disk has no
links, it is a file that holds the same path. A pointer is not part of any session: if it is lost, or points to a file
that is gone, the project has no current session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Protocol, runtime_checkable

from ...disk import Disk
from ...disk.atomic_files import write_atomically
from ...disk.disk import PRIVATE_FOLDER
from ...disk.disk_errors import refusing_to_write
from ...errors import InvalidSessionId
from ..base import Ref, Stamp
from .names import Names

FOLDER_NAME = "current"
"""The folder of the pointers, in `.treering`."""

_TARGET_MAX = 4096


@runtime_checkable
class LinkingDisk(Protocol):
    """A disk that supports symbolic links."""

    def link(self, target: str, path: str, /) -> None:
        """Atomically replace the path with a symbolic link; `OSError` if the system has none."""
        ...

    def read_link(self, path: str, /) -> str:
        """Return the target of a symbolic link; `OSError` if the path is not one."""
        ...


class Pointers:
    """The pointers under one root; every call may wait for the disk.

    Args:
        disk: The disk.
        names: The names of the logs under the root.
        look_at: Returns the stamp of a log; see `ScansChanges.look_at`.
    """

    def __init__(self, disk: Disk, names: Names, look_at: Callable[[Ref], Stamp | None]) -> None:
        self._disk = disk
        self._names = names
        self._look_at = look_at
        self._folder = f"{names.root.rstrip('/')}/{PRIVATE_FOLDER}/{FOLDER_NAME}"

    def get(self, project_hash: str) -> Ref | None:
        """Return the current session of a project; None if none is set or it is gone."""
        target = self._target(f"{self._folder}/{project_hash}")
        return None if target is None else self._ref_at(target)

    def all(self) -> dict[str, Ref]:
        """Return the current sessions of all projects.

        Raises:
            OSError: The pointers cannot be listed.
        """
        refs = ((name, self._ref_at(path)) for name, path in self._paths())
        return {name: ref for name, ref in refs if ref is not None}

    def _ref_at(self, target: str) -> Ref | None:
        try:
            ref = self._names.ref_of(os.path.join(self._folder, target))
            stamp = self._look_at(ref)
        except (InvalidSessionId, OSError, ValueError):  # the target cannot be a session
            return None
        return ref if stamp is not None and stamp.size else None

    def set(self, project_hash: str, ref: Ref) -> None:
        """Set the current session of a project.

        Raises:
            ReadOnly: This process may not write there; the pointer is unchanged.
            InvalidInput: No directory can be created there; the pointer is unchanged.
            OSError: A write failed for another reason; the pointer is unchanged.
        """
        path = f"{self._folder}/{project_hash}"
        with refusing_to_write(path):
            self._write(path, os.path.relpath(self._names.path_of(ref), self._folder))

    def _write(self, path: str, target: str) -> None:
        self._disk.make_directory(self._folder)
        if isinstance(self._disk, LinkingDisk):
            try:
                self._disk.link(target, path)
            except OSError:
                pass  # this file system has no links
            else:
                return
        write_atomically(self._disk, path, [os.fsencode(target) + b"\n"], sync=False)

    def clear(self, project_hash: str) -> None:
        """Clear the current session of a project, if it has one.

        Raises:
            ReadOnly: This process may not write there; the pointer is unchanged.
            OSError: It cannot be removed for another reason.
        """
        path = f"{self._folder}/{project_hash}"
        with refusing_to_write(path), suppress(FileNotFoundError, NotADirectoryError):
            self._disk.unlink(path)

    def forget(self, ref: Ref) -> None:
        """Remove every pointer to a session that is gone."""
        session_path = self._names.path_of(ref)
        for name, path in self._paths():
            if path == session_path:
                self.clear(name)

    def among(self, refs: Collection[Ref]) -> frozenset[Ref]:
        """Return those of the sessions that are the current session of some project.

        Raises:
            OSError: The pointers cannot be listed.
        """
        real_paths = list[str]()
        for _, path in self._paths():
            with suppress(OSError, ValueError):  # the target cannot be a session
                real_paths.append(self._disk.real_path(path))
        return frozenset(ref for ref in refs if self._disk.real_path(self._names.path_of(ref)) in real_paths)

    def _paths(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each pointer, and the path to which it points; links there are not followed."""
        try:
            names = self._disk.list_directory(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in names:
            target = self._target(f"{self._folder}/{name}")
            if target is not None:
                yield name, os.path.normpath(os.path.join(self._folder, target))

    def _target(self, path: str) -> str | None:
        if isinstance(self._disk, LinkingDisk):
            with suppress(OSError):
                return self._disk.read_link(path)
        try:
            fd = self._disk.open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            return os.fsdecode(self._disk.pread(fd, _TARGET_MAX, 0)).strip() or None
        finally:
            self._disk.close(fd)
