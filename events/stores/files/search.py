"""The search index of a root: `search.db` beside the logs.

A folder in the root may itself be the root of another host, whose index may hold a copy of what a session says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from ...telemetry import logger
from ..base import Ref
from ..search import IndexUnavailable
from ..search_database import SearchFile
from ..search_index import SearchIndex

NAME = "search.db"
"""The name of the file in a folder of logs."""


class FileSearch(SearchIndex):
    """The search index of a root.

    Args:
        root: The real path of the root.
        inner_roots: Returns the folders between a log and the root, and the log's name in each.
    """

    def __init__(self, root: str, inner_roots: Callable[[Ref], Sequence[tuple[str, Ref]]]) -> None:
        super().__init__(SearchFile(os.path.join(root, NAME)))
        self._inner_roots = inner_roots

    def forget(self, ref: Ref) -> None:
        """Remove the texts of a log from the index of the root, and from those of the folders in between."""
        for folder, inner in self._inner_roots(ref):
            index = SearchIndex(SearchFile(os.path.join(folder, NAME)))
            try:
                index.forget(inner)
            except IndexUnavailable as error:
                logger().warning("search_index_unavailable", why=str(error))
            finally:
                index.close()
        super().forget(ref)
