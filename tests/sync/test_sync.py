"""The blocking facade: many threads use one host, with the same results as the async interface."""

import contextlib
import gc
import inspect
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, Self

import anyio
import pytest

from treering import Cursor, Entry, HostClosed, KeyedSessions, MessageEntry, Reset, Session, SessionHost, plain_text
from treering.actors.sync import SyncHost, SyncSession, SyncSubscription
from treering.actors.sync import host as sync_host
from treering.actors.sync.host import BackendName
from treering.errors import Closed, InvalidInput, LogReplaced, SessionExists, WrongThread
from treering.events.stores.files.log.table import CHUNK
from treering.events.stores.memory import MemoryStore
from treering.sessions import Hit
from treering.sync import SyncKeyedSessions

PATIENCE_S = 30
FACADE = (os.path.join("sync", "bridge.py"), os.path.join("sync", "subscriptions.py"))
# a blocking host is opened by `with`, in any thread
NOT_FOR_PROGRAMS = {"catalog", "core", "log", "start", "aclose", "write_copy", "write_fork"}
OWN = {"twin", "copy", "bridge"}
VARIOUS = inspect.Parameter.VAR_KEYWORD
SUBSCRIBING: tuple[dict[str, Any], ...] = (
    {},
    {"after": 3},
    {"after": 3, "transient": True},
    {"after": 3, "leaf": True},
    {"after": 3, "transient": True, "leaf": True},
    {"view": "tree"},
)
TWINS = [(SessionHost, SyncHost), (Session, SyncSession), (KeyedSessions, SyncKeyedSessions)]
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


# -- threads


def test_threads_append_to_their_own_sessions_and_to_a_shared_one(host: SyncHost) -> None:
    shared = host.create("shared")

    def work(number: int) -> list[str]:
        own = host.open(f"own-{number}")
        for turn in range(10):
            own.append_message("user", f"{number}-{turn}")
            host.load("shared").append_custom_entry("seen", {"by": number, "turn": turn})
        return [plain_text(message.content) for message in own.messages()]

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


@pytest.mark.parametrize(("loop", "another"), [("asyncio", "trio"), ("trio", "asyncio")])
def test_a_search_runs_on_the_loop_of_the_host_and_not_of_the_caller(loop: BackendName, another: str) -> None:
    async def search() -> list[Hit]:
        with SyncHost(backend=loop) as host:
            host.create().append_message("user", "Hello")
            return list(host.search("hello"))

    assert len(anyio.run(search, backend=another)) == 1


def test_an_iteration_over_entries_does_not_continue_in_a_file_that_replaced_the_first(tmp_path: Path) -> None:
    with SyncHost(tmp_path) as host:
        for name in ("main", "other"):
            session = host.create(name)
            for number in range(3):
                session.append_custom_entry(name, f"{number}" * CHUNK)
    with SyncHost(tmp_path) as host:
        iterator = host.load("main").iter_entries()
        assert next(iterator).seq == 1
        (tmp_path / "other.jsonl").rename(tmp_path / "main.jsonl")
        with pytest.raises(LogReplaced):
            list(iterator)


# -- subscriptions


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
    with session.subscribe(after=5) as entries:
        assert len(entries.receive_many()) == 1
    with session.subscribe() as entries:
        seen = entries.receive(PATIENCE_S)
        last = entries.cursor
    assert isinstance(seen, MessageEntry)
    assert last.seq == seen.seq == 1
    old = Cursor("another log", 7)
    with session.subscribe(after=old) as entries:
        assert entries.cursor == old
    with session.subscribe(after=last) as entries:
        assert [each.seq for each in entries.receive_many() if isinstance(each, MessageEntry)] == [2, 3, 4, 5, 6]


def test_what_was_waited_for_is_not_kept(host: SyncHost) -> None:
    session, kept = host.create(), list[int]()
    with session.subscribe() as entries:
        for _ in range(2):
            for _ in range(100):
                session.append_message("user", "one")
                entries.receive(PATIENCE_S)
            gc.collect()
            kept.append(sum(type(each).__name__ == "CancelScope" for each in gc.get_objects()))
    assert kept[1] - kept[0] < 50


