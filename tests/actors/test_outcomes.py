"""What callers get, and what the log and the session have then, for everything that a store can answer to an append."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from treering import (
    AppendFailed,
    AppendInDoubt,
    EntryNotFound,
    Limits,
    LogReplaced,
    MemoryStore,
    Message,
    Reset,
    Session,
    SessionHost,
    TreeringError,
    Usage,
    message,
    plain_text,
    text,
)
from treering.actors.commands import AppendOptions
from treering.errors import LeafMoved
from treering.events.dialects.detect import DialectName
from treering.events.dialects.pi.dialect import PiDialect
from treering.events.entries import EPOCH, MessageEntry
from treering.events.stores.base import (
    Append,
    BlobKind,
    Committed,
    Cursor,
    Failed,
    Fenced,
    InDoubt,
    Lease,
    Outcome,
    Page,
    Ref,
)
from treering.projections import UsageProjection

FULL = AppendFailed("the disk is full")
UNKNOWN = AppendInDoubt("nobody knows")


class Scripted(MemoryStore):
    """Answers one append as it is told to.

    Attributes:
        answer: What answers that append; all others are carried out.
        skipped: How many appends come before it.
        at_once: Whether appends need not be awaited.
        moves: How many of the next leaf records come too late, since another program has appended a line.
        unreadable: Whether the next look at the log fails.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answer: Answer | None = None
        self.skipped = 0
        self.at_once = True
        self.others = 0
        self.moves = 0
        self.unreadable = False

    async def resolve(self, lease: Lease) -> Cursor:
        if self.unreadable:
            self.unreadable = False
            raise OSError(errno.EIO, "Input/output error")
        return await super().resolve(lease)

    def try_append(self, append: Append) -> Outcome | None:  # type: ignore[override]  # like a remote store
        return self._answered(append) if self.at_once else None

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        await checkpoint()
        return [self._answered(append) for append in appends]

    def _answered(self, append: Append) -> Outcome:
        if self.skipped:
            self.skipped -= 1
        elif (answer := self.answer) is not None:
            self.answer = None
            return answer(self, append)
        return self.write(append)

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        if kind == "leaf" and self.moves:
            self.moves -= 1
            self.write_theirs(Append(lease, head, ()))
            raise LeafMoved("another line was appended")
        await super().save(lease, kind, head, data)

    def write(self, append: Append, count: int | None = None) -> Outcome:
        return super().try_append(replace(append, lines=append.lines[:count]))

    def write_theirs(self, append: Append) -> Append:
        """Let another program append a line, and return the append as it would be after that."""
        self.others += 1
        theirs = MessageEntry(
            id=f"other{self.others}", parent_id=None, timestamp=EPOCH, message=Message("user", (text("theirs"),))
        )
        line, _ = PiDialect().write(theirs)
        outcome = super().try_append(replace(append, lines=(line,), atomic=False))
        assert isinstance(outcome, Committed)
        return replace(append, expected_head=outcome.head)


Answer: TypeAlias = Callable[[Scripted, Append], Outcome]


def fenced(store: Scripted, append: Append) -> Outcome:
    return Fenced(store.write_theirs(append).expected_head, append.lease.epoch)


def after_another(store: Scripted, append: Append) -> Outcome:
    return store.write(store.write_theirs(append))


def removed_again(store: Scripted, append: Append) -> Outcome:
    head = store.write_theirs(append).expected_head
    return Committed(replace(head, seq=head.seq + len(append.lines)))


def failed(store: Scripted, append: Append) -> Outcome:
    return Failed(append.expected_head, FULL)


def in_part(store: Scripted, append: Append) -> Outcome:
    outcome = store.write(append, 1)
    assert isinstance(outcome, Committed)
    return Failed(outcome.head, FULL)


def in_doubt(store: Scripted, append: Append) -> Outcome:
    return InDoubt(UNKNOWN)


def written_in_doubt(store: Scripted, append: Append) -> Outcome:
    store.write(append)
    return InDoubt(UNKNOWN)


def broken_disk(store: Scripted, append: Append) -> Outcome:
    raise OSError(errno.EIO, "Input/output error")


