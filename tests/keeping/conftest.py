"""The bound of the tests of stores: what loops without end over the pieces of a packed file fails."""

from __future__ import annotations

from tests.stores.conftest import ends

__all__ = ["ends"]
