"""Each async test runs on the loops that tests/loops.py names for its module, and on no others."""

import inspect
from collections import defaultdict

import pytest

from .loops import EXCEPTIONS, ON_THREE, ON_TWO, TESTS, THREE, loops_of


@pytest.mark.feature("X-1")
def test_every_async_test_runs_on_the_loops_of_its_module(request: pytest.FixtureRequest) -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    expected: dict[str, set[str]] = {}
    for item in request.session.items:
        if not isinstance(item, pytest.Function) or not inspect.iscoroutinefunction(inspect.unwrap(item.function)):
            continue
        chosen = any("anyio_backend" in mark.args[0] for mark in item.iter_markers("parametrize"))
        if chosen or hasattr(item.module, "anyio_backend") or "anyio_backend" not in item.fixturenames:
            continue  # it chooses its loops itself
        test = item.nodeid.partition("[")[0]
        found[test].add(next(str(loop.id) for loop in THREE if loop.values[0] == item.callspec.params["anyio_backend"]))
        expected[test] = {str(loop.id) for loop in loops_of(item.path)}
    if request.config.option.keyword or any("::" in arg for arg in request.config.args):
        pytest.skip("some tests were left out")
    assert found == expected


def test_the_room_about_tasks_runs_on_three_loops() -> None:
    assert "actors" in ON_THREE
    for room in ("actors/test_mailbox.py", "actors/test_cancellation.py", "stores/test_offload.py"):
        assert [each.id for each in loops_of(TESTS / room)] == ["asyncio", "uvloop", "trio"]
    of_rooms = {**dict.fromkeys(ON_THREE, 3), **dict.fromkeys(ON_TWO, 2)}
    needless = [name for name, loops in EXCEPTIONS.items() if len(loops) == of_rooms.get(name.split("/")[0], 1)]
    assert needless == [], "these do what their folder does"
