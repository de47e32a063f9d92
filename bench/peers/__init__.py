"""The peers: each module in this package has a list `PEERS` and is discovered by being here."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from ..peer import Peer


def all_peers() -> list[Peer]:
    """Return all peers, including those that cannot run here."""
    peers: list[Peer] = []
    for module in pkgutil.iter_modules(__path__):
        peers += import_module(f"{__name__}.{module.name}").PEERS
    return peers