def bug(store: Scripted, append: Append) -> Outcome:
    store.write(append, 1)
    raise ZeroDivisionError


# What two senders get whose entries "two" and "three" are one write, and the texts in the log after that. One sender
# gets what the first of two does; where a store lands one line of two, its only line.
EXPECTED: dict[Answer, tuple[list[type[Exception] | None], list[str]]] = {
    fenced: ([None, None], ["one", "theirs", "two", "three"]),
    after_another: ([None, None], ["one", "theirs", "two", "three"]),
    removed_again: ([AppendFailed, AppendFailed], ["one", "theirs"]),
    failed: ([AppendFailed, AppendFailed], ["one"]),
    in_part: ([None, AppendFailed], ["one", "two"]),
    in_doubt: ([AppendInDoubt, AppendInDoubt], ["one"]),
    written_in_doubt: ([AppendInDoubt, AppendInDoubt], ["one", "two", "three"]),
    broken_disk: ([AppendFailed, AppendFailed], ["one"]),
    bug: ([ZeroDivisionError, ZeroDivisionError], ["one", "two"]),
}

every_answer = pytest.mark.parametrize("answer", EXPECTED, ids=lambda answer: answer.__name__)


async def texts(session: Session) -> list[str]:
    entries = await session.entries()
    return [plain_text(each.message.content) for each in entries if isinstance(each, MessageEntry)]


