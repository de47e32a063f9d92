"""A plugin that runs the library's own tests over stores other than files: `pytest -p over_stores`.

A host that is given a folder keeps its sessions in another store, and the hosts of one folder in the same one. The
variable `TREERING_TEST_STORE` chooses it; `TREERING_TEST_PART`, such as "3/20", one of so many parts. This is the one
place that says which tests take part:

- all async tests of the `ROOMS` of a store, on asyncio: what a loop can change, they show over files;
- but those that look at files or at a folder themselves (`ABOUT_FILES` in their code), or that choose a disk, an
  offload, a durability or where to write: their subject is the store of files;
- and but those of `LEFT_OUT`, for the reason that stands there.
"""

from __future__ import annotations

import atexit
import hashlib
import inspect
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from treering.actors.host import host
from treering.events.disk import OsDisk
from treering.events.offload import ThreadOffload
from treering.events.stores.base import Store
from treering.events.stores.memory import MemoryStore
from treering.events.stores.shelf import Shelf

if TYPE_CHECKING:
    from treering.stores.postgres.local_server import LocalServer

ROOMS = {
    "memory": ("sessions", "following", "catalog", "search", "keyed", "keeping", "importing", "exporting"),
    "finding": ("catalog", "keeping", "search"),
    "sqlite": ("sessions", "following", "catalog", "search", "keyed"),
    "postgres": ("sessions", "following", "catalog", "search", "keyed", "keeping", "importing", "exporting"),
}

"""The folders of tests, by store."""

ABOUT_FILES = re.compile(
    r"ActsBeforeCall|Disk\b|FileStore|Changes\.scan|_bytes\b|_text\(|another_process|chdir|exists\(|file_lines|file_path|glob\(|header\(|index_path|is_dir"
    r"|is_file|iterdir|\.jsonl|lines_of|listdir|load_odd|mkdir|open\(|\.path\b|\bread\(|rename|stat\(|subprocess|symlink|unlink"
)

LEFT_OUT = {
    # modules
    "test_damaged_files": "about lines that only other programs write",
    "test_html": "about documents, not about where sessions come from",
    "test_invalid_input": "refusals, before a store is asked",
    "test_markdown": "about documents",
    "test_packing_crashes": "about disks",
    "test_redaction": "about texts",
    "test_watching": "about notifications of the file system",
    # tests
    "test_a_branch_takes_effect_after_another_program_appended": "writes to a file",
    "test_a_failed_watch_does_not_prevent_passivation_and_is_retried": "about notifications of the file system",
    "test_a_native_file_that_is_replaced_under_a_live_session_is_read_again_after_one_error": "replaces a file",
    "test_a_pi_or_omp_export_of_a_native_session_has_the_same_context": "opens an exported file",
    "test_a_read_only_handle_reads_all_the_same_while_another_host_archives_the_session": "looks at compressed files",
    "test_a_subscriber_gets_a_reset_when_a_native_file_is_replaced": "replaces a file",
    "test_a_system_message_kept_by_an_earlier_compaction_is_kept_by_the_next": "writes a file",
    "test_an_entry_appended_aside_is_not_the_leaf_of_a_pi_export": "opens an exported file",
    "test_an_older_index_is_rebuilt_and_a_newer_one_kept": "opens the file of an index",
    "test_an_iteration_over_a_session_that_is_deleted_meanwhile_says_that_it_is_not_found": "about the size of a page",
    "test_sessions_in_use_are_not_archived_and_reported_as_spared": "how a file names its owner",
    "test_the_edit_of_a_message_that_is_split_applies_to_all_of_it": "opens an exported file",
    "test_what_another_program_appended_before_passivation_is_seen_after_it": "writes to a file",
}
"""What does not take part although its code says nothing of files, and why."""

_WITHOUT_WAITING = "asks a passivated session without waiting, which is refused over a network"

LEFT_OUT_OF = {
    "postgres": {
        "test_a_file_is_imported_into_a_session_without_messages": _WITHOUT_WAITING,
        "test_a_session_goes_back_with_its_source_when_that_is_only_rewound": _WITHOUT_WAITING,
        "test_a_subscriber_receives_the_old_entries_then_a_reset_then_the_new_entries": _WITHOUT_WAITING,
        "test_an_import_leaves_the_leaf_of_a_session_that_was_continued_in_the_host": _WITHOUT_WAITING,
        "test_messages_that_a_pi_session_cannot_take_become_another_session": _WITHOUT_WAITING,
    }
}
"""What does not take part over one of the stores, and why."""

_shelves: dict[str, Shelf] = {}


def _memory(root: str) -> Store:
    return MemoryStore(_shelves.setdefault(root, Shelf()))


def _sqlite(root: str) -> Store:
    from tests.stores.sqlite_example import SqliteStore

    os.makedirs(os.path.dirname(root), exist_ok=True)
    return SqliteStore(f"{root}.db")


def _finding(root: str) -> Store:
    from tests.stores.finding_store import FindingStore

    return FindingStore(_shelves.setdefault(root, Shelf()))


def _postgres(root: str) -> Store:
    from treering.stores.postgres import PostgresStore

    name = f"of_{hashlib.blake2b(root.encode(), digest_size=8).hexdigest()}"
    return PostgresStore(_server().url(schema=name))


@cache
def _server() -> LocalServer:
    """Start a server, which runs as long as this process."""
    from treering.stores.postgres.local_server import LocalServer

    programs = os.environ.get("TREERING_TEST_POSTGRES")
    server = LocalServer(settings={"autovacuum": "off"}, programs=None if programs is None else Path(programs))
    atexit.register(server.__exit__, None, None, None)
    return server.__enter__()


_MAKERS: dict[str, Callable[[str], Store]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "finding": _finding,
    "postgres": _postgres,
}
"""How a store is made that keeps the sessions of a folder."""


def _kind() -> str:
    return os.environ["TREERING_TEST_STORE"]


def make_store(
    root: str | os.PathLike[str], *, disk: object, offload: object, durability: str, writes: str, **_: object
) -> Store:
    """Make a store in the place of one of files, or skip a test that is about a disk."""
    if type(offload) is not ThreadOffload or type(disk) is not OsDisk or durability != "os" or writes != "auto":
        pytest.skip("it is about a disk")
    return _MAKERS[_kind()](os.path.realpath(root))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Replace the store of files."""
    vars(host)["file_store"] = make_store


def _takes_part(item: pytest.Function) -> bool:
    test: Any = item.function
    return (
        not {item.path.stem, item.originalname} & (LEFT_OUT | LEFT_OUT_OF.get(_kind(), {})).keys()
        and inspect.iscoroutinefunction(test)
        and not re.search(r"\b(trio|uvloop)\b", item.name)
        and not ABOUT_FILES.search(inspect.getsource(test))
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the tests that take part."""
    chosen = [item for item in items if isinstance(item, pytest.Function) and _takes_part(item)]
    part, _, parts = os.environ.get("TREERING_TEST_PART", "0/1").partition("/")
    chosen = chosen[int(part) :: int(parts)] or chosen  # of a few tests, some parts have none
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
