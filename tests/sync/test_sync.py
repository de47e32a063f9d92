"""The blocking facade: many threads use one host, with the same results as the async interface."""

from __future__ import annotations

import contextlib
import inspect
import os
import pydoc
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import anyio
import pytest

from treering import (
    Cursor,
    Entry,
    HostClosed,
    KeyedSessions,
    LogReplaced,
    MessageEntry,
    Reset,
    Session,
    SessionHost,
    plain_text,
)
from treering.actors.sync import SyncHost, SyncSession
from treering.errors import Closed, WrongThread
from treering.events.disk import OsDisk
from treering.events.stores.files.log.table import CHUNK
from treering.projections.subscriptions import EntrySubscription
from treering.sessions import Hit, Search
from treering.sync import SyncKeyedSessions
from treering.testing.disks import WrappedDisk

PATIENCE_S = 30
FACADE = (os.path.join("sync", "bridge.py"), os.path.join("sync", "subscriptions.py"))
# a blocking host is opened by `with`, in any thread
NOT_FOR_PROGRAMS = {"catalog", "core", "log", "start", "aclose", "write_copy", "write_fork"}
OWN = {"twin", "copy", "bridge"}
TWIN_TYPES = (
    (r"\bSessionLike\b", "SyncSessionLike"),
    (r"\bSession\b", "SyncSession"),
    (r"\bSearch\b", "SyncSearch"),
    (r"\bAsync(Iterator|Generator)\b", "Iterator"),
)


@pytest.fixture(params=[("asyncio", None), ("asyncio", {"use_uvloop": True}), ("trio", None)], ids=str)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SyncHost]:
    backend, options = request.param
    if options:
        pytest.importorskip("uvloop")
    with SyncHost(tmp_path / "sessions", backend=backend, backend_options=options) as host:
        yield host


@contextmanager
def running(call: Callable[[], object]) -> Generator[Future[object]]:
    """Run a call in a thread while the block runs, and wait for its end."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
        yield future
        future.result(PATIENCE_S)


def texts(session: SyncSession) -> list[str]:
    return [plain_text(message.content) for message in session.messages()]


# -- threads


def test_threads_append_to_their_own_sessions_and_to_a_shared_one(host: SyncHost) -> None:
    shared = host.create("shared")

    def work(number: int) -> list[str]:
        own = host.open(f"own-{number}")
        for turn in range(10):
            own.append_message("user", f"{number}-{turn}")
            host.load("shared").append_custom_entry("seen", {"by": number, "turn": turn})
        return texts(own)

    shared.append_message("user", "begin")
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(work, range(8)))

    assert seen == [[f"{number}-{turn}" for turn in range(10)] for number in range(8)]
    assert len(shared.entries(custom_type="seen")) == 80
    assert len(host.list_sessions()) == 9
    assert host.statistics().appends == 161


# -- iterations


def test_iterating_over_entries_includes_one_appended_meanwhile(host: SyncHost) -> None:
    session = host.create()
    ids = [session.append_custom_entry("odd" if number % 2 else "even", number) for number in range(600)]
    iterator = session.iter_entries()
    assert next(iterator).id == ids[0]
    later = session.append_custom_entry("odd", None)

    assert [entry.id for entry in iterator] == ids[1:]
    assert [entry.id for entry in session.iter_entries(598)] == [*ids[598:], later]
    assert [entry.id for entry in session.iter_entries(custom_type="odd")] == [*ids[1::2], later]


def test_a_search_runs_on_the_loop_of_the_host_and_not_of_the_caller(tmp_path: Path) -> None:
    async def search() -> list[Hit]:
        with SyncHost(tmp_path, backend="trio") as host:
            host.create().append_message("user", "Hello")
            return list(host.search("hello"))

    assert len(anyio.run(search, backend="asyncio")) == 1


@pytest.mark.parametrize("read_only", [False, True])
def test_an_iteration_over_entries_does_not_continue_in_a_file_that_replaced_the_first(
    tmp_path: Path, read_only: bool
) -> None:
    with SyncHost(tmp_path) as host:
        for name in ("main", "other"):
            session = host.create(name)
            for number in range(3):
                session.append_custom_entry(name, f"{number}" * CHUNK)
    with SyncHost(tmp_path) as host:
        iterator = host.load("main", read_only=read_only).iter_entries()
        assert next(iterator).seq == 1
        (tmp_path / "other.jsonl").rename(tmp_path / "main.jsonl")
        with pytest.raises(LogReplaced):
            list(iterator)


# -- subscriptions


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event that is set when a subscription begins to wait for entries."""
    reading = threading.Event()
    receive_many = EntrySubscription.receive_many

    async def receive(self: EntrySubscription) -> Sequence[Entry | Reset]:
        reading.set()
        return await receive_many(self)

    monkeypatch.setattr(EntrySubscription, "receive_many", receive)
    return reading


