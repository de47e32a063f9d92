"""What every test may ask for: the three event loops, and the folder of real session files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, however busy the machine: a test that fails once fails always. The soak looks further.
settings.register_profile("here", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(
            ("asyncio", {"use_uvloop": True}),
            id="uvloop",
            marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop does not run here"),
        ),
        pytest.param(("trio", {}), id="trio"),
    ],
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    backend: tuple[str, dict[str, Any]] = request.param
    return backend


@pytest.fixture(scope="session")
def shared_fixtures() -> Path:
    folder = SHARED / "fixtures"
    if not folder.is_dir():
        pytest.skip("the folder of real session files is not here")
    return folder