def test_an_entry_after_a_receive_that_timed_out_is_received(host: SyncHost) -> None:
    session = host.create()
    with session.subscribe() as entries:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                entries.receive(0.01)
        expected = session.append_message("user", "one")
        found = entries.receive(PATIENCE_S)
    assert host.statistics().subscribers == 0
    assert isinstance(found, MessageEntry)
    assert found.id == expected


def test_closing_a_subscription_ends_the_iteration_in_another_thread(host: SyncHost) -> None:
    session = host.create()
    with ThreadPoolExecutor(1) as pool, session.subscribe() as entries:
        found = pool.submit(list, entries)
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
    with pytest.raises(Closed, match="not open"):
        list(host.create().subscribe(after=0))


# -- searches


def test_threads_that_iterate_over_one_search_get_each_hit_once(host: SyncHost) -> None:
    session = host.create()
    expected = {session.append_message("user", f"oak {number}") for number in range(40)}
    with host.search("oak") as hits, ThreadPoolExecutor(8) as pool:
        readers = [pool.submit(list[Hit], hits) for _ in range(8)]
        ids = [hit.entry_id for reader in readers for hit in reader.result(PATIENCE_S)]
    assert (len(ids), set(ids)) == (40, expected)
    hits = host.search("oak")
    hits.close()
    assert list(hits) == []


# -- closing


def test_closing_the_host_ends_subscriptions_and_refuses_later_calls() -> None:
    with ThreadPoolExecutor(1) as pool, SyncHost() as host:
        session = host.create()
        session.append_message("user", "one")
        entries = session.subscribe().__enter__()
        pool.submit(list, entries)
    entries.close()
    first = partial(next, session.iter_entries())
    for call in (lambda: session.leaf_id, host.list_sessions, session.messages, first, host.__enter__):
        with pytest.raises(HostClosed):
            call()
    with pytest.raises(StopIteration):
        next(entries)


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


def test_a_call_from_inside_the_event_loop_is_refused() -> None:
    with SyncHost() as host, pytest.raises(WrongThread):
        host.bridge.read(host.list_sessions)


def interrupt() -> None:
    raise KeyboardInterrupt