def test_a_subscription_yields_existing_and_new_entries(host: SyncHost) -> None:
    session = host.create()
    expected = [session.append_message("user", "before")]
    with session.subscribe() as entries:
        found = [entries.receive(PATIENCE_S)]
        expected += [session.append_message("user", str(number)) for number in range(5)]
        found += [entries.receive(PATIENCE_S) for _ in range(5)]
        assert entries.lag >= 0
        assert entries.cursor == session.cursor

    assert [item.id for item in found if isinstance(item, MessageEntry)] == expected
    with session.subscribe(after=2) as entries:
        assert len(entries.receive_many()) == 4
    with session.subscribe() as entries:
        seen = entries.receive(PATIENCE_S)
        last = entries.cursor
    assert isinstance(seen, MessageEntry)
    assert last.seq == seen.seq == 1
    old = Cursor("another log", 7)
    with session.subscribe(after=old) as entries:
        assert entries.cursor == old
    with session.subscribe(after=last) as entries:
        rest = entries.receive_many()
        assert [each.seq for each in rest if isinstance(each, MessageEntry)] == [2, 3, 4, 5, 6]


def test_a_subscription_to_the_listing_yields_new_sessions(host: SyncHost) -> None:
    with host.subscribe_sessions() as changes:
        assert changes.receive(PATIENCE_S) == []
        session = host.create()
        session.append_message("user", "one")
        change = changes.receive(PATIENCE_S)
        assert not isinstance(change, list)
        assert change.summary is not None
        assert change.summary.id == session.id


def test_an_entry_after_a_receive_that_timed_out_is_received(host: SyncHost) -> None:
    session = host.create()
    with session.subscribe() as entries:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                entries.receive(0.01)
        expected = session.append_message("user", "one")
        found = entries.receive(PATIENCE_S)
    assert isinstance(found, MessageEntry)
    assert found.id == expected


def test_a_receive_times_out_while_another_thread_reads(host: SyncHost, reading: threading.Event) -> None:
    session = host.create()
    with session.subscribe() as entries, running(lambda: list(entries)):
        assert reading.wait(PATIENCE_S)

        def receive() -> None:
            with pytest.raises(TimeoutError):
                entries.receive(0.01)

        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(receive)
            try:
                found.result(PATIENCE_S)
            finally:
                entries.close()


def test_closing_a_subscription_ends_the_iteration_in_another_thread(host: SyncHost) -> None:
    session = host.create()
    with session.subscribe() as entries, running(lambda: list(entries)) as found:
        session.append_message("user", "one")
        while host.statistics().sessions[0].lag_max:
            pass
        entries.close()
        assert isinstance(found.result(PATIENCE_S), list)
        entries.close()
        with pytest.raises(Closed):
            entries.receive(PATIENCE_S)
    assert host.statistics().subscribers == 0


def test_iterating_over_a_subscription_that_is_not_open_is_refused(host: SyncHost) -> None:
    session = host.create()
    session.append_message("user", "one")
    with pytest.raises(Closed, match="not open"):
        list(session.subscribe(after=0))


# -- searches


