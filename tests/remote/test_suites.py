"""The library's own suites, through a remote host over a real server; see `over_server`."""

from pathlib import Path

import pytest
from tests.stores.suites import run_tests

PLUGIN = Path(__file__).with_name("over_server.py")
PASSED_MIN = 500
"""How many tests pass at least: those that are skipped look into files, disks or the host's own process."""
REPLICAS = "tests/following/test_replicas.py::test_"
SUITES = (
    "tests/actors/test_idempotence.py",
    *(
        f"tests/sessions/test_{name}.py"
        for name in (
            "appending",
            "branching",
            "compaction",
            "deleted_sessions",
            "forking",
            "invalid_input",  # which errors, with which words
            "labels",
            "lifecycle",
            "reading",
            "whole_sessions",
            "working_directory",
        )
    ),
    *(f"tests/keyed/test_{name}.py" for name in ("concurrency", "keyed_sessions", "patterns")),
    *(f"tests/following/test_{name}.py" for name in ("entries", "json", "leaf_moves", "shared_views", "transients")),
    f"{REPLICAS}the_changes_of_a_tree_have_a_class_for_each_kind_of_change[asyncio]",
    f"{REPLICAS}a_replica_of_the_context_equals_the_view_at_every_seq[asyncio-0]",
    f"{REPLICAS}replicas_of_the_tree_and_the_labels_equal_the_views_at_every_seq[asyncio-1-5]",
    f"{REPLICAS}a_replica_of_the_listing_equals_the_view_at_every_step[asyncio-0]",
)
"""All suites of a session, of commands that are repeated, of refusals and of subscriptions. Those that are left out are
about what a program sees of its own files, disks and processes, or run the same calls many times over."""
IDEMPOTENCE, LEAF_MOVES = "tests/actors/test_idempotence.py::test_", "tests/following/test_leaf_moves.py::test_"
SHORT = (
    f"{IDEMPOTENCE}a_repeated_command_returns_its_id_and_appends_nothing[asyncio-compaction-native]",
    f"{IDEMPOTENCE}a_command_that_many_tasks_send_at_once_is_carried_out_once[inline-asyncio]",
    f"{LEAF_MOVES}a_move_says_where_and_when_and_views_refuse_to_be_asked[asyncio]",
    f"{REPLICAS}the_changes_of_a_tree_have_a_class_for_each_kind_of_change[asyncio]",
    "tests/sessions/test_labels.py::test_labels_are_listed_in_path_order[asyncio]",
    "tests/sessions/test_invalid_input.py::test_below_nothing_there_is_no_entry_to_edit_or_to_keep[asyncio]",
    "tests/following/test_entries.py::test_a_cancelled_wait_loses_no_entry[memory-asyncio]",
)


def test_some_of_the_suites_pass_over_a_server() -> None:
    assert run_tests(PLUGIN, *SHORT) == {"passed": len(SHORT)}


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.feature("S-20")
def test_the_suites_pass_over_a_server() -> None:
    ends = run_tests(PLUGIN, *SUITES, "-n", "2", "-k", "asyncio and not uvloop", within_s=None)
    assert ends["passed"] > PASSED_MIN
