"""The folders under a root that nobody lets us list: what lies in them is passed over, and each is told of once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ...telemetry import logger

T = TypeVar("T")


class UnreadableFolders:
    """Remembers which folders of a root were told of."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def look_into(self, folder: str, look: Callable[[str], Sequence[T]], *, is_root: bool) -> Sequence[T]:
        """Return what a look into a folder finds: nothing where it is none, is gone, or may not be listed.

        Args:
            folder: The folder; the first time that it may not be listed, that is told.
            look: Lists it.
            is_root: It is the root, of which nobody can pass over anything.

        Raises:
            PermissionError: The root may not be listed.
            OSError: The folder cannot be listed for another reason.
        """
        try:
            return look(folder)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except PermissionError as error:
            if is_root:
                raise
            if folder not in self._told:
                self._told.add(folder)
                logger().warning("folder_unreadable", path=folder, why=error.strerror or str(error))
            return ()
