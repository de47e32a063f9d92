"""Who is measured: each module here has a list `PEERS`, and is found by being here."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from ..peer import Peer


def all_peers() -> list[Peer]:
    """Return every peer, those that cannot run here included."""
    found: list[Peer] = []
    for module in pkgutil.iter_modules(__path__):
        found += import_module(f"{__name__}.{module.name}").PEERS
    return found
