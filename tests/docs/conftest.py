"""Makes the programs beside the pages importable, and those of `bench`: they are not installed."""

import sys
from pathlib import Path

# Only for this import: `actors` and the other folders beside it must not become importable by their short names.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import bench.__main__  # noqa: F401
import docs.picture  # noqa: F401

sys.path.pop(0)