def test_threads_that_iterate_over_one_search_get_each_hit_once(host: SyncHost) -> None:
    session = host.create()
    expected = {session.append_message("user", f"oak {number}") for number in range(40)}
    with host.search("oak") as hits, ThreadPoolExecutor(8) as pool:
        readers = [pool.submit(list[Hit], hits) for _ in range(8)]
        ids = [hit.entry_id for reader in readers for hit in reader.result(PATIENCE_S)]
    assert (len(ids), set(ids)) == (40, expected)


@pytest.fixture
def waiting_search(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Make every search wait forever for its first hit; the event is set when one waits."""
    waiting = threading.Event()

    async def wait(_: Search) -> Hit:
        waiting.set()
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    monkeypatch.setattr(Search, "__anext__", wait)
    return waiting


def test_closing_a_search_ends_its_iteration_in_another_thread(host: SyncHost, waiting_search: threading.Event) -> None:
    hits = host.search("oak")
    with running(lambda: list(hits)) as found:
        assert waiting_search.wait(PATIENCE_S)
        hits.close()
        assert found.result(PATIENCE_S) == []
    hits.close()
    assert list(hits) == []


@contextlib.contextmanager
def interrupted_once(ready: threading.Event) -> Iterator[None]:
    """Interrupt this thread once `ready` is set and it waits.

    A signal that comes just before a thread begins to wait for a lock is noticed only when the wait ends, so it is sent
    until it has struck; after that, further ones do nothing.
    """
    main, struck = threading.get_ident(), threading.Event()

    def strike(*_: object) -> None:
        if not struck.is_set():
            struck.set()
            raise KeyboardInterrupt

    def send() -> None:
        assert ready.wait(PATIENCE_S)
        while not struck.wait(0.05):
            signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, strike)
    try:
        with running(send), pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_during_a_search_is_raised(waiting_search: threading.Event) -> None:
    with SyncHost() as host, interrupted_once(waiting_search), host.search("oak") as hits:
        next(hits)


# -- closing


def test_closing_the_host_ends_subscriptions_and_refuses_later_calls(tmp_path: Path) -> None:
    with SyncHost(tmp_path) as host:
        session = host.create()
        session.append_message("user", "one")
        entries = session.subscribe()
        entries.__enter__()
        thread = threading.Thread(target=lambda: list(entries), daemon=True)
        thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    entries.close()
    for call in (
        lambda: session.leaf_id,
        host.list_sessions,
        session.messages,
        lambda: next(iter(session.iter_entries())),
    ):
        with pytest.raises(HostClosed):
            call()
    with pytest.raises(StopIteration):
        next(entries)
    with pytest.raises(HostClosed), host:
        pass


def test_closing_the_host_keeps_every_acknowledged_append(tmp_path: Path) -> None:
    acknowledged: list[str] = []

    def append(session: SyncSession) -> None:
        try:
            while True:
                acknowledged.append(session.append_message("user", "more"))
        except HostClosed:
            pass

    with ThreadPoolExecutor(8) as pool:
        with SyncHost(tmp_path) as host:
            session = host.create()
            workers = [pool.submit(append, session) for _ in range(8)]
            while len(acknowledged) < 100:
                pass
        for worker in workers:
            worker.result(PATIENCE_S)
    with SyncHost(tmp_path) as host:
        assert {entry.id for entry in host.load(session.id).entries()} == set(acknowledged)


def test_a_host_that_fails_to_open_raises_the_cause(tmp_path: Path) -> None:
    def fail() -> str:
        raise RuntimeError("no ids today")

    host = SyncHost(tmp_path, new_id=fail)
    with pytest.raises(RuntimeError, match="no ids today"), host:
        pass
    with pytest.raises(HostClosed, match="not open"):
        SyncHost(tmp_path).list_sessions()


def test_a_call_from_inside_the_event_loop_is_refused(tmp_path: Path) -> None:
    refusals: list[Exception] = []

    def new_id() -> str:
        try:
            inside.list_sessions()
        except (WrongThread, HostClosed) as error:
            refusals.append(error)
        return f"00000000-0000-4000-8000-{len(refusals):012}"

    inside = SyncHost(tmp_path, new_id=new_id)
    with inside:
        inside.create().append_message("user", "one")
    assert isinstance(refusals[-1], WrongThread)


def test_an_interrupted_wait_leaves_the_host_usable(tmp_path: Path, reading: threading.Event) -> None:
    with SyncHost(tmp_path) as host:
        session = host.create()
        with session.subscribe() as entries:
            with interrupted_once(reading):
                entries.receive(PATIENCE_S)
            expected = session.append_message("user", "one")
            found = entries.receive(PATIENCE_S)
        assert isinstance(found, MessageEntry)
        assert found.id == expected


def interrupted_at_line(nth: int, call: Callable[[], object]) -> bool:
    """Call something in a thread, and raise KeyboardInterrupt at the nth line of the facade that it executes."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(FACADE):
            return None
        lines += event == "line"
        if lines == nth:
            raise KeyboardInterrupt
        return trace

    def traced() -> None:
        sys.settrace(trace)
        try:
            call()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)

    call_in_thread(traced)
    return lines >= nth


