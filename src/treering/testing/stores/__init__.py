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

A store is tested for what every store promises, and for each capability that it declares; the tests of the others are
skipped.

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
_PARTS = "case appending capabilities catalog finding neighbours ownership reading rewriting watching"
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS.split()))

from .appending import Appending, Pressure  # must follow the registration above
from .capabilities import (
    AppendingAtOnce,
    Declaring,
    Examining,
    Leasing,
    LookingAtOnce,
    NamingPlaces,
    Packing,
    Recovering,
    RemovingDamaged,
    TryingToWrite,
)
from .case import StoreCase
from .catalog import FindingTexts, KeepingRows
from .finding import FindingRows
from .neighbours import Mailing, Neighbouring
from .ownership import Ownership
from .reading import Listing, Reading
from .rewriting import Keeping, Rewriting
from .watching import Scanning, Watching

__all__ = ["StoreCase", "StoreSuite"]


class StoreSuite(
    Ownership,
    Appending,
    Reading,
    Keeping,
    Rewriting,
    Listing,
    Pressure,
    # of what a store declares
    Declaring,
    AppendingAtOnce,
    Examining,
    FindingRows,
    FindingTexts,
    KeepingRows,
    Leasing,
    LookingAtOnce,
    Mailing,
    NamingPlaces,
    Neighbouring,
    Packing,
    Recovering,
    RemovingDamaged,
    Scanning,
    TryingToWrite,
    Watching,
):
    """Tests for everything that a store promises; see the module for how to use it."""
