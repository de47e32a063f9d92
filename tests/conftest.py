"""Fixtures for all tests: the event loops (which: loops.py), a host, real session files, counts of what is proved."""

import functools
import gc
import importlib
import inspect
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import anyio
import pytest
import structlog
from hypothesis import HealthCheck, settings

from treering import SessionHost

from .bounded import interrupted_after
from .loops import choose_loops
from .sampling import examples

# The same examples in every run, however slow the machine, so that failures can be reproduced. The soak tries more.
settings.register_profile(
    "here", max_examples=examples(40), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("here")

FIGURES = ("kills survived", "crash states checked", "seeds run", "inputs fuzzed", "lines lost")
_tally = pytest.StashKey[Counter[str]]()

WAITS_AT_MOST_S = float(os.environ.get("TREERING_TEST_WAITS_AT_MOST_S", "240"))
"""After so long, a test that still waits for something fails where it waits, and is cleaned up as usual."""
# The shell starts background jobs with SIGINT ignored, and every process that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Warnings are errors in processes that tests start, too: what they leave open shows on their stderr.
os.environ.setdefault("PYTHONWARNINGS", "error")

# `bench` is a folder of programs at the top of the checkout that is not installed. Only for this import: `actors` and
# the other folders beside it must not become importable by their short names.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bench  # noqa: F401

sys.path.pop(0)

gc.disable()  # what is imported and collected is no garbage; `pytest_collection_finish` enables it

TESTS = Path(__file__).resolve().parent
SHARED = Path(__file__).resolve().parents[2] / "shared"

USUALLY_WITHIN_S = 300
"""The `timeout` of pyproject.toml: a test that is given more may take long."""

LEFT_OUT = ("browser", "interop", "soak")
"""Marks of tests that run only if `-m` names the mark."""


def pytest_collection(session: pytest.Session) -> None:
    """Let each worker of a parallel run begin to import elsewhere, so that not each rewrites every module's assertions.

    What it wrote of the bytecode, the others find. A fresh checkout has none.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode or [Path(each).resolve() for each in session.config.args] != [TESTS]:
        return
    modules = sorted(TESTS.glob("*/test_*.py"))
    begin = len(modules) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for module in modules[begin:] + modules[:begin]:
        try:
            importlib.import_module(".".join(module.relative_to(TESTS.parent).with_suffix("").parts))
        except (Exception, pytest.skip.Exception):  # noqa: BLE001, S112
            continue  # its collection tells


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Run one test more than there are processors: many wait for processes, for locks and for the database."""
    return (os.cpu_count() or 1) + 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_loops(metafunc)


@pytest.fixture(scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    backend: tuple[str, dict[str, Any]] = request.param
    return backend


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [mark for mark in LEFT_OUT if mark not in (config.option.markexpr or "")]
    deselected = [item for item in items if any(item.get_closest_marker(mark) for mark in left_out)]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in set(deselected)]
    items.sort(key=_may_take_long, reverse=True)  # begun last, it would keep one processor busy while others are idle


def _may_take_long(item: pytest.Item) -> bool:
    timeout = item.get_closest_marker("timeout")
    return timeout is not None and bool(timeout.args[0] > USUALLY_WITHIN_S)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()  # thousands of collected tests, which each full collection of garbage would look through
    gc.enable()


@pytest.fixture(scope="session")
def scale() -> float:
    """How long the tests marked `soak` go on, as a share of the whole."""
    return float(os.environ.get("SOAK") or 1)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    test = pyfuncitem.obj
    backend = pyfuncitem.funcargs.get("anyio_backend")
    is_virtual = isinstance(backend, tuple) and "clock" in backend[1]  # such a clock passes the bound at once
    if not inspect.iscoroutinefunction(test):
        with _interrupted_if_blocking(pyfuncitem):
            return (yield)
    if not is_virtual and pyfuncitem.get_closest_marker("soak") is None:
        pyfuncitem.obj = _bounded(test)
    return (yield)


def _interrupted_if_blocking(item: pytest.Item) -> AbstractContextManager[None]:
    is_async = inspect.iscoroutinefunction(getattr(item, "obj", None))
    is_long = item.get_closest_marker("soak") is not None or _may_take_long(item)
    return nullcontext() if is_async or is_long else interrupted_after(WAITS_AT_MOST_S)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with _interrupted_if_blocking(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Leave no configuration of structlog to the next test, whose stdout its default would write to.

    `structlog.testing.capture_logs` leaves one: what the library logs goes to structlog from then on.
    """
    try:
        with _interrupted_if_blocking(item):
            return (yield)
    finally:
        if structlog.is_configured():
            structlog.reset_defaults()


def _bounded(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def bounded(**arguments: object) -> None:
        where: BaseException | None = None
        with anyio.move_on_after(WAITS_AT_MOST_S) as scope:
            try:
                await test(**arguments)
            except anyio.get_cancelled_exc_class() as cancelled:
                where = cancelled
                raise
        if scope.cancelled_caught:
            raise AssertionError(f"still waiting after {WAITS_AT_MOST_S:g} seconds") from where

    return bounded


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the sessions, which does not exist yet."""
    return tmp_path / "sessions"


@pytest.fixture
async def host(root: Path) -> AsyncIterator[SessionHost]:
    async with SessionHost(root) as host:
        yield host


@pytest.fixture(scope="session")
def shared_fixtures() -> Path:
    folder = SHARED / "fixtures"
    if not folder.is_dir():
        pytest.skip("the folder of real session files is not here")
    return folder


@pytest.fixture
def tally(pytestconfig: pytest.Config) -> Counter[str]:
    """Counts of what the tests proved, printed at the end of the run; a lost line also fails its test."""
    return _tally_of(pytestconfig)


def _tally_of(config: pytest.Config) -> Counter[str]:
    return config.stash.setdefault(_tally, Counter())


def pytest_sessionfinish(session: pytest.Session) -> None:
    # Set in the workers of a parallel run.
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["tally"] = dict(_tally_of(session.config))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401  # pytest-xdist is optional
    _tally_of(node.config).update(getattr(node, "workeroutput", {}).get("tally", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    tally = _tally_of(config)
    if tally:
        terminalreporter.section("proof")
        for figure in FIGURES:
            terminalreporter.write_line(f"{tally[figure]:>10,} {figure}")
