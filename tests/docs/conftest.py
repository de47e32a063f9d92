"""Makes `docs.api_page` importable: the generator of a page, which stands beside it and is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

# Only for this import: `actors` and the other folders beside it must not become importable by their short names.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import docs.api_page  # noqa: F401

sys.path.pop(0)
