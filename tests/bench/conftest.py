"""Makes `bench` importable, which is a folder of programs at the top of the checkout and is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

# Only while the package is found: `actors` and the others beside it must not become importable by their short names.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import bench  # noqa: F401

sys.path.pop(0)
