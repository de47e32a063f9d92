"""The scenarios: each module in this package has a list `SCENARIOS` and is discovered by being here."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from ..scenario import Scenario


def all_scenarios() -> list[Scenario]:
    """Return all scenarios, in the order of their modules' names."""
    scenarios: list[Scenario] = []
    for module in pkgutil.iter_modules(__path__):
        scenarios += import_module(f"{__name__}.{module.name}").SCENARIOS
    return scenarios
