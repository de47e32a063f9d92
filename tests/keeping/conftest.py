"""The bound of the tests of stores: what loops without end over the pieces of a packed file fails; another host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread

from tests.stores.conftest import ends

from treering import SyncHost

__all__ = ["ends"]


def in_another_thread(root: Path, act: Callable[[SyncHost], None]) -> None:
    def run() -> None:
        with SyncHost(root) as other:
            act(other)

    thread = Thread(target=run)
    thread.start()
    thread.join()
