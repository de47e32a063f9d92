"""The store suite catches a store that declares what it does not do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from anyio.lowlevel import checkpoint
from treering.testing.stores.capabilities import Declaring

from treering import FileStore, MemoryStore
from treering.events.disk import FileStat
from treering.events.stores.base import Append, Outcome, Ref
from treering.events.stores.memory import MemoryPeek


class NeverAtOnce(MemoryStore):
    def try_append(self, append: Append) -> Outcome | None:  # type: ignore[override]  # like a remote store
        return None

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        await checkpoint()
        return [super(NeverAtOnce, self).try_append(each) for each in appends]


class LooksAtTheFirstLook(MemoryStore):
    def peek(self, ref: Ref) -> MemoryPeek:
        return super().peek("a") if ref == "b" else super().peek(ref)


class ScansOnce(FileStore):
    _scanned: dict[Ref, FileStat] | None = None

    def scan(self) -> dict[Ref, FileStat]:
        self._scanned = self._scanned or super().scan()
        return self._scanned


class Suite(Declaring):
    patience_s = 0.05


class OfFiles(Declaring):
    def ref(self, name: str) -> Ref:
        return name + ".jsonl"


async def test_a_store_that_never_appends_at_once() -> None:
    with pytest.raises(TimeoutError):
        await Suite().test_a_store_that_appends_at_once_does_so_in_time(NeverAtOnce())


async def test_a_store_that_finds_what_does_not_exist() -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        await Suite().test_a_look_at_once_shows_what_a_read_does(LooksAtTheFirstLook())


async def test_a_store_whose_scan_is_old(tmp_path: Path) -> None:
    store = ScansOnce(tmp_path)
    with pytest.raises(AssertionError):
        await OfFiles().test_a_scan_holds_every_log_and_its_stamps_change_with_the_logs(store)
    await store.aclose()
