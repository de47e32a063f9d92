"""Imports the example of a store: `examples` is a folder of programs, neither installed nor importable."""

import sys
from pathlib import Path

# Only for this import: `actors` and the other folders beside it must not become importable by their short names.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from examples.sqlite_store import SqliteStore

sys.path.pop(0)

__all__ = ["SqliteStore"]
