"""What hangs in a shielded scope, or loops without end, fails here as in the tests of the stores."""

from tests.stores.conftest import ends

__all__ = ["ends"]
