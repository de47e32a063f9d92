"""What is measured: each module here has a list `SCENARIOS`, and is found by being here."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from ..scenario import Scenario


def all_scenarios() -> list[Scenario]:
    """Return every scenario, in the order of their modules' names."""
    found: list[Scenario] = []
    for module in pkgutil.iter_modules(__path__):
        found += import_module(f"{__name__}.{module.name}").SCENARIOS
    return found