def struck_at_line(nth: int, call: Callable[[], object], strike: Callable[[], object] = interrupt) -> bool:
    """Call something in a thread, and strike, as a signal handler would, at the nth line of the facade in it."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(FACADE):
            return None
        lines += event == "line"
        if event == "line" and lines == nth:
            strike()
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


def test_an_interrupt_at_any_line_is_raised_when_the_host_has_drained_and_a_handler_may_stop_it() -> None:
    opened: list[SessionHost] = []

    class Watched(SessionHost):
        async def __aenter__(self) -> Self:
            opened.append(self)
            return await super().__aenter__()

        async def __aexit__(self, *_: object) -> None:
            await super().__aexit__(None, None, None)
            opened.remove(self)

    def work(host: SyncHost) -> None:
        with host:
            host.list_sessions()

    def call(host: SyncHost) -> None:
        with contextlib.suppress(HostClosed):
            host.list_sessions()

    nth, struck, undrained = 0, True, 0
    while struck:
        nth += 1
        host = SyncHost(host=Watched())
        struck = struck_at_line(nth, partial(work, host))
        undrained += len(opened)
        call_in_thread(host.bridge.stop)
        assert not opened
        with pytest.raises(HostClosed):
            host.list_sessions()
        with SyncHost() as host:
            struck_at_line(nth, partial(call, host), host.bridge.stop)
    assert nth > 25, "the interrupts did not go through the opening, a call and the closing"
    assert undrained <= 1, "not only one that came at the first line of `stop` was raised before the host had drained"


def test_waits_that_begin_while_the_host_stops_end_at_once() -> None:
    async def forever() -> list[None]:
        waiting.set()
        await anyio.sleep_forever()
        return [None]

    async def wait() -> list[Sequence[None]]:
        return [await host.bridge.interruptible(anyio.CancelScope(), forever) for _ in range(2)]

    waiting = threading.Event()
    with SyncHost() as host:
        waits = host.bridge.post(wait)
        assert waiting.wait(PATIENCE_S)
    assert waits.result(0) == [(), ()]


def test_a_callback_that_exits_ends_the_host_and_every_wait() -> None:
    async def wait() -> None:
        waiting.set()
        await anyio.sleep_forever()

    def leave() -> None:
        raise SystemExit(3)

    waiting = threading.Event()
    host = SyncHost(backend="trio").__enter__()
    entries = host.create().subscribe().__enter__()
    with pytest.raises(TimeoutError):
        entries.receive(0)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(host.bridge.wait, wait)
        assert waiting.wait(PATIENCE_S)
        with pytest.raises(SystemExit):
            host.bridge.read(leave)
    for call, why in ((entries.receive, "loop ended"), (waits.result, "loop ended"), (host.list_sessions, "is closed")):
        with pytest.raises(HostClosed, match=why):
            call()
    with pytest.raises(BaseExceptionGroup, match="nursery") as raised:
        host.__exit__()
    assert raised.group_contains(SystemExit)


@pytest.mark.parametrize("strike", [interrupt, None], ids=["interrupt", "another reader"])
def test_a_subscription_can_be_read_and_closed_whatever_comes_at_any_line(strike: Callable[[], None] | None) -> None:
    def receive() -> None:
        found.append(entries.receive(PATIENCE_S))

    with SyncHost() as host:
        session = host.create()
        session.append_message("user", "one")
        nth, struck = 0, True
        while struck:
            nth += 1
            session.append_message("user", "another")
            found: list[Entry | Reset] = []
            with session.subscribe(after=0) as entries:
                struck = struck_at_line(nth, receive, strike or partial(call_in_thread, receive))
                last = session.append_message("user", "last")
                while not any(isinstance(each, MessageEntry) and each.id == last for each in found):
                    call_in_thread(receive)
                call_in_thread(entries.close)
            assert strike or len({id(each) for each in found}) == len(found) == session.message_count
        assert nth > 15, "nothing came during a wait"
        assert host.statistics().subscribers == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_the_host_and_leaves_other_handlers_in_place(tmp_path: Path, number: signal.Signals) -> None:
    def handlers() -> list[object]:
        return [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]

    def work() -> None:
        with SyncHost(tmp_path, signals=True) as host:
            host.create("kept").append_message("user", "one")
            try:
                signal.raise_signal(number)
            finally:
                assert handlers() == before, "a second signal would not have ended the wait"

    before = handlers()
    with pytest.raises(SystemExit, match=f"^{128 + number}$"):
        work()
    with SyncHost(tmp_path, signals=True) as host:
        assert host.load("kept").message_count == 1
        assert before[0] not in handlers()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert handlers() == [before[0], signal.SIG_IGN]
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(WrongThread, match="main thread"):
        call_in_thread(SyncHost(signals=True).__enter__)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_program_ends_with_open_hosts_and_calls_in_a_forked_child_are_refused(tmp_path: Path) -> None:
    program = f"""
import atexit, os, treering
from treering.actors.sync import SyncHost
unopened = SyncHost()
with SyncHost({str(tmp_path)!r}) as host:
    session = host.create()
    session.append_message("user", "one")
    if not (child := os.fork()):
        try:
            session.leaf_id
        except treering.HostClosed:
            host.__exit__()
            with unopened:
                unopened.create()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    session.append_message("user", "two")
unopened.__enter__()  # never closed
atexit.register(SyncHost().__enter__().__exit__)
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


@pytest.mark.parametrize(("original", "twin"), TWINS)
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


class Answer:
    """What a `Recording` answers: a session, a search or a subscription whose only item is itself."""

    id = ref = "answer"
    findings = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def __anext__(self) -> Self:
        return self

    async def receive_many(self) -> Sequence[Self]:
        return (self,)


class Recording:
    """Stands in the event loop for an object of the async interface, and keeps what it is asked."""

    def __init__(self, original: type) -> None:
        self.original = original
        self.asked: list[object] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # as the member is
        member = getattr(self.original, name, name)
        if not callable(member):
            assert threading.current_thread().name == "treering host", name
            return f"its {name}"

        def call(*args: object, **kwargs: object) -> Answer | None:
            assert threading.current_thread().name == "treering host", name
            bound = inspect.signature(member).bind(self, *args, **kwargs)
            bound.apply_defaults()
            answer = None if bound.signature.return_annotation == "None" else Answer()
            self.asked.append((name, bound.arguments, answer))
            return answer

        async def wait(*args: object, **kwargs: object) -> Answer | None:
            return call(*args, **kwargs)

        return wait if inspect.iscoroutinefunction(member) else call


