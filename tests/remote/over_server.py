"""The library's own tests, with every host behind a real server and every call going through `RemoteHost`.

As a plugin (`pytest -p over_server`) it replaces `treering.SessionHost`: a test that makes a host gets a remote one,
whose server, with the host that the test described, runs in a thread and a loop of its own:

    PYTHONPATH=tests/remote .venv/bin/pytest -p over_server tests/sessions/test_labels.py -k asyncio
"""

# ruff: noqa: ANN401  # it takes whatever the host that it replaces takes
import glob
import os
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

import treering
from treering.remote import RemoteHost
from treering.server import ServerLimits, app
from treering.server.serving import listen, serve

_SessionHost = treering.SessionHost
TURN_S = float(os.environ.get("TREERING_TEST_TURN_S", "0.005"))
"""How long a test waits where it lets all other tasks go on as far as they can."""


@asynccontextmanager
async def served_url(host: treering.SessionHost, **options: Any) -> AsyncIterator[str]:
    """Open a host and serve it; yield the address."""
    listening = listen("127.0.0.1", 0, None)
    started, stopping, stopped = anyio.Event(), anyio.Event(), anyio.Event()
    async with host, anyio.create_task_group() as tasks:

        async def run() -> None:
            await serve(app(host, **options), listening, until=stopping.wait, started=started.set)
            stopped.set()

        tasks.start_soon(run)
        await started.wait()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        stopping.set()
        await stopped.wait()


