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

# A room about tasks: actors, their mailboxes and their turns.
ON_THREE = {"actors"}
# Rooms of tasks that wait for threads and files beside each other: turns of agents, feeds that are followed, locks.
# Every other room (sessions alone, formats, folds, contexts, pages, commands) runs once.
ON_TWO = {"agents", "following", "stores"}

EXCEPTIONS = {
    # More often than their folder.
    "agents/test_cancelling.py": THREE,
    "building/test_compaction.py": TWO,  # a compaction beside appends, and one that is cancelled
    "catalog/test_current.py": TWO,  # hosts that end while others ask
    "following/test_entries.py": THREE,  # in which order a feed and its writer take turns
    "keeping/test_archiving.py": TWO,  # archiving beside readers
    "keyed/test_concurrency.py": TWO,
    "models/test_answers.py": TWO,  # streams that are left early
    "models/test_failures.py": TWO,  # servers that fall silent, timeouts, cancelled calls
    "programs/test_mirror.py": TWO,  # a host that fills while others ask
    "programs/test_sessions.py": TWO,  # calls that are cancelled while a thread listens
    "search/test_index_freshness.py": TWO,  # searches beside appends
    "sessions/test_appending.py": TWO,  # appends of several tasks, and cancelled ones
    "sessions/test_failing_writes.py": TWO,  # what a thread answers that failed
    "sessions/test_lifecycle.py": TWO,  # handles and hosts that end
    "stores/test_appends_together.py": THREE,  # appends of many tasks in one flush
    "stores/test_offload.py": THREE,  # work in threads, and who leaves it
    # Once although their folder does not.
    "actors/test_batches.py": ONE,  # a log cut at each byte
    "actors/test_conditions.py": ONE,  # refusals
    "actors/test_determinism.py": ONE,  # bytes
    "actors/test_idempotence.py": ONE,  # but for what many tasks send at once
    "actors/test_outcomes.py": ONE,  # what a store answers
    "actors/test_refused_projections.py": ONE,
    "agents/test_compacting.py": ONE,  # what is sent after a compaction
    "agents/test_documentation.py": ONE,
    "agents/test_requests.py": ONE,  # what a request holds, and models for tests
    "agents/test_writing.py": ONE,  # which lines a turn writes
    "agents/test_wrong_arguments.py": ONE,  # refusals
    "following/test_json.py": ONE,
    "following/test_leaf_moves.py": ONE,
    "following/test_replicas.py": ONE,  # a fold of changes
    "stores/test_backups.py": ONE,
    "stores/test_busy_logs.py": ONE,  # which of two waiting tasks comes first, which trio leaves to chance
    "stores/test_capabilities.py": ONE,
    "stores/test_conformance.py": ONE,  # on two loops: test_group_conformance.py
    "stores/test_copying.py": ONE,
    "stores/test_declaring.py": ONE,
    "stores/test_disk_faults.py": ONE,  # every operation fails once; the lines that mend it await nothing else
    "stores/test_earlier_roots.py": ONE,  # what earlier versions left
    "stores/test_failing_calls.py": ONE,  # each disk call fails once
    "stores/test_file_store.py": ONE,  # names, modes and bytes of files
    "stores/test_foreign_programs.py": ONE,  # what other programs leave
    "stores/test_journal.py": ONE,  # replays, crash by crash
    "stores/test_memory_store.py": ONE,
    "stores/test_migration.py": ONE,
    "stores/test_opening.py": ONE,
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
