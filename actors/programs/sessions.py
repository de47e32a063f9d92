"""The sessions of the programs of this machine, live: a row for each, made from how it begins and ends.

Whoever follows them enters `ProgramSessions` and calls `receive_many` again and again: what was changed last comes
first, then what changes. It runs no task of its own, and holds a bounded number of rows. Notifications say which files
to look at; now and then all folders are searched, for what was not told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self, TypeAlias

from anyio import current_time
from msgspec import Struct

from ...events.disk.notices import PathWatch, here
from ...events.entries import EPOCH
from ...events.errors import TreeringError
from ...events.index import LogIndex
from ...events.offload import Offload, ThreadOffload
from ...events.telemetry import logger
from ...formats.glances import Glance
from ...projections.session_state import SessionState, Word, needed, state_of
from ...projections.summary import project_of, title_of
from .files import Home, Looked, Search, SessionFile, homes_of, look_at, look_up

SESSIONS_MAX = 1000
"""How many sessions are held, those that changed last."""

SEARCHES_EVERY_S = 60.0
"""After how many seconds all folders are searched, in case that a notification was lost."""

POLLS_EVERY_S = 2.0
"""After how many seconds all folders are searched where not all changes are told."""

BUSY_FOR_S = 600.0
"""For how many seconds after its last words a program that was at work is taken to be at it still."""

_AT_ONCE = 16
_EVERY_S = 0.25
_SHARE = 10  # looking at a file takes at most one part in so many of the time
_OVERLAP = timedelta(minutes=1)

Key: TypeAlias = tuple[str, str]
"""A program's name, and the id that it gave a session; of a file that was never read, its path."""


class ProgramSession(Struct, frozen=True, kw_only=True):
    """A row: a session of a program.

    Attributes:
        program: The name of the program's format.
        program_title: The program's name as people know it.
        id: The id that the program gave it; of a file that was never read, its path.
        path: The file that holds it.
        title: Its name, or the beginning of the first words of the user, or None.
        cwd: The folder that it is about.
        updated: The time of its last entry.
        state: What its program is doing, as far as the end of the session tells; None if it cannot be read.
        problem: What cannot be read of it.
    """

    program: str
    program_title: str
    id: str
    path: str
    title: str | None = None
    cwd: str | None = None
    updated: datetime
    state: SessionState | None = None
    problem: str | None = None

    @property
    def key(self) -> Key:
        """What names it among all."""
        return self.program, self.id

    def doing(self, now: datetime) -> Word:
        """Return what its program is doing at a time; one that was at work long ago has stopped without a word."""
        if self.state is None:
            return "error"
        is_past = (now - self.updated).total_seconds() > BUSY_FOR_S
        return "idle" if is_past and self.state.state == "working" else self.state.state


class ProgramChange(Struct, frozen=True):
    """A session is new or changed, or gone.

    Attributes:
        key: The session.
        row: Its row; None if it is gone.
        glance: What the row was made from; None if it is gone, or cannot be read.
    """

    key: Key
    row: ProgramSession | None
    glance: Glance | None = None


