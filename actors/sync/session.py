"""Sessions for programs without an event loop, and how the members of the facade are derived from their async twins.

Most members are derived: `append = awaited(Session.append)` has the signature, for type checkers too, and the docstring
of its twin. Written out are those whose types differ: sessions as arguments, iterations, overloads. There is no logic
here; a call goes through the `Bridge` to the thread of the host's event loop.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    Never,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from ...events.arguments import check_count
from ...events.entries import Entry
from ...events.redaction import Redaction
from ...events.stores.base import Cursor
from ...projections.base import Projection
from ...projections.context import Context
from ...projections.context_changes import ContextChange
from ...projections.labels import LabelChange
from ...projections.session_state import SessionState
from ...projections.subscriptions import refuse_entry_arguments
from ...projections.tree import Tree, TreeChange
from ...projections.views import Changed, Snapshot
from ..search.hits import Search
from ..session.branching import SessionCopy, copy_of
from ..session.exporting import ExportFormat
from ..session.reading import is_of_custom_type
from ..session.session import Session
from .bridge import Bridge
from .subscriptions import (
    SyncEntrySubscription,
    SyncEventSubscription,
    SyncSearch,
    SyncSubscription,
    SyncTransientSubscription,
)

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
P = ParamSpec("P")
V = TypeVar("V")
C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., object])

Async: TypeAlias = Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]
"""An async method of a twin."""


class Facade(Generic[T]):
    """What stands in any thread for an object of the host's event loop.

    Attributes:
        bridge: The connection to that loop; internal.
        twin: The object, which does the work; internal.
    """

    __slots__ = ("__weakref__", "bridge", "twin")

    def __init__(self, bridge: Bridge, twin: T) -> None:
        self.bridge = bridge
        self.twin = twin


# -- deriving members


class Blocking(Protocol[P, R_co]):
    """A derived method, as type checkers see it: it takes the arguments of its twin."""

    @overload
    def __get__(self, instance: None, owner: type[object], /) -> Callable[Concatenate[Any, P], R_co]: ...
    @overload
    def __get__(self, instance: Facade[Any], owner: type[object], /) -> Callable[P, R_co]: ...


class Shown(Protocol[R_co]):
    """A derived property, as type checkers see it."""

    @overload
    def __get__(self, instance: None, owner: type[object], /) -> property: ...
    @overload
    def __get__(self, instance: Facade[Any], owner: type[object], /) -> R_co: ...
    def __set__(self, instance: Facade[Any], value: Never, /) -> None: ...


def awaited(method: Async[P, R]) -> Blocking[P, R]:
    """Derive the blocking twin of an async method."""
    return _derived(method, lambda facade, call: facade.bridge.wait(call))


def read(method: Callable[Concatenate[Any, P], R]) -> Blocking[P, R]:
    """Derive the twin of a method that answers at once, in the event loop."""
    return _derived(method, lambda facade, call: facade.bridge.read(call))


@overload
def opened(method: Async[P, Session]) -> Blocking[P, SyncSession]: ...
@overload
def opened(method: Async[P, Session | None]) -> Blocking[P, SyncSession | None]: ...


def opened(method: Async[P, Session | None]) -> Blocking[P, SyncSession | None]:
    """Derive the twin of an async method that returns a session, or None."""

    def wait(facade: Facade[Any], call: Callable[[], Awaitable[Session | None]]) -> SyncSession | None:
        session = facade.bridge.wait(call)
        return None if session is None else SyncSession(facade.bridge, session)

    return _derived(method, wait, returned="Sync" + method.__annotations__["return"])


def searched(method: Callable[Concatenate[Any, P], Search]) -> Blocking[P, SyncSearch]:
    """Derive the twin of a method that returns a search."""
    return _derived(
        method, lambda facade, call: SyncSearch(facade.bridge, facade.bridge.read(call)), returned="SyncSearch"
    )


def _derived(
    method: Callable[Concatenate[Any, P], T],
    run: Callable[[Facade[Any], Callable[[], T]], R],
    returned: str | None = None,
) -> Blocking[P, R]:
    """Derive a method that runs the twin's; `returned` is the type that is shown, if it is not the twin's."""

    @wraps(method)
    def call(self: Facade[Any], *args: P.args, **kwargs: P.kwargs) -> R:
        return run(self, partial(getattr(self.twin, method.__name__), *args, **kwargs))  # a remote host has its own

    if returned is not None:
        call.__annotations__ = {**call.__annotations__, "return": returned}
        call.__signature__ = signature(call).replace(return_annotation=returned)  # type: ignore[attr-defined]  # shown
    return cast("Blocking[P, R]", call)  # a function binds itself to its instance


class _Property(property):
    """A property that takes its docstring from the twin's, by the name that it is given."""

    def __set_name__(self, owner: type[object], name: str) -> None:
        self.__doc__ = getattr(Session, name).__doc__