def call_in_thread(call: Callable[[], object]) -> None:
    """Call something in a daemon thread, so that the test fails rather than hangs if the call never ends."""
    done: Future[None] = Future()

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001  # the future raises it to the test
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, daemon=True).start()
    done.result(PATIENCE_S)


def test_a_host_closes_after_an_interrupt_at_any_line() -> None:
    def work(host: SyncHost) -> None:
        with host:
            host.list_sessions()

    nth, struck = 0, True
    while struck:
        nth += 1
        host = SyncHost()
        struck = interrupted_at_line(nth, partial(work, host))
        call_in_thread(host.bridge.stop)
        with pytest.raises(HostClosed):
            host.list_sessions()
    assert nth > 25, "the interrupts did not go through the opening, a call and the closing"


class HeldDisk(WrappedDisk):
    """A disk whose flushes wait until `released` is set."""

    def __init__(self) -> None:
        super().__init__(OsDisk())
        self.flushing = threading.Event()
        self.released = threading.Event()

    def datasync(self, fd: int) -> None:
        self.flushing.set()
        assert self.released.wait(PATIENCE_S)
        super().datasync(fd)


def test_an_interrupt_while_the_host_drains_is_raised_after_it_has_drained(tmp_path: Path) -> None:
    disk, struck, main = HeldDisk(), threading.Event(), threading.get_ident()
    host = SyncHost(tmp_path, durability="file", disk=disk)

    def work(pool: ThreadPoolExecutor) -> Future[str]:
        with host:
            appending = pool.submit(host.create("kept").append_message, "user", "one")
            assert disk.flushing.wait(PATIENCE_S)
            pool.submit(send_interrupt)
        return appending

    def send_interrupt() -> None:
        with contextlib.suppress(HostClosed):
            while True:
                host.statistics()
        while not struck.wait(0.05):  # one that comes just before a wait begins is noticed when it ends
            signal.pthread_kill(main, signal.SIGINT)
        disk.released.set()

    def interrupt(*_: object) -> None:
        if not struck.is_set():
            struck.set()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with ThreadPoolExecutor(2) as pool:
            with pytest.raises(KeyboardInterrupt):
                work(pool)
            assert disk.released.is_set(), "the interrupt was raised before the host had drained"
            with SyncHost(tmp_path) as later:
                assert later.load("kept").message_count == 1
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_subscription_can_be_read_and_closed_after_an_interrupt_at_any_line() -> None:
    with SyncHost() as host:
        session = host.create()
        session.append_message("user", "one")
        nth, struck = 0, True
        while struck:
            nth += 1
            entries = session.subscribe(after=0)
            entries.__enter__()
            struck = interrupted_at_line(nth, entries.receive)
            expected = session.append_message("user", "another")
            found: list[Entry | Reset] = []
            while not any(isinstance(each, MessageEntry) and each.id == expected for each in found):
                call_in_thread(lambda: found.append(entries.receive(PATIENCE_S)))  # noqa: B023  # it ends in the round
            call_in_thread(entries.close)
        assert nth > 15, "the interrupts did not go through a wait"
        assert host.statistics().subscribers == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_the_host_and_ends_the_program(tmp_path: Path, number: signal.Signals) -> None:
    program = f"""
import signal, threading
from treering.actors.sync import SyncHost
with SyncHost({str(tmp_path)!r}, signals=True) as host:
    host.create("kept").append_message("user", "one")
    signal.raise_signal({int(number)})
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=PATIENCE_S, capture_output=True)
    assert (ended.returncode, ended.stderr) == (128 + number, b"")
    with SyncHost(tmp_path) as host:
        assert host.load("kept").message_count == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_call_in_a_forked_child_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    program = f"""