class ProgramSessions:
    """The sessions of the programs of this machine, followed as long as it is entered, which may be repeated.

    Args:
        environ: The environment, which says where the programs keep their files.
        programs: The names of the programs; by default all of whom that is known.
        sessions_max: How many rows are held.
        offload: Runs what waits for the disk.

    Attributes:
        rows: The rows, in no order.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        programs: Sequence[str] = (),
        *,
        sessions_max: int = SESSIONS_MAX,
        offload: Offload | None = None,
    ) -> None:
        self.rows: dict[Key, ProgramSession] = {}
        self._environ = environ
        self._programs = tuple(programs)
        self._sessions_max = sessions_max
        self._offload = offload or ThreadOffload()
        self._homes: list[Home] | None = None
        self._entered = ExitStack()
        self._watch: PathWatch | None = None
        self._changed: set[str] = set()  # the paths that were told and not yet looked up
        self._search_at = self._search_from = 0.0  # when all folders are searched, and from when on they may be
        self._files: dict[Path, SessionFile] = {}
        self._due: dict[Path, float] = {}  # the files to look at, and from when on
        self._not_before: dict[Path, float] = {}
        self._keys: dict[Path, set[Key]] = {}
        self._seen_until: dict[Path, datetime] = {}
        self._first: set[Path] | None = None  # those of the first search that have not been looked at
        self._is_told = False
        self._unreadable: set[str] = set()

    def __enter__(self) -> Self:
        """Begin to follow them, in a running event loop."""
        self._watch = self._entered.enter_context(here().watching())
        self._search_at = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        """Follow them no more."""
        self._watch = None
        self._entered.close()

    @property
    def is_complete(self) -> bool:
        """Whether all sessions have been looked at that there were at first."""
        return self._first is not None and not self._first

    async def receive_many(self) -> list[ProgramChange]:
        """Wait for changes; the first ones are the sessions that there are, those that changed last first.

        It can be called again after it was cancelled. It also returns, if need be without a change, when all sessions
        have been looked at that there were at first.

        Raises:
            ForeignFormatError: The package that adds a format cannot be used.
        """
        if self._watch is None:
            raise RuntimeError("the sessions of programs are followed inside a `with` block")
        while True:
            if current_time() >= self._search_at:
                await self._search(self._watch)
                if self._first is not None and not self._files and not self._is_told:
                    self._is_told = True
                    return []
            ripe = self._ripe()
            if ripe:
                was_complete = self.is_complete
                changes = await self._look_at(ripe)
                if changes or self.is_complete != was_complete:
                    return changes
                continue
            if not self._changed:
                told = await self._watch.wait(min([self._search_at, *self._due.values()]) - current_time())
                if told is None:
                    self._search_at = self._search_from
                else:
                    self._changed = told
            if self._changed:
                await self._note()

    # -- what there is to look at

    async def _search(self, watch: PathWatch) -> None:
        begun = current_time()
        if self._homes is None:
            self._homes = await self._offload(homes_of, self._environ, self._programs)
        found = await self._offload(Search, self._homes)
        watch.set_paths(found.watched)
        for path in found.unreadable.keys() - self._unreadable:
            logger().warning("folder_unreadable", path=path, why=found.unreadable[path])
        self._unreadable = {*found.unreadable}
        is_first = self._first is None
        changed = [each for path, each in found.files.items() if not self._is_known(path, each)]
        changed.sort(key=lambda each: each.changed_ns, reverse=True)
        gone = [path for path in self._files if path not in found.files]
        self._files = found.files
        marked = [each.path for each in (changed[: self._sessions_max] if is_first else changed)]
        if is_first:
            self._first = set(marked)
        self._mark([*marked, *gone])
        now = current_time()
        self._search_from = now + (now - begun)  # it takes at most half of the time
        self._search_at = max(now + (SEARCHES_EVERY_S if watch.is_told else POLLS_EVERY_S), self._search_from)

    def _is_known(self, path: Path, file: SessionFile) -> bool:
        known = self._files.get(path)
        return known is not None and known.stamp == file.stamp

    def _mark(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self._due.setdefault(path, self._not_before.get(path, 0.0))

    async def _note(self) -> None:
        """Note which files are to be looked at, of the paths that changed."""
        assert self._homes is not None
        files, is_new = await self._offload(_affected, self._homes, self._changed, self._files)
        self._changed = set()  # only now: a call that was cancelled is repeated
        for path, file in files.items():
            if file is None:
                if self._files.pop(path, None) is not None:
                    self._mark([path])
            elif not self._is_known(path, file):
                self._files[path] = file
                self._mark([path])
        if is_new:
            self._search_at = self._search_from

    def _ripe(self) -> list[Path]:
        now = current_time()
        return [path for path, at in self._due.items() if at <= now][:_AT_ONCE]

    # -- looking

    async def _look_at(self, paths: Sequence[Path]) -> list[ProgramChange]:
        there = [(file, self._seen_until.get(path)) for path in paths if (file := self._files.get(path)) is not None]
        results = await self._offload(look_at, there)
        for path in paths:  # only now, as above
            del self._due[path]
        if self._first:
            self._first.difference_update(paths)
        changes = [change for path in paths if path not in self._files for change in self._forget(path)]
        for looked in results:
            path = looked.file.path
            if looked.is_gone:
                self._files.pop(path, None)
                changes += self._forget(path)
            else:
                self._not_before[path] = current_time() + max(_EVERY_S, _SHARE * looked.cost_s)
                changes += self._take(path, looked)
        return changes + self._beyond_bound()

    def _take(self, path: Path, looked: Looked) -> list[ProgramChange]:
        format, since = looked.file.format, self._seen_until.get(path)
        before = self._keys.get(path, set())
        if looked.error is not None:
            row = _unreadable(looked.file, looked.error, self._last_row(path))
            self._keys[path] = before | {row.key}
            return self._put(row, None)
        rows = [(_row(format.name, format.title, each), each) for each in looked.sessions]
        if any(each.modified is None for each in looked.sessions):
            latest = max(row.updated for row, _ in rows)
            self._seen_until[path] = max(latest - _OVERLAP, since or EPOCH)
        keys = {row.key for row, _ in rows}
        gone = before - keys - {(format.name, each) for each in looked.ids}
        self._keys[path] = keys | (before - gone)
        changes = [change for key in gone for change in self._drop(key, path)]
        return changes + [change for row, glance in rows for change in self._put(row, glance)]

    def _put(self, row: ProgramSession, glance: Glance | None) -> list[ProgramChange]:
        known = self.rows.get(row.key)
        if row == known or (known is not None and known.path != row.path and known.updated > row.updated):
            return []
        self.rows[row.key] = row
        return [ProgramChange(row.key, row, glance)]

    def _last_row(self, path: Path) -> ProgramSession | None:
        known = [row for key in self._keys.get(path, ()) if (row := self.rows.get(key)) is not None]
        return known[0] if len(known) == 1 else None

    def _forget(self, path: Path) -> list[ProgramChange]:
        self._not_before.pop(path, None)
        self._seen_until.pop(path, None)
        return [change for key in self._keys.pop(path, ()) for change in self._drop(key, path)]

    def _drop(self, key: Key, path: Path) -> list[ProgramChange]:
        row = self.rows.get(key)
        if row is None or row.path != str(path):
            return []
        del self.rows[key]
        return [ProgramChange(key, None)]

    def _beyond_bound(self) -> list[ProgramChange]:
        """Drop the rows that changed longest ago, if there are too many."""
        surplus = len(self.rows) - self._sessions_max
        if surplus <= 0:
            return []
        oldest = sorted(self.rows.values(), key=lambda row: row.updated)[:surplus]
        return [change for row in oldest for change in self._drop(row.key, Path(row.path))]


def _affected(
    homes: Sequence[Home], changed: set[str], known: Mapping[Path, SessionFile]
) -> tuple[dict[Path, SessionFile | None], bool]:
    """Return the files that a change concerns, as they are now, and whether to search all folders. Blocks."""
    files: dict[Path, SessionFile | None] = {}
    is_new = False
    for path in map(Path, changed):
        for home in homes:
            if path == home.folder or path in home.folder.parents:
                is_new = True
            elif home.folder in path.parents:
                holder = home.format.holder_of(home.folder, path)
                is_folder = holder.is_dir()
                may_hold = home.format.may_hold(home.folder, holder, is_folder=is_folder)
                if may_hold and is_folder:
                    is_new = True
                elif may_hold or holder in known:
                    files[holder] = look_up(home, holder)
    return files, is_new


def _row(program: str, program_title: str, glance: Glance) -> ProgramSession:
    index = LogIndex(glance.header)
    entries = [*glance.entries]
    index.fold_all(entries)
    state = state_of(index, [entries[seq - 1] for seq in needed(index)])
    last = index.last_time if entries else glance.modified or glance.header.timestamp
    return ProgramSession(
        program=program,
        program_title=program_title,
        id=glance.header.id,
        path=str(glance.path),
        title=title_of(index),
        cwd=project_of(index),
        updated=last,
        state=state,
        problem=None if glance.damage is None else glance.damage.message,
    )


def _unreadable(file: SessionFile, error: TreeringError, last: ProgramSession | None) -> ProgramSession:
    """Return the row of a file that cannot be read; what it held before says which session that was."""
    return ProgramSession(
        program=file.format.name,
        program_title=file.format.title,
        id=str(file.path) if last is None else last.id,
        path=str(file.path),
        title=file.path.name if last is None else last.title,
        cwd=None if last is None else last.cwd,
        updated=datetime.fromtimestamp(file.changed_ns // 10**9, UTC),
        problem=error.message,
    )