def shown(get: Callable[[Session], R]) -> Shown[R]:
    """Derive a property."""
    found = _Property(lambda self: self.bridge.read(lambda: get(self.twin)))
    return cast("Shown[R]", found)


def like(method: Callable[..., object]) -> Callable[[F], F]:
    """Give a method that is written out the docstring of its twin."""

    def describe(written: F) -> F:
        written.__doc__ = method.__doc__
        return written

    return describe


class SyncSession(Facade[Session]):
    """One session of a `SyncHost`, which creates it; every method may be called from any thread.

    Attributes:
        id: The session's id, from its header.
        ref: The name of its log in the store.
    """

    __slots__ = ("id", "ref")

    def __init__(self, bridge: Bridge, twin: Session) -> None:
        super().__init__(bridge, twin)
        self.id = twin.id
        self.ref = twin.ref

    def __repr__(self) -> str:
        return f"SyncSession({self.id!r})"

    def copy(self) -> SessionCopy:
        """Return a copy of the whole session, which any host can put or fork; internal."""
        return self.bridge.wait(lambda: copy_of(self.twin))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- appending

    append = awaited(Session.append)
    append_many = awaited(Session.append_many)
    append_message = awaited(Session.append_message)
    append_model_change = awaited(Session.append_model_change)
    append_thinking_level_change = awaited(Session.append_thinking_level_change)
    append_compaction = awaited(Session.append_compaction)
    append_session_info = awaited(Session.append_session_info)
    append_custom_entry = awaited(Session.append_custom_entry)
    append_custom_message = awaited(Session.append_custom_message)
    append_context_edit = awaited(Session.append_context_edit)
    append_usage = awaited(Session.append_usage)
    append_tool_execution = awaited(Session.append_tool_execution)
    save_turn = awaited(Session.save_turn)
    set_label = awaited(Session.set_label)

    # -- branching

    branch = awaited(Session.branch)
    reset_leaf = awaited(Session.reset_leaf)
    branch_with_summary = awaited(Session.branch_with_summary)
    create_branched_session = opened(Session.create_branched_session)
    fork = opened(Session.fork)
    summarize_branch = awaited(Session.summarize_branch)

    # -- resuming after an interruption

    open_calls = awaited(Session.open_calls)
    close_open_calls = awaited(Session.close_open_calls)
    recover = awaited(Session.recover)

    # -- as a whole

    metadata = shown(lambda session: session.metadata)
    update_metadata = awaited(Session.update_metadata)
    stored_message = awaited(Session.stored_message)
    rebind = awaited(Session.rebind)
    stats = awaited(Session.stats)
    total_tokens = awaited(Session.total_tokens)
    tool_executions = awaited(Session.tool_executions)
    budget = read(Session.budget)

    # -- as one conversation

    history = awaited(Session.history)
    set_history = awaited(Session.set_history)
    truncate_history = awaited(Session.truncate_history)
    summary = shown(lambda session: session.summary)
    set_summary = awaited(Session.set_summary)
    title = shown(lambda session: session.title)
    set_title = awaited(Session.set_title)
    updated = shown(lambda session: session.updated)
    event_count = awaited(Session.event_count)
    total_usage = awaited(Session.total_usage)

    # -- contexts that fit

    build_context = awaited(Session.build_context)
    context_report = awaited(Session.context_report)
    used_tokens = awaited(Session.used_tokens)
    compact = awaited(Session.compact)
    dry_compact = awaited(Session.dry_compact)
    summary_for_range = awaited(Session.summary_for_range)

    # -- reading the index

    header = shown(lambda session: session.header)
    file_path = shown(lambda session: session.file_path)
    created = shown(lambda session: session.created)
    name = shown(lambda session: session.name)
    leaf_id = shown(lambda session: session.leaf_id)
    cursor = shown(lambda session: session.cursor)
    message_count = shown(lambda session: session.message_count)
    tree = read(Session.tree)
    path = read(Session.path)
    children = read(Session.children)
    label = read(Session.label)
    labels = read(Session.labels)
    find_by_label = read(Session.find_by_label)

    # -- reading entries

    entry = awaited(Session.entry)
    entries = awaited(Session.entries)

    @like(Session.iter_entries)
    def iter_entries(self, after: int = 0, *, custom_type: str | None = None) -> Iterator[Entry]:
        check_count("after", after)
        log = self.bridge.wait(self.twin.log)
        head = log.index.head
        while after < head:
            entries, after = self.bridge.wait(partial(log.page, after, head))
            yield from (entry for entry in entries if is_of_custom_type(entry, custom_type))

    context = awaited(Session.context)
    state = awaited(Session.state)
    messages = awaited(Session.messages)
    all_messages = awaited(Session.all_messages)
    find_safe_cut = awaited(Session.find_safe_cut)
    view = awaited(Session.view)
    rebuild = awaited(Session.rebuild)

    # -- exporting

    @overload
    def export(
        self,
        format: ExportFormat,
        destination: None = None,
        *,
        leaf_id: str | None = None,
        redact: Redaction | None = None,
        overwrite: bool = False,
    ) -> bytes: ...
    @overload
    def export(
        self,
        format: ExportFormat,
        destination: str | os.PathLike[str],
        *,
        leaf_id: str | None = None,
        redact: Redaction | None = None,
        overwrite: bool = False,
    ) -> Path: ...

    @like(Session.export)
    def export(
        self,
        format: ExportFormat,
        destination: str | os.PathLike[str] | None = None,
        *,
        leaf_id: str | None = None,
        redact: Redaction | None = None,
        overwrite: bool = False,
    ) -> bytes | Path:
        if destination is None:
            return self.bridge.wait(
                lambda: self.twin.export(format, leaf_id=leaf_id, redact=redact, overwrite=overwrite)
            )
        return self.bridge.wait(
            lambda: self.twin.export(format, destination, leaf_id=leaf_id, redact=redact, overwrite=overwrite)
        )

    hand_over = awaited(Session.hand_over)

    # -- following

    @overload
    def subscribe(
        self, view: Literal["entries"] = "entries", *, after: Cursor | int = 0, transient: Literal[False] = False
    ) -> SyncEntrySubscription: ...
    @overload
    def subscribe(
        self, view: Literal["entries"] = "entries", *, after: Cursor | int = 0, transient: Literal[True]
    ) -> SyncTransientSubscription: ...
    @overload
    def subscribe(
        self, view: Literal["entries"] = "entries", *, after: Cursor | int = 0, transient: bool
    ) -> SyncEntrySubscription | SyncTransientSubscription: ...
    @overload
    def subscribe(
        self,
        view: Literal["entries"] = "entries",
        *,
        after: Cursor | int = 0,
        transient: bool = False,
        leaf: Literal[True],
    ) -> SyncEventSubscription: ...
    @overload
    def subscribe(self, view: Literal["context"]) -> SyncSubscription[Snapshot[Context] | Changed[ContextChange]]: ...
    @overload
    def subscribe(self, view: Literal["tree"]) -> SyncSubscription[Snapshot[Tree] | Changed[TreeChange]]: ...
    @overload
    def subscribe(
        self, view: Literal["labels"]
    ) -> SyncSubscription[Snapshot[list[tuple[str, str]]] | Changed[LabelChange]]: ...
    @overload
    def subscribe(
        self, view: Literal["session_state"]
    ) -> SyncSubscription[Snapshot[SessionState] | Changed[SessionState]]: ...
    @overload
    def subscribe(self, view: str) -> SyncEntrySubscription | SyncSubscription[Snapshot[Any] | Changed[Any]]: ...
    @overload
    def subscribe(self, view: Projection[V, C]) -> SyncSubscription[Snapshot[V] | Changed[C]]: ...

    @like(Session.subscribe)
    def subscribe(
        self,
        view: str | Projection[Any, Any] = "entries",
        *,
        after: Cursor | int = 0,
        transient: bool = False,
        leaf: bool = False,
    ) -> SyncEntrySubscription | SyncTransientSubscription | SyncEventSubscription | SyncSubscription[Any]:
        if view == "entries" and leaf:
            events = self.bridge.read(lambda: self.twin.subscribe(after=after, transient=transient, leaf=True))
            return SyncEventSubscription(self.bridge, events)
        if view == "entries" and transient:
            items = self.bridge.read(lambda: self.twin.subscribe(after=after, transient=True))
            return SyncTransientSubscription(self.bridge, items)
        if view == "entries":
            entries = self.bridge.read(lambda: self.twin.subscribe(after=after))
            return SyncEntrySubscription(self.bridge, entries)
        refuse_entry_arguments(after, transient, leaf)
        return SyncSubscription(self.bridge, self.bridge.read(lambda: self.twin.subscribe(view)))

    emit = read(Session.emit)
    emit_text = read(Session.emit_text)

    # -- refreshing and closing

    refresh = awaited(Session.refresh)
    flush = awaited(Session.flush)
    close = awaited(Session.close)
    passivate = awaited(Session.passivate)