import os, treering
from treering.actors.sync import SyncHost
with SyncHost({str(tmp_path)!r}) as host:
    session = host.create()
    session.append_message("user", "one")
    if not (child := os.fork()):
        try:
            session.leaf_id
        except treering.HostClosed:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    session.append_message("user", "two")
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=PATIENCE_S)


# -- the two interfaces


def _public(cls: type) -> dict[str, Any]:
    return {name: member for name, member in inspect.getmembers(cls) if not name.startswith("_")}


def _parameters(function: FunctionType) -> list[tuple[object, ...]]:
    """The parameters of a method, with the types of the async interface replaced by those of the facade."""
    shape: list[tuple[object, ...]] = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        annotation = str(parameter.annotation)
        for pattern, twin in TWIN_TYPES:
            annotation = re.sub(pattern, twin, annotation)
        shape.append((parameter.name, parameter.kind, parameter.default, annotation))
    return shape


@pytest.mark.parametrize(
    ("original", "twin"), [(SessionHost, SyncHost), (Session, SyncSession), (KeyedSessions, SyncKeyedSessions)]
)
def test_each_async_method_has_a_blocking_one_with_the_same_parameters(original: type, twin: type) -> None:
    wanted, found = _public(original), _public(twin)
    assert found.keys() - OWN == wanted.keys() - NOT_FOR_PROGRAMS
    for name in wanted.keys() - NOT_FOR_PROGRAMS:
        one, other = wanted[name], found[name]
        assert isinstance(one, property) == isinstance(other, property), name
        if isinstance(one, FunctionType) and name not in ("subscribe", "save_every"):
            assert _parameters(other) == _parameters(one), name
            returned = str(inspect.signature(one).return_annotation)
            for pattern, replacement in TWIN_TYPES:
                returned = re.sub(pattern, replacement, returned)
            if name != "subscribe_sessions":
                assert str(inspect.signature(other).return_annotation) == returned, name
        assert not inspect.iscoroutinefunction(other), name
        if not inspect.ismemberdescriptor(other):
            assert other.__doc__ == one.__doc__ or f"{original.__name__}.{name}" in other.__doc__, name


def test_help_shows_the_signature_and_the_docstring_of_the_async_method() -> None:
    shown = re.sub(r"[\s|]", "", pydoc.plain(pydoc.render_doc(SyncSession)))  # newer Pythons break long signatures
    assert "append_model_change(self,provider:'str',model_id:'str',**options:'Unpack[AppendOptions]')" in shown
    assert "Recordthatanothermodelanswersfromhereon" in shown
    assert "fork(self,session_id:'strNone'=None)->'SyncSession'" in shown
    assert (SyncSession.leaf_id.__doc__ or "") == Session.leaf_id.__doc__


def test_both_hosts_take_the_same_arguments() -> None:
    wanted = inspect.signature(SessionHost).parameters
    found = inspect.signature(SyncHost).parameters
    assert {name: str(found[name]) for name in wanted} == {name: str(wanted[name]) for name in wanted}
    assert found.keys() - wanted.keys() == {"backend", "backend_options", "host"}
