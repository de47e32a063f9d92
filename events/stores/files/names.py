"""The mapping of refs to paths: the ref of a log is its path relative to the root, or absolute outside of the root."""

from __future__ import annotations

import os

from ...disk import Disk
from ...disk.disk import PRIVATE_FOLDER
from ...disk.packed import log_path
from ...errors import InvalidSessionId
from ..base import Ref


def folders_between(root: str, path: str) -> list[str]:
    """Return the folders from a file up to a root above it, innermost first, including the root."""
    assert path.startswith(root.rstrip("/") + "/"), f"{path} is not below {root}"
    folders = [os.path.dirname(path)]
    while folders[-1] != root:
        folders.append(os.path.dirname(folders[-1]))
    return folders


class Names:
    """The conversion of refs to paths and back, for one root.

    Args:
        disk: The disk, which follows links.
        root: The folder that holds the logs.

    Attributes:
        durable_folders: The folders whose own names are known to survive a power cut.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self.root = disk.real_path(os.path.abspath(root))
        self.durable_folders: set[str] = set()
        self._prefix = self.root.rstrip("/") + "/"

    def path_of(self, ref: Ref) -> str:
        """Return the path of a ref.

        Raises:
            InvalidSessionId: The ref is empty, not normalized, or leads out of the root.
        """
        parts = ref.split("/")
        if parts[0] == "" and len(parts) > 1:
            del parts[0]
        if not ref or "\0" in ref or PRIVATE_FOLDER in parts or any(part in ("", ".", "..") for part in parts):
            raise InvalidSessionId(
                f"{ref!r} is not a valid log name: use a path under the root or an absolute path, without '..', '.', "
                f"{PRIVATE_FOLDER!r} or empty parts"
            )
        return ref if ref.startswith("/") else self._prefix + ref

    def unflushed_folders(self, path: str) -> UnflushedFolders:
        """Return the folders to flush before the name of an existing file is known to survive a power cut.

        The process that created the file may have ended before it flushed them. The file's own folder always has to be
        flushed. The name of a folder has to be made durable only once.
        """
        own_folder = os.path.dirname(path)
        if not path.startswith(self._prefix):
            return UnflushedFolders(path, (own_folder,), self.durable_folders)
        not_durable = [each for each in folders_between(self.root, path) if each not in self.durable_folders]
        return UnflushedFolders(path, (own_folder, *map(os.path.dirname, not_durable)), self.durable_folders)

    def ref_of(self, path: str) -> Ref:
        """Return the canonical ref of a file, with all links followed: relative if it is under the root, else absolute.

        The packed form of a log has the log's ref.
        """
        real_path = log_path(self._disk.real_path(os.path.abspath(path)))
        return real_path.removeprefix(self._prefix)
