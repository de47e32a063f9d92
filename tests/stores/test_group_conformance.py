"""The store that flushes for many tasks at once passes the published suite on two loops."""

import pytest

from treering.events.stores.base import Store
from treering.events.stores.files import FileStore

from . import test_conformance


@pytest.mark.feature("X-29")
class TestGroupStore(test_conformance.TestFileStore):
    async def make_store(self) -> Store:
        return FileStore(self.folder, durability="group")
