"""The conformance suite for stores: a store that passes it can serve a host.

Derive a class, define how to create a store, and pytest collects the tests::

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

Only `make_store` is required; it creates a store without logs. `another_host` creates a second store object on the same
data, as another process would; without it, the tests that need two hosts or `reopen` are skipped.

The tests are async and marked for anyio's pytest plugin. They run on the backends of your `anyio_backend` fixture, by
default on all that are installed. None of them sleeps; a wake-up that does not arrive fails the test after `patience_s`
seconds, an attribute of the class.

Each group of promises has its own module; this package contains only tests and what they share.
"""

from __future__ import annotations

import pytest

# Makes failing assertions show their values in other projects, too: pytest rewrites only registered modules.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in (
            "case",
            "appending",
            "declaring",
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

from .appending import (
    Appending,  # must follow the registration above
    Pressure,
)
from .capabilities import Declaring, Packing
from .case import StoreCase
from .ownership import Ownership
from .reading import Listing, Reading
from .rewriting import Keeping, Rewriting
from .watching import Watching

__all__ = ["StoreCase", "StoreSuite"]


class StoreSuite(Ownership, Appending, Reading, Keeping, Rewriting, Packing, Declaring, Listing, Watching, Pressure):
    """Tests for everything that the store protocol promises; see the module for how to use it."""