class Senders:
    """Sends appends, and records what each got."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.got: list[type[Exception] | None] = []
        self.ids: list[str] = []

    async def send(self, call: Callable[[], Awaitable[str | list[str]]]) -> None:
        try:
            found = await call()
        except (TreeringError, OSError, ZeroDivisionError) as error:
            self.got.append(type(error))
        else:
            self.got.append(None)
            self.ids += [found] if isinstance(found, str) else found

    async def check(self, store: Scripted, expected: list[str]) -> None:
        """Check that the log holds the expected texts and what was acknowledged, in the session and for a reader."""
        session = self.session
        assert store.answer is None
        last = await session.append_message("user", "last")
        assert await texts(session) == [*expected, "last"]
        assert session.leaf_id == last
        ids = [entry.id for entry in await session.entries()]
        assert [each for each in ids if each in self.ids] == self.ids
        index = (await session.log()).index
        await session.passivate()
        assert await texts(session) == [*expected, "last"]
        assert (await session.log()).index == index
        assert session.leaf_id == last


@every_answer
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "awaited"])
@pytest.mark.parametrize("how", ["message", "payload", "named"])
async def test_one_append(answer: Answer, at_once: bool, how: str) -> None:
    store = Scripted()
    async with SessionHost(store=store, dialect="pi") as host:
        session = await host.create()
        first = await session.append_message("user", "one")
        senders = Senders(session)
        calls: dict[str, Callable[[], Awaitable[str]]] = {
            "message": lambda: session.append_message("user", "two"),
            "payload": lambda: session.append(message("user", "two"), below=first),
            "named": lambda: session.append_message("user", "two", command_id="c"),
        }
        store.answer, store.at_once = answer, at_once
        await senders.send(calls[how])
        (expected, _), after = EXPECTED[answer]
        after = [each for each in after if each != "three"]
        if answer is in_part:
            expected = AppendFailed if at_once else None
        elif answer is broken_disk and at_once:
            expected = OSError
        elif answer is broken_disk and how == "named":
            expected = AppendInDoubt
        assert senders.got == [expected]
        assert host.statistics().failures == (answer in (failed, in_part, in_doubt, written_in_doubt))
        if how == "named" and answer is not removed_again:  # the same request again is carried out once
            again = await session.append_message("user", "two", command_id="c")
            assert senders.ids in ([], [again])
            after = [*after, "two"] if "two" not in after else after
        elif expected is None:
            entry = await session.entry(senders.ids[0])
            assert entry is not None
            assert entry.parent_id == ("other1" if answer is fenced and how == "message" else first)
        await senders.check(store, after)


@every_answer
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "awaited"])
async def test_a_batch(answer: Answer, at_once: bool) -> None:
    store = Scripted()
    async with SessionHost(store=store, dialect="pi") as host:
        session = await host.create()
        await session.append_message("user", "one")
        store.answer, store.at_once = answer, at_once
        senders = Senders(session)
        await senders.send(lambda: session.append_many([message("user", each) for each in ("two", "three")]))
        (_, expected), after = EXPECTED[answer]
        assert senders.got == [OSError if answer is broken_disk and at_once else expected]
        await senders.check(store, ["one"] if answer in (in_part, bug) else after)  # a torn batch is not shown


@every_answer
async def test_two_appends_that_waited_for_another(answer: Answer) -> None:
    store = Scripted()
    async with SessionHost(store=store, dialect="pi") as host:
        session = await host.create()
        await session.append_message("user", "one")
        store.at_once, store.skipped, store.answer = False, 1, answer
        senders = Senders(session)

        async def append(number: str) -> None:
            await senders.send(lambda: session.append_message("user", number))

        async with anyio.create_task_group() as tasks:
            for number in ("begin", "two", "three"):
                tasks.start_soon(append, number)
        expected, after = EXPECTED[answer]
        assert senders.got == [None, *expected]
        await senders.check(store, ["one", "begin", *after[1:]])


async def test_lines_of_a_failed_write_may_be_in_a_log_that_cannot_be_read() -> None:
    store = Scripted()
    async with SessionHost(store=store, dialect="pi") as host:
        session = await host.create()
        await session.append_message("user", "one")
        store.at_once, store.answer, store.unreadable = False, in_part, True
        with pytest.raises(AppendInDoubt, match="cannot be opened or read"):
            await session.append_message("user", "two")
        assert await texts(session) == ["one", "two"]


async def test_an_append_that_is_tried_again_is_carried_out_although_its_sender_is_cancelled() -> None:
    class Cancelling(Scripted):
        async def append(self, appends: Sequence[Append]) -> list[Outcome]:
            outcomes = await super().append(appends)
            if isinstance(outcomes[0], Committed):
                scope.cancel()
            await checkpoint()
            return outcomes

    store = Cancelling()
    async with SessionHost(store=store) as host:
        session = await host.create()
        await session.append_message("user", "one")
        store.at_once, store.answer = False, lambda _, append: Fenced(append.expected_head, append.lease.epoch)
        with anyio.CancelScope() as scope:
            await session.append_message("user", "two")
        assert await texts(session) == ["one", "two"]


async def test_commands_that_waited_are_one_write_and_the_same_command_is_carried_out_once() -> None:
    store = Scripted()
    async with SessionHost(store=store) as host:
        session = await host.create()
        await session.append_message("user", "one")
        store.at_once = False
        ids: list[str] = []

        async def append(content: str) -> None:
            options: AppendOptions = {"command_id": "c"} if content == "once" else {}
            ids.append(await session.append_message("user", content, **options))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(append, "begin")
            for content in ("two", "three"):
                tasks.start_soon(append, content)
        assert host.statistics().batches == 3
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(append, "more")
            for _ in range(3):
                tasks.start_soon(append, "once")
        assert await texts(session) == ["one", "begin", "two", "three", "more", "once"]
        assert ids == session.path()[1:] + [session.leaf_id] * 2


async def test_an_archived_session_comes_back_only_for_a_command_that_is_carried_out() -> None:
    store = Scripted()
    async with SessionHost(store=store) as host:
        session = await host.create("s")
        first = await session.append_message("user", "one")
        await host.archive(session)
        lines = session.cursor.seq
        with pytest.raises(EntryNotFound):
            await session.branch("nowhere")
        with pytest.raises(EntryNotFound):
            await session.append_message("user", "two", below="nowhere")
        store.answer = failed
        with pytest.raises(AppendFailed, match="the disk is full"):
            await session.append_message("user", "two")
        assert ((await host.resolve("s")).status, session.cursor.seq) == ("archived", lines)
        await session.branch(first)
        assert ((await host.resolve("s")).status, session.cursor.seq) == ("active", lines + 1)
        assert session.leaf_id == first


async def test_views_that_are_read_at_the_same_time_fold_each_entry_once() -> None:
    class Yielding(MemoryStore):
        async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
            page = await super().read(ref, generation, after, through=through)
            await checkpoint()
            return page

    async with SessionHost(store=Yielding(), limits=Limits(cache_bytes_max=0)) as host:
        session = await host.create()
        await session.append_message("assistant", "one", usage=Usage(1))
        projection = UsageProjection()
        await session.view(projection)
        await session.append_message("assistant", "two", usage=Usage(2))
        found: list[object] = []

        async def view() -> None:
            found.append(await session.view(projection))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(view)
        assert found == [await session.rebuild(UsageProjection())] * 3


# -- other programs


def always_fenced(store: Scripted, append: Append) -> Outcome:
    store.answer = always_fenced
    return fenced(store, append)


async def test_an_append_or_a_branch_that_always_comes_too_late_is_given_up() -> None:
    store = Scripted()
    async with SessionHost(store=store, dialect="pi") as host:
        session = await host.create()
        first = await session.append_message("user", "one")
        store.answer = always_fenced
        with pytest.raises(AppendFailed, match="another program keeps appending to this log"):
            await session.append_message("user", "two")
        assert store.others == 65  # once at once, and 64 times in the mailbox
        store.answer = None
        last = await session.append_message("user", "three")
        assert await texts(session) == ["one", *["theirs"] * 65, "three"]
        for moves in (1, 63, 64):
            store.moves = moves
            if moves < 64:
                await session.branch(first)
            else:
                with pytest.raises(AppendFailed, match="another program keeps appending to this log"):
                    await session.branch(last)
            assert store.moves == 0
            await session.refresh()
            assert session.leaf_id == (first if moves < 64 else f"other{store.others}")
            assert await session.passivate()
            assert session.leaf_id == (first if moves < 64 else f"other{store.others}")


CALLS: dict[str, Callable[[Session, list[str]], Awaitable[object]]] = {
    "message": lambda session, ids: session.append_message("user", "lost"),
    "named": lambda session, ids: session.append_message("user", "lost", command_id="c"),
    "many": lambda session, ids: session.append_many([message("user", "lost")] * 2),
    "edit": lambda session, ids: session.append_context_edit(ids[0], "lost"),
    "compaction": lambda session, ids: session.append_compaction("lost", ids[1], 1),
    "branch": lambda session, ids: session.branch(ids[0]),
    "reset": lambda session, ids: session.reset_leaf(),
    "read": lambda session, ids: session.entries(),
}


@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.parametrize("call", CALLS.values(), ids=[*CALLS])
async def test_a_call_after_the_file_was_replaced_says_so_once_and_changes_nothing(
    tmp_path: Path, dialect: DialectName, call: Callable[[Session, list[str]], Awaitable[object]]
) -> None:
    async with SessionHost(tmp_path, dialect=dialect, limits=Limits(cache_bytes_max=0)) as host:
        session, other = await host.create("main"), await host.create("other")
        ids = [await session.append_message("user", each) for each in ("one", "two")]
        theirs = await other.append_message("user", "theirs")
        await other.passivate()
        path, found = tmp_path / session.ref, []
        async with session.subscribe() as items:
            found += [await anext(items) for _ in ids]
            (tmp_path / other.ref).replace(path)
            before = path.read_bytes()
            is_noticed = call is CALLS["read"] and dialect == "pi"  # a file of pi is looked at before it is read
            with nullcontext() if is_noticed else pytest.raises(LogReplaced, match="was replaced"):
                await call(session, ids)
            assert path.read_bytes() == before
            assert await texts(session) == ["theirs"]
            last = await session.append_message("user", "and on")
            found += [await anext(items) for _ in range(3)]
        assert [each if isinstance(each, Reset) else each.id for each in found] == [
            *ids,
            Reset(Cursor(session.cursor.generation, 0)),
            theirs,
            last,
        ]
        assert path.read_bytes().startswith(before)
        assert session.path() == [theirs, last]
        assert await texts(session) == ["theirs", "and on"]
