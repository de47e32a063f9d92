"""The folders under a root that nobody lets us list: what lies in them is passed over, and each is told of once."""

from __future__ import annotations

from ...telemetry import logger


class UnreadableFolders:
    """Remembers which folders of a root were told of."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def pass_over(self, folder: str, error: PermissionError) -> None:
        """Tell of a folder, the first time."""
        if folder not in self._told:
            self._told.add(folder)
            logger().warning("folder_unreadable", path=folder, why=error.strerror or str(error))
