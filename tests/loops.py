"""Which tests run on the three event loops, which on two of them, and which once.

The library reaches the loop through anyio alone, so that most of it cannot tell one loop from another. What can: the
order in which tasks take turns, cancellation (an asyncio task is told once, a trio task at each checkpoint; uvloop
calls its callbacks in another order than asyncio), threads that answer a loop, clocks, and the life of task groups. A
test whose subject has to do with these runs on asyncio, uvloop and trio. Where tasks wait for threads, locks and files
more than for each other, the order in which a loop calls back decides nothing, so asyncio and trio suffice: they differ
in cancellation, and in how a thread answers. A test whose subject is pure, or one file
format, or what a refusal says, runs once, on asyncio: the other loops would carry it through the same lines.

A folder decides for its modules; `EXCEPTIONS` are the modules that differ from their folder. A module whose subject is
one loop (virtual time, how asyncio cancels) defines a fixture `anyio_backend` of its own, and a test may choose its
loops by `parametrize`; both are left alone.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent

ASYNCIO = pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio")
UVLOOP = pytest.param(
    ("asyncio", {"use_uvloop": True}),
    id="uvloop",
    marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop does not run here"),
)
TRIO = pytest.param(("trio", {}), id="trio")
ONE: list[pytest.ParameterSet] = [ASYNCIO]
TWO: list[pytest.ParameterSet] = [ASYNCIO, TRIO]
THREE: list[pytest.ParameterSet] = [ASYNCIO, UVLOOP, TRIO]

# Rooms about tasks: actors and their mailboxes, turns of agents, feeds that are followed.
ON_THREE = {"actors", "agents", "following"}
# Rooms about files beside tasks: archiving beside readers, locks and work in threads. Every other room (formats, folds,
# contexts, pages, commands) runs once.
ON_TWO = {"keeping", "keyed", "sessions", "stores"}

EXCEPTIONS = {
    # More often than their folder.
    "building/test_compaction.py": THREE,  # a compaction beside appends, and one that is cancelled
    "catalog/test_current.py": TWO,  # hosts that end while others ask
    "catalog/test_index.py": TWO,  # the index is read and written in threads
    "importing/test_growing_files.py": TWO,  # a file is followed while another program writes
    "models/test_answers.py": THREE,  # streams that are left early
    "models/test_failures.py": THREE,  # servers that fall silent, timeouts, cancelled calls
    "postgres/test_store.py": TWO,  # statements are sent by threads
    "search/test_index_freshness.py": TWO,  # searches beside appends
    "stores/test_appends_together.py": THREE,  # appends of many tasks in one flush
    "stores/test_conformance.py": THREE,
    "stores/test_offload.py": THREE,  # work in threads, and who leaves it
    # Once although their folder does not.
    "actors/test_batches.py": ONE,  # a log cut at each byte
    "actors/test_outcomes.py": ONE,  # what a store answers
    "agents/test_compacting.py": ONE,  # what is sent after a compaction
    "agents/test_documentation.py": ONE,
    "agents/test_requests.py": ONE,  # what a request holds, and models for tests
    "agents/test_writing.py": ONE,  # which lines a turn writes
    "stores/test_busy_logs.py": ONE,  # which of two waiting tasks comes first, which trio leaves to chance
    "agents/test_wrong_arguments.py": ONE,  # refusals
    "following/test_json.py": ONE,
    "following/test_replicas.py": ONE,  # a fold of changes
    "keeping/test_packed_files.py": ONE,  # a file format
    "keeping/test_retention.py": ONE,  # a rule about times
    "keeping/test_unarchiving.py": ONE,
    "keyed/test_costs.py": ONE,  # counts of reads
    "keyed/test_patterns.py": ONE,
    "keyed/test_truncating.py": ONE,  # which messages a history keeps
    "sessions/test_append_only.py": ONE,  # bytes before and after
    "sessions/test_branching.py": ONE,
    "sessions/test_compaction.py": ONE,
    "sessions/test_damaged_files.py": ONE,
    "sessions/test_format.py": ONE,
    "sessions/test_invalid_input.py": ONE,  # refusals
    "sessions/test_labels.py": ONE,
    "sessions/test_two_processes.py": ONE,  # what two processes see of one lock
    "sessions/test_unwritable_roots.py": ONE,  # refusals
    "sessions/test_working_directory.py": ONE,
    "stores/test_backups.py": ONE,
    "stores/test_disk_faults.py": ONE,  # every operation fails once; the lines that mend it await nothing else
    "stores/test_failing_calls.py": ONE,  # each disk call fails once
    "stores/test_file_store.py": ONE,  # names, modes and bytes of files
    "stores/test_foreign_programs.py": ONE,  # what other programs leave
    "stores/test_journal.py": ONE,  # replays, crash by crash
    "stores/test_migration.py": ONE,
    "stores/test_restoration.py": ONE,  # states of files
    "stores/test_snapshots.py": ONE,  # a side file's bytes
    "stores/test_torn_tails.py": ONE,  # crash states
}

if unknown := [name for name in EXCEPTIONS if not (TESTS / name).is_file()]:
    raise FileNotFoundError(f"tests/loops.py names modules that are not there: {', '.join(unknown)}")


def loops_of(module: Path) -> list[pytest.ParameterSet]:
    """The loops that the async tests of a module run on."""
    path = module.relative_to(TESTS)
    room = path.parts[0]
    return EXCEPTIONS.get(path.as_posix(), THREE if room in ON_THREE else TWO if room in ON_TWO else ONE)


def choose_loops(metafunc: pytest.Metafunc) -> None:
    """Give an async test its loops, unless it, or its module, has chosen them."""
    chosen = any("anyio_backend" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "anyio_backend" in metafunc.fixturenames and not chosen and not hasattr(metafunc.module, "anyio_backend"):
        loops = loops_of(metafunc.definition.path)
        metafunc.parametrize("anyio_backend", loops, indirect=True, scope="module")
