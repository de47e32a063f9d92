"""The folder that holds the logs, as people and other programs see it: its files by path, whether it takes writes, and
what is wrong in it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...disk import Disk
from ...disk.atomic_files import write_temporary
from ...disk.packed import stat_if_exists
from ...errors import InvalidInput, LogError, Where
from ...findings import Finding, Repair
from ..base import Ref
from .names import Names, folders_between


class RootFolder:
    """The folder of one store: its `NamesFiles`, `NamesPlaces`, `TriesWriting` and `Health`.

    Args:
        disk: The file system calls.
        names: The conversion of refs to paths and back.
    """

    def __init__(self, disk: Disk, names: Names) -> None:
        self._disk = disk
        self._names = names

    @property
    def root(self) -> str:
        """The real path of the folder."""
        return self._names.root

    # -- names

    def path_of(self, ref: Ref) -> str:
        """Return the path of a log's file; see `NamesFiles.path_of`.

        Raises:
            InvalidSessionId: The ref leads out of the root, or is not normalized.
        """
        return self._names.path_of(ref)

    def ref_of(self, path: str | os.PathLike[str]) -> Ref:
        """Return the canonical ref of a file, with all links followed; see `NamesFiles.ref_of`."""
        return self._names.ref_of(os.fspath(path))

    def is_outside(self, ref: Ref) -> bool:
        """Tell whether a log lies outside the root; see `NamesFiles.is_outside`."""
        return os.path.isabs(ref)

    def what_is_there(self, ref: Ref) -> str | None:
        """Return what has the path of a log that cannot be found; see `NamesFiles.what_is_there`."""
        stat = stat_if_exists(self._disk, self.path_of(ref))
        if stat is None:
            return None
        return "directory" if stat.is_directory else "empty file"

    def inner_roots(self, ref: Ref) -> list[tuple[str, Ref]]:
        """Return the folders between a log and the root, without the root, and the log's name in each. Blocks.

        Such a folder may be the root of another host, whose files may hold a copy of what the session says.
        """
        path = self._disk.real_path(self.path_of(ref))
        if not path.startswith(self.root.rstrip("/") + "/"):
            return []
        return [(folder, path[len(folder) + 1 :]) for folder in folders_between(self.root, path)[:-1]]

    # -- whether it can be used

    def check_root(self) -> None:
        """Refuse a root that cannot hold logs; see `NamesFiles.check_root`.

        Raises:
            InvalidInput: Something other than a directory has its name, or that of a directory above it.
        """
        try:
            stat = self._disk.stat(self.root)
        except NotADirectoryError as error:
            raise InvalidInput(f"the root {self.root} lies below a file: give another directory") from error
        except OSError:  # missing or inaccessible: the first caller that needs it gets the error
            return
        if not stat.is_directory:
            raise InvalidInput(f"the root {self.root} is not a directory: give the directory of the session files")

    def try_writing(self) -> None:
        """Try whether the root takes writes; see `TriesWriting`. One that does not exist yet is not created.

        Raises:
            OSError: It takes none.
        """
        if self._exists():
            self._disk.unlink(write_temporary(self._disk, f"{self.root}/.written", [b"written"], sync=True))

    # -- what is wrong in it

    def places(self, ref: Ref, seqs: Sequence[int]) -> dict[int, Where]:
        """Find the positions of lines in their file; see `NamesPlaces.places`."""
        from ...health.lines import places  # only needed to report damage

        try:
            return places(self.path_of(ref), seqs, disk=self._disk)
        except (OSError, LogError):
            return {}

    def examine(self) -> list[Finding]:
        """Return what is wrong with the files under the root; see `Health.examine`."""
        from ...health.doctor import examine  # only needed to look for damage

        return examine(self.root, disk=self._disk) if self._exists() else []

    def repair(self) -> list[Repair]:
        """Repair the files under the root; see `Health.repair`."""
        from ...health.repair import repair  # only needed after damage

        return repair(self.root, disk=self._disk) if self._exists() else []

    def _exists(self) -> bool:
        return stat_if_exists(self._disk, self.root) is not None