def _answered(found: object) -> object:
    if isinstance(found, SyncSubscription):
        with found:
            return found.receive(PATIENCE_S)
    return found.twin if isinstance(found, SyncSession) else found


def _calls(name: str, method: Callable[..., object]) -> Iterator[dict[str, Any]]:
    """Arguments to call a method with: those that it needs, these and those that have names only, and all."""
    if name == "subscribe":
        yield from SUBSCRIBING
        return
    parameters = list(inspect.signature(method).parameters.values())[1:]
    takes = {"more" if each.kind is VARIOUS else each.name: each for each in parameters}
    needed = [name for name, each in takes.items() if each.default is each.empty and name != "more"]
    by_name = [name for name, each in takes.items() if each.kind is each.KEYWORD_ONLY]
    for names in needed, [*needed, *by_name], takes:
        yield {name: f"<{name}>" for name in names}


@pytest.mark.parametrize(("original", "twin"), TWINS)
def test_each_method_passes_its_arguments_on_and_the_answer_back(original: type, twin: type) -> None:
    with SyncHost() as host:
        recording: Any = Recording(original)
        kinds: list[str] = []
        facade: Any = host if twin is SyncHost else SyncKeyedSessions(host)
        facade.twin = recording
        session = host.bridge.read(lambda: SyncSession(host.bridge, recording))
        facade = session if twin is SyncSession else facade
        for name in _public(original).keys() - NOT_FOR_PROGRAMS - {"iter_entries", "put", "save_every"}:
            method = getattr(original, name)
            if not callable(method):
                assert getattr(facade, name) == (host if name == "host" else f"its {name}")
                continue
            for given in _calls(name, method):
                wanted = inspect.signature(method).bind(recording, **given)
                wanted.apply_defaults()
                if "session" in given:
                    given["session"], wanted.arguments["session"] = session, recording
                found = getattr(facade, name)(**given)
                if name == "subscribe":
                    kinds.append(type(found).__name__.removeprefix("Sync").removesuffix("Subscription"))
                answer = _answered(found)
                assert recording.asked.pop() == (name, wanted.arguments, answer)
        if twin is SyncSession:
            assert kinds == ["Entry", "Entry", "Transient", "Event", "Event", ""]
            with pytest.raises(InvalidInput):
                facade.subscribe("tree", after=3)
            with facade:
                pass
            assert recording.asked.pop()[0] == "close"


def test_a_session_of_another_host_is_copied_with_what_was_asked_for(tmp_path: Path) -> None:
    with SyncHost(tmp_path) as host, SyncHost() as other:
        session = host.create("one", cwd="/first")
        session.append_message("user", "one")
        assert other.fork_from(session, session_id="two").id == "two"
        other.put(session)
        with pytest.raises(SessionExists):
            other.put(session)
        assert other.put(session, replace=True).message_count == 1
        with pytest.raises(InvalidInput, match="not a session"):
            other.put("one")  # type: ignore[arg-type]


def test_both_hosts_take_the_same_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = inspect.signature(SessionHost).parameters
    found = inspect.signature(SyncHost).parameters
    assert {name: str(found[name]) for name in wanted} == {name: str(wanted[name]) for name in wanted}
    assert found.keys() - wanted.keys() == {"backend", "backend_options", "host"}
    given: dict[str, Any] = {name: f"<{name}>" for name in wanted if name != "signals"}
    made: list[dict[str, object]] = []
    monkeypatch.setattr(sync_host, "SessionHost", lambda root, **others: made.append({"root": root, **others}))
    SyncHost(**given)
    assert made == [given]
    for wrong in ({"root": "x"}, {"store": MemoryStore()}):
        with pytest.raises(InvalidInput, match="a host is given"):
            SyncHost(host=SessionHost(), **wrong)
    with pytest.raises(InvalidInput, match="backend"):
        SyncHost(backend="curio")  # type: ignore[arg-type]
