"""The names of logs: refs are paths under the root, with slashes and extension; a file elsewhere has its absolute path."""

from __future__ import annotations

import os

from ...disk import Disk
from ...errors import InvalidSessionId
from ..base import Ref
from .packed import log_path
from .private_folder import PRIVATE_FOLDER


def folders_between(root: str, path: str) -> list[str]:
    """Return the folders on the way from a root to a file below it, the innermost first and the root last."""
    assert path.startswith(root.rstrip("/") + "/"), f"{path} does not lie below {root}"
    folders = [os.path.dirname(path)]
    while folders[-1] != root:
        folders.append(os.path.dirname(folders[-1]))
    return folders


class Names:
    """Turns refs into paths and back.

    Args:
        disk: Follows links.
        root: The folder under which logs are.

    Attributes:
        named: The folders whose own names are sure to survive a power cut.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self.root = disk.real_path(os.path.abspath(root))
        self.named: set[str] = set()
        self._under = self.root.rstrip("/") + "/"

    def path_of(self, ref: Ref) -> str:
        """Return the path that a ref stands for.

        Raises:
            InvalidSessionId: It is empty, not in its plain form, or leads out of the root.
        """
        parts = ref.split("/")
        if parts[0] == "" and len(parts) > 1:
            del parts[0]
        if not ref or "\0" in ref or PRIVATE_FOLDER in parts or any(part in ("", ".", "..") for part in parts):
            raise InvalidSessionId(
                f"{ref!r} names no log: give a path under the root, or an absolute one, without '..' and empty parts"
            )
        return ref if ref.startswith("/") else self._under + ref

    def folders_to_flush(self, path: str) -> tuple[str, ...]:
        """Return the folders to flush before a file's name is sure to survive a power cut.

        Whoever made the file may have ended before that was done. For its own folder nobody can tell; a folder's name, once
        it is on the disk, is safe.
        """
        own = os.path.dirname(path)
        if not path.startswith(self._under):
            return (own,)
        unnamed = [each for each in folders_between(self.root, path) if each not in self.named]
        return (own, *map(os.path.dirname, unnamed))

    def ref_of(self, path: str) -> Ref:
        """Return the one ref of a file, whatever links lead to it: relative if it is under the root, else absolute.

        The packed form of a log has the log's ref.
        """
        real = log_path(self._disk.real_path(os.path.abspath(path)))
        return real.removeprefix(self._under)