class ServedHost(RemoteHost):
    """A remote host with a server of its own. It takes the arguments of a `SessionHost`, which is the one served."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.served = _SessionHost(*args, **kwargs)
        super().__init__("http://127.0.0.1:1", limits=kwargs.get("limits"))
        self._exits = ExitStack()
        self._portal: BlockingPortal | None = None

    async def _begin(self) -> None:
        enter = self._exits.enter_context
        self._portal = portal = await anyio.to_thread.run_sync(enter, start_blocking_portal("asyncio"))
        serving: AbstractContextManager[str] = portal.wrap_async_context_manager(
            served_url(self.served, limits=ServerLimits(listed_every_s=0))
        )
        self._connection.url = await anyio.to_thread.run_sync(enter, serving)
        await super()._begin()
        # Tests look at the files, which a program cannot: its server may be anywhere.
        self.core.path_of = self._path_of  # type: ignore[method-assign]

    def _path_of(self, ref: str) -> str | None:
        files = self.served.core.runtime.files
        if files is None:
            return None
        found = sorted(Path(files.root).rglob(f"*{glob.escape(ref)}.jsonl"))  # some dialects put the time in front
        return str(found[0]) if found else files.path_of(f"{ref}.jsonl")

    async def _find(self, session: Any, *, begun: bool = False) -> str:
        is_path = isinstance(session, os.PathLike) or (isinstance(session, str) and session.endswith(".jsonl"))
        if is_path and self._portal is not None:  # what no program can, since its server may be anywhere
            row = await anyio.to_thread.run_sync(self._portal.call, self.served.resolve, session)
            session = row.id
        return await super()._find(session, begun=begun)

    async def _close(self) -> None:
        try:
            await super()._close()
        finally:
            await anyio.to_thread.run_sync(self._exits.close)


LOCAL_ONLY = {
    "test_a_branch_takes_effect_after_another_program_appended": "it writes to a file by the name of the log",
    "test_a_branch_whose_record_may_be_lost_is_in_doubt_and_takes_effect": ("it has the handle passivate the session"),
    "test_a_cancelled_wait_for_the_listing_loses_no_change": "a server writes a session at once, so it is listed",
    "test_a_command_whose_batch_was_torn_is_carried_out_again": "it tears a file",
    "test_a_conversation_of_another_program_continues_under_its_key": ("its file has another file beside it"),
    "test_a_copy_has_its_own_id_names_its_parent_and_has_the_same_context[asyncio-path]": (
        "it names a session by its file"
    ),
    "test_a_failed_write_changes_neither_index_nor_leaf": "it looks at the cause of an error, which stays there",
    "test_a_key_identifies_one_session_that_its_first_message_creates": "a server writes a session at once",
    "test_a_long_session_is_opened_from_its_snapshot_instead_of_its_lines": ("it counts the bytes that a disk reads"),
    "test_a_payload_of_any_kind_goes_below_the_leaf_and_becomes_the_leaf": "it makes a thousand calls one by one",
    "test_a_repeated_command_is_durable_though_its_first_writer_did_not_flush_it": "its disk crashes",
    "test_a_replica_of_the_listing_that_leaves_and_comes_back_lacks_nothing": "only the server knows its position",
    "test_a_root_that_is_a_file_is_refused_when_the_host_is_entered": "a remote host has no root",
    "test_a_session_passivated_before_its_first_message_stays_the_same_session": (
        "it has the host passivate the session"
    ),
    "test_a_session_that_falls_asleep_or_wakes_counts_as_changed": "it has the handle passivate the session",
    "test_a_slow_subscriber_gets_the_latest_transient_of_each_name_between_two_entries": ("emitting sends a request"),
    "test_a_subscriber_that_missed_too_many_changes_gets_a_snapshot_and_one_that_kept_up_gets_each_change": (
        "it makes a thousand calls one by one"
    ),
    "test_a_subscriber_that_fell_behind_gets_all_entries_and_then_the_current_transients": "emitting sends a request",
    "test_a_subscriber_that_keeps_up_gets_every_transient_in_order_between_the_entries": (
        "an event that is emitted before a stream has begun is not in it"
    ),
    "test_a_subscription_from_the_cursor_of_an_unwritten_session_gets_no_reset": ("a server writes a session at once"),
    "test_a_text_that_nobody_listened_to_is_known_to_whoever_comes_and_has_a_bound": "emitting sends a request",
    "test_a_view_folds_what_is_appended_without_reading_the_log": "it disturbs the store of the host",
    "test_a_view_of_a_replaced_log_is_built_again_and_fails_if_that_goes_on": "it disturbs the store of the host",
    "test_a_view_that_fell_behind_or_was_left_begins_with_a_snapshot_and_goes_on_with_changes": (
        "emitting sends a request"
    ),
    "test_a_view_whose_projection_raised_says_so_until_it_is_rebuilt": "it reads the log of the process",
    "test_an_entry_that_arrives_while_a_view_is_built_is_folded_once": "it disturbs the store of the host",
    "test_an_id_is_reserved_before_the_first_write_and_released_with_its_last_handle": (
        "a server writes a session at once"
    ),
    "test_an_id_may_have_any_letters_and_a_new_one_180_bytes": "it renames a file",
    "test_an_id_that_the_id_source_repeats_is_refused": "ids come from the server",
    "test_an_invalid_usage_from_another_program_is_read_unchanged": "it changes a file",
    "test_another_process_sees_the_leaf_move": "another process opens the files",
    "test_any_key_works_and_its_file_stays_under_the_root[asyncio-\\u804a\\u5929/\\U0001f469\\u200d\\U0001f469\\u200d\\U0001f467\\n\\x00: ]": (  # noqa: E501  # one key
        "a key that a server takes has no control characters"
    ),
    "test_cuts_from_find_safe_cut_are_accepted_and_unsafe_ones_refused": "it makes a thousand calls one by one",
    "test_each_of_a_thousand_subscribers_receives_every_change": "it makes thousands of calls one by one",
    "test_entries_of_a_batch_that_a_path_holds_in_part_stay_entries_under_every_id[asyncio-True-native]": (
        "it copies a file"
    ),
    "test_entries_of_a_batch_that_a_path_holds_in_part_stay_entries_under_every_id[asyncio-True-omp]": (
        "it copies a file"
    ),
    "test_entries_of_a_batch_that_a_path_holds_in_part_stay_entries_under_every_id[asyncio-True-pi]": (
        "it copies a file"
    ),
    "test_ids_are_unique_in_both_forms_kept": "it writes a file",
    "test_in_an_empty_directory_nothing_is_recent_and_no_file_is_created": "it lists a folder",
    "test_loading_a_directory_raises_not_a_session": "it names a folder",
    "test_no_piece_of_a_text_is_lost_however_slow_or_late_a_subscriber_is": "emitting sends a request",
    "test_open_creates_a_missing_session_and_turns_are_saved_at_once": "a server writes a session at once",
    "test_putting_a_session_into_its_own_store_changes_nothing": "a server writes a session at once",
    "test_starting_with_ten_thousand_conversations_reads_none_of_them": "it counts the calls of a disk",
    "test_statistics_tell_how_far_the_slowest_subscriber_lags": "statistics are those of a process",
    "test_the_cursor_is_that_of_the_last_entry_that_was_yielded": "emitting sends a request",
    "test_the_folder_of_a_pi_file_is_named_after_the_absolute_path": "it looks at a folder",
}
"""Tests, or cases of theirs, whose subject is not to be seen from another machine, or that only take long there."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what only a host of one's own can show."""
    for item in items:
        reason = LOCAL_ONLY.get(item.name) or LOCAL_ONLY.get(getattr(item, "originalname", item.name))
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


async def _turn() -> None:
    """Let others take their turn, where a turn takes a request and its reply."""
    await anyio.sleep(TURN_S)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Replace the host."""
    treering.SessionHost = ServedHost  # type: ignore[misc]
    anyio.wait_all_tasks_blocked = _turn
    anyio.lowlevel.checkpoint = _turn
