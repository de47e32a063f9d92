"""Frameworks: what each one's own store and treering's adapter for it cost, side by side.

A framework is a file in this package with a list `PEERS`: its own store, and then the adapter, both as `bench.adapters.
side.Side`. Both run in the framework's environment, each measurement in a fresh process, in rounds that alternate.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from .side import Side


def all_pairs() -> dict[str, tuple[Side, Side]]:
    """Return each framework's own store and the adapter for it, by the framework's name."""
    pairs: dict[str, tuple[Side, Side]] = {}
    for module in pkgutil.iter_modules(__path__):
        peers = getattr(import_module(f"{__name__}.{module.name}"), "PEERS", None)
        if peers is not None:
            theirs, ours = peers
            pairs[ours.framework] = (theirs, ours)
    return pairs
