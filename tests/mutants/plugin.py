"""What a run of pytest does for the mutants: records which faults each test meets, or tries each fault in a fork.

The jobs of a run and what came of them are lines of JSON in files that the environment names.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol

from treering import _planted  # type: ignore[attr-defined]  # only the tree with faults has it

AT_ONCE = 2  # how many faults are tried at the same time
HANGS_AFTER_S = 40  # and ten times what a test takes; an async one that waits fails by itself before
ALL_WELL, NOTICED = 0, 1  # how a fork ends


class Recorder:
    """Writes for each test its outcome, how long it took, and which faults it and its child processes met."""

    def __init__(self, folder: Path) -> None:
        self._output = (folder / f"{os.getpid()}.jsonl").open("a")
        self._from_children = folder / f"{os.getpid()}.seen"
        self._passed = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._from_children.write_bytes(b"")
        os.environ["TREERING_FAULTS_SEEN"] = str(self._from_children)
        seen = _planted.record()
        self._passed = True
        began = time.perf_counter()
        result = yield
        seconds = round(time.perf_counter() - began, 4)
        seen |= {int(line) for line in self._from_children.read_bytes().split()}
        record = {"test": item.nodeid, "passed": self._passed, "seconds": seconds, "faults": sorted(seen)}
        self._output.write(json.dumps(record) + "\n")
        self._output.flush()
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._passed = self._passed and not report.failed and not (report.skipped and report.when == "setup")


class Trier:
    """Tries the faults that it is given, each in a fork of this process, which has imported and collected all tests."""

    def __init__(self, jobs: Path, results: Path) -> None:
        self._jobs = [json.loads(line) for line in jobs.read_text().splitlines()]
        self._results = results.open("a")
        self._noticed: Counter[str] = Counter()  # how many faults, by test

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        waiting = iter(self._jobs)
        running: dict[int, tuple[dict[str, Any], float, Path]] = {}
        while True:
            while len(running) < AT_ONCE and (job := next(waiting, None)) is not None:
                job["tests"] = self._ordered(job["tests"])
                folder = Path(tempfile.mkdtemp(prefix="mutant-"))
                pid = os.fork()
                if pid == 0:
                    _try(job, items, folder)
                running[pid] = job, time.monotonic(), folder
            if not running:
                return True
            pid, status = os.wait()
            job, began, folder = running.pop(pid)
            with contextlib.suppress(ProcessLookupError):  # child processes that it left
                os.killpg(pid, signal.SIGKILL)
            self._take(job, status, time.monotonic() - began, folder)
            shutil.rmtree(folder, ignore_errors=True)

    def _ordered(self, tests: list[list[Any]]) -> list[list[Any]]:
        """Put first what is likely to notice the fault soon: the more so, the more faults of this run it noticed."""
        return sorted(tests, key=lambda test: -test[2] * (1 + self._noticed[test[0]]))

    def _take(self, job: dict[str, Any], status: int, seconds: float, folder: Path) -> None:
        running = folder / "running"
        test = running.read_text() if running.exists() else ""
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            outcome = "hung"
        elif status == ALL_WELL:
            outcome, test = "unnoticed", ""
        else:  # by a failed test, or the process died
            outcome = "noticed"
            self._noticed[test] += 1
        result = {"number": job["number"], "outcome": outcome, "test": test, "seconds": round(seconds, 2)}
        self._results.write(json.dumps(result) + "\n")
        self._results.flush()


def _try(job: dict[str, Any], items: dict[str, pytest.Item], folder: Path) -> NoReturn:
    os.setpgid(0, 0)
    for output in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
    _planted.choose(job["number"])
    began = time.monotonic()
    tests = [(items[name], seconds) for name, seconds, _ in job["tests"] if name in items]
    following = [*(item for item, _ in tests[1:]), None]
    for (item, usual_s), next_item in zip(tests, following, strict=True):
        if time.monotonic() - began > job["most_s"]:
            break
        (folder / "running").write_text(item.nodeid)
        signal.alarm(int(HANGS_AFTER_S + 10 * usual_s))  # nobody handles it: it ends the process
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=next_item)):
            os._exit(NOTICED)
    os._exit(ALL_WELL)


def pytest_configure(config: pytest.Config) -> None:
    if "MUTANTS_RECORD" in os.environ:
        if hasattr(config, "workerinput"):  # the process that distributes the tests runs none
            config.pluginmanager.register(Recorder(Path(os.environ["MUTANTS_RECORD"])))
    elif "MUTANTS_JOBS" in os.environ:
        config.pluginmanager.register(Trier(Path(os.environ["MUTANTS_JOBS"]), Path(os.environ["MUTANTS_RESULTS"])))
