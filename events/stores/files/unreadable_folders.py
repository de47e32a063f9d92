"""The folders under a root that we are not permitted to list: they are skipped, and each is logged once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ...telemetry import logger

T = TypeVar("T")


class UnreadableFolders:
    """The unreadable folders of a root that were logged already."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def list_folder(self, folder: str, list_entries: Callable[[str], Sequence[T]], *, is_root: bool) -> Sequence[T]:
        """Return the entries of a folder; nothing if it does not exist, is not a folder, or may not be listed.

        Args:
            folder: The folder. If it may not be listed, this is logged the first time.
            list_entries: Lists it.
            is_root: Whether it is the root, which must not be skipped.

        Raises:
            PermissionError: The root may not be listed.
            OSError: The folder cannot be listed for another reason.
        """
        try:
            return list_entries(folder)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except PermissionError as error:
            if is_root:
                raise
            if folder not in self._logged:
                self._logged.add(folder)
                logger().warning("folder_unreadable", path=folder, why=error.strerror or str(error))
            return ()
