"""Where an export goes: into memory, or into a file that is there whole or not at all, for its owner's eyes alone."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio

from ...events.disk import OsDisk
from ...events.errors import ExportExists, InvalidInput
from ...events.offload import Offload, carried_out
from ...events.stores.files.beside import open_temporary, write_all

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EMLINK})

_disk = OsDisk()


async def in_memory(pieces: AsyncIterator[bytes]) -> bytes:
    """Return an export as bytes."""
    return b"".join([piece async for piece in pieces])


async def in_file(offload: Offload, path: Path, pieces: AsyncIterator[bytes], *, overwrite: bool) -> Path:
    """Write an export to a file, under another name first.

    Raises:
        ExportExists: Something is there already, or appeared meanwhile.
        OSError: It cannot be written; nothing is left of it.
    """
    file = await offload(_Unfinished, path, overwrite)
    try:
        async for piece in pieces:
            await offload(file.write, piece)
        await carried_out(offload, file.finish, overwrite)
    finally:
        with anyio.CancelScope(shield=True):
            await offload(file.close)
    return path


class _Unfinished:
    """A file under a name of its own, until it is finished."""

    def __init__(self, path: Path, overwrite: bool) -> None:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InvalidInput(
                f"{path} is a device or a pipe and no file: export without a path, and write the bytes there"
            )
        if not overwrite:
            refuse_existing(path)
        if not path.parent.is_dir():
            raise InvalidInput(f"there is no folder {path.parent}: make it, or export elsewhere")
        if path.is_dir():
            raise InvalidInput(f"{path} is a folder: give the path of a file")
        self._path = os.path.abspath(path)
        self._fd, self._temporary = open_temporary(_disk, self._path)
        self._finished = False

    def write(self, piece: bytes) -> None:
        """Write the next piece."""
        write_all(_disk, self._fd, piece)

    def finish(self, overwrite: bool) -> None:
        """Make the file durable and give it its name."""
        _disk.datasync(self._fd)
        if overwrite or not self._linked():
            _disk.rename(self._temporary, self._path)
        self._finished = True
        _disk.sync_directory(os.path.dirname(self._path))

    def _linked(self) -> bool:
        """Give the file its name unless something has it; False where the file system cannot, and nothing has it."""
        try:
            os.link(self._temporary, self._path)
        except FileExistsError:
            refuse_existing(Path(self._path))
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            refuse_existing(Path(self._path))
            return False
        _disk.unlink(self._temporary)
        return True

    def close(self) -> None:
        """Close the file; one that was not finished goes."""
        _disk.close(self._fd)
        if not self._finished:
            with suppress(FileNotFoundError):
                _disk.unlink(self._temporary)


def refuse_existing(path: Path) -> None:
    """Refuse a destination where something is.

    Raises:
        ExportExists: Something is there.
    """
    if os.path.lexists(path):
        raise ExportExists(f"{path} is there already: give another path, or overwrite=True")
