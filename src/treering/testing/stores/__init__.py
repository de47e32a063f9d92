"""The conformance suite of stores: whoever passes it can stand behind a host.

Derive a class, say how a store is made, and pytest finds the tests in it::

    import pytest
    from treering.testing.stores import StoreSuite

    class TestMyStore(StoreSuite):
        @pytest.fixture(autouse=True)
        def _folder(self, tmp_path):
            self.folder = tmp_path

        async def make_store(self):
            return MyStore(self.folder)

        async def another_host(self, store):
            return MyStore(self.folder)

`make_store` alone is needed, and makes a store that holds no log. `another_host` makes a second store object on the same
data, as another process would have it; without it the tests that need two hosts are skipped, and `reopen` with them.

The tests are async and carry the mark of anyio's pytest plugin. They run on the backends that your `anyio_backend`
fixture names, by default all that are installed. None of them sleeps; a wake-up that does not come fails after
`patience_s` seconds, an attribute of the class.

Each group of promises has a file; only tests and what they share enter this room.
"""

from __future__ import annotations

import pytest

# A failing assertion shall show its values in other people's projects too, and pytest rewrites only what it is told of.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in (
            "case",
            "appending",
            "keeping",
            "listing",
            "ownership",
            "packing",
            "pressure",
            "reading",
            "rewriting",
            "watching",
        )
    )
)

from .appending import Appending  # after the line above, or it would come too late
from .case import StoreCase
from .keeping import Keeping
from .listing import Listing
from .ownership import Ownership
from .packing import Packing
from .pressure import Pressure
from .reading import Reading
from .rewriting import Rewriting
from .watching import Watching

__all__ = ["StoreCase", "StoreSuite"]


class StoreSuite(Ownership, Appending, Reading, Keeping, Rewriting, Packing, Listing, Watching, Pressure):
    """All that the protocol promises, as tests; see the module for how to use it."""
