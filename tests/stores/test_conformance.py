"""The stores that come with treering pass the published suite, and broken stores fail it."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from treering.events.stores.base import Ref, Store
from treering.events.stores.files import FileStore
from treering.events.stores.memory import MemoryStore
from treering.events.stores.shelf import Shelf
from treering.testing.stores import StoreSuite

from .finding_store import FindingStore

BROKEN = Path(__file__).with_name("broken_stores.py")
CAUGHT_BY = {
    "LosesTheLastLine": "test_seqs_continue_across_appends",
    "IgnoresTheHead": "test_an_outdated_head_is_fenced_and_writes_nothing",
    "ForgetsFencing": "test_a_lost_lease_is_fenced_before_its_heir_writes",
    "ForgetsFencingWhenTried": "test_trying_is_fenced_like_appending",
    "ForgetsFencingOfBlobs": "test_a_lost_lease_saves_nothing",
    "ForgetsFencingOfRemovals": "test_a_lost_lease_removes_nothing",
    "AdmitsASecondOwner": "test_a_second_owner_is_refused_until_the_first_lets_go",
    "FailsTheNeighbours": "test_a_log_that_fails_does_not_fail_its_neighbours",
    "TearsWhenCancelled": "test_an_append_whose_caller_leaves_is_carried_out_whole",
    "SkipsALine": "test_pages_follow_each_other_without_a_gap",
    "ReordersBodies": "test_bodies_come_in_the_order_asked_for",
    "AcceptsOldCursors": "test_a_cursor_into_the_replaced_log_is_refused",
    "ListsBackwards": "test_logs_come_in_the_order_of_their_names",
    "WatchesTooLate": "test_a_change_after_the_call_wakes",
}
"""The test that must fail for each broken store; other tests may fail as well."""


@pytest.mark.feature("X-29", "D-40")
class TestMemoryStore(StoreSuite):
    async def make_store(self) -> Store:
        return MemoryStore()


@pytest.mark.feature("X-29")
class TestFindingStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _shelf(self) -> None:
        self.shelf = Shelf()

    async def make_store(self) -> Store:
        return FindingStore(self.shelf)

    async def another_host(self, store: Store) -> Store:
        return FindingStore(self.shelf)


@pytest.mark.feature("X-29", "D-40")
class TestFileStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "sessions"

    async def make_store(self) -> Store:
        return FileStore(self.folder)

    async def another_host(self, store: Store) -> Store:
        return await self.make_store()

    def ref(self, name: str) -> Ref:
        return f"{name}.jsonl"


@pytest.mark.feature("X-29")
def test_the_suite_fails_for_each_broken_store_and_passes_for_a_sound_one(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    chosen = [f"{BROKEN}::TestSound", *(f"{BROKEN}::Test{store}::{test}" for store, test in CAUGHT_BY.items())]
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-k", "asyncio", f"--junitxml={report}", *chosen]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == pytest.ExitCode.TESTS_FAILED, outcome.stdout + outcome.stderr
    failed: set[tuple[str, str]] = set()
    passed: set[tuple[str, str]] = set()
    for case in ElementTree.parse(report).iter("testcase"):
        test = case.attrib["classname"].rpartition(".Test")[2], case.attrib["name"].partition("[")[0]
        assert case.find("error") is None, test
        (passed if case.find("failure") is None else failed).add(test)
    assert failed == set(CAUGHT_BY.items())
    assert {("Sound", test) for test in CAUGHT_BY.values()} <= passed
