"""The part of a host that creates, opens, copies, keeps and deletes sessions."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ...events.arguments import check_text
from ...events.dialects.base import Dialect
from ...events.entries import Header
from ...events.errors import InvalidInput, LogDamaged, NotASession, SessionExists, SessionLocked, SessionNotFound
from ...events.stores.base import Ref, Store
from ...events.stores.capabilities import RemovesDamaged
from ..catalog.settings import Settings
from ..commands import Unarchive
from ..log.open_log import OpenLog
from ..log.source import Source
from ..session import branching
from ..session.branching import SessionCopy, copy_of
from ..session.session import Session
from ..transfer.reports import ImportReports
from .lookup import SessionLike, SessionLookup
from .names import absolute, checked_id, checked_path, ref_of_key
from .tasks import on_own_task

if TYPE_CHECKING:
    from ..catalog.archiving import RetentionReport


class SessionOpening(SessionLookup):
    """The calls of a host that open sessions, and those that act on whole ones; the second base of `SessionHost`."""

    def __init__(self, store: Store, dialect: Dialect, settings: Settings) -> None:
        super().__init__(store)
        self._dialect = dialect
        self._settings = settings

    # -- opening existing sessions

    async def load(self, session: SessionLike, *, read_only: bool = False) -> Session:
        """Open an existing session; an archived one is brought back, unless it is opened read-only.

        Args:
            session: Its id, its name, "last", the path of its file, or its row; see `resolve`, which also finds it by
                the beginning of its id.
            read_only: Take no lock and change no byte, and follow what another process writes.

        Raises:
            SessionNotFound: There is no such session.
            AmbiguousSession: Several sessions match.
            SessionLocked: Another process or host owns it, and commands are not sent there (`placement`); it can be
                loaded read-only.
            NotASession: The file does not begin with a header, or is a directory; it was left as it is.
            UnsupportedVersion: A newer program wrote the file; it was left as it is.
            ReadOnly: This process may not write there; it can be loaded read-only.
            OSError: The file cannot be read.
        """
        core = self.core
        core.check()
        if not read_only:
            await core.recover()
        ref = await self._find(session)
        source = core.registry.source(ref)
        if read_only:
            await core.turn()
            log = await source.ready()
            return Session(core, source, log.index.header.id, read_only=True)
        await self._refuse_others(ref)
        actor = await core.activated(source)
        if actor is None:
            return Session(core, source, (await source.ready()).index.header.id)
        if actor.archived or actor.owned.gone:
            await actor.perform(Unarchive())
        self.catalog.listing.accessed(ref)
        return Session(core, source, actor.log.index.header.id)

    async def find_recent(self, *, cwd: str | os.PathLike[str] | None = None) -> Session | None:
        """Open the session with the latest message, or return None if there is none.

        Loading a session does not make it more recent.

        Args:
            cwd: Only sessions of this project; one that was set as its current session is preferred.

        Raises:
            SessionLocked: Another process or host owns that session; `load` lists everything that opening may raise.
        """
        await self.core.recover()
        if cwd is not None:
            current = await self.catalog.current(cwd)
            if current is not None:
                return await self.load(current)
        latest = await self.catalog.latest(cwd)
        return None if latest is None else await self.load(latest)

    # -- creating and opening sessions

    async def create(
        self,
        session_id: str | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        parent_session: str | None = None,
        parent_entry: str | None = None,
        key: str | None = None,
    ) -> Session:
        """Create a session; its file appears with the first append.

        Args:
            session_id: The session's id; a fresh uuid4 by default.
            cwd: The directory that the conversation is about; its absolute path is stored.
            parent_session: The session that it was forked from, or that started it.
            parent_entry: The entry of that session at which it was started.
            key: The name under which the program finds the session, which determines its id; see `get_or_create`.

        Raises:
            InvalidSessionId: The id or the key cannot name a file.
            InvalidInput: Both an id and a key are given.
            SessionExists: A session with this id or key exists, or (in the native dialect) a handle of a new one is
                held to which nothing has been appended yet.
        """
        core = self.core
        core.check()
        header, ref = core.new_header(
            session_id,
            cwd=None if cwd is None else absolute(cwd),
            parent_session=parent_session,
            parent_entry=parent_entry,
            key=key,
        )
        if session_id is not None or key is not None:
            await core.recover()
            if await self._is_taken(header.id, ref) or core.registry.is_reserved(ref):
                raise SessionExists(f"session {session_id or key!r} already exists: load it, or choose another name")
        return self._unwritten(header, ref)

    async def _is_taken(self, session_id: str, ref: Ref) -> bool:
        """Return whether a session with this id exists.

        Some dialects put the time into the file's name, so sessions with other file names are checked too.
        """
        if await self.core.registry.present(ref) is not None or await self._store.exists(ref):
            return True
        return self._dialect.shared and await self._exact(session_id) is not None

    def _unwritten(self, header: Header, ref: Ref) -> Session:
        """Return a handle of a session whose log begins with the first append."""
        source = self.core.registry.source(ref)
        source.create(header, self._dialect)
        return Session(self.core, source, header.id)

    async def open(self, session_id: str, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open a session by its id, or create it if it does not exist.

        Raises:
            InvalidSessionId: The id cannot name a file.
            SessionLocked: Another process or host owns the session; `load` lists everything that opening may raise.
        """
        checked_id(session_id)
        self.core.check()
        ref = await self._exact(session_id)
        if ref is not None:
            with suppress(SessionNotFound):  # deleted meanwhile, or its first write was cut short
                return await self.load(self.core.path_of(ref) or ref)
        return self._unwritten(*self.core.new_header(session_id, cwd=None if cwd is None else absolute(cwd)))

    async def get_or_create(self, key: str, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open the session of a key, or create it if it does not exist.

        A key always means the same session, whoever calls and however often. A session in memory is not read again.

        Args:
            key: Any name, such as "telegram:123456"; `SessionKey` makes those of agents and channels.
            cwd: The directory that the conversation is about, if the session is created.

        Raises:
            InvalidSessionId: The key is invalid: empty, ".", "..", or longer than 1 KiB.
            SessionExists: The file of this name belongs to another session.
            SessionLocked: Another process or host owns the session.
            ReadOnly: This process may not write there.
        """
        return await self._of(key, cwd, waits=True)

    async def _of(self, key: str, cwd: str | os.PathLike[str] | None, *, waits: bool) -> Session:
        """Return the session of a key; wait for a process that has locked it if asked to."""
        core = self.core
        core.check()
        ref = ref_of_key(key)
        source, actor = core.registry.source(ref), await core.registry.present(ref)
        if actor is None:
            await core.recover()
            header, _ = core.new_header(None, cwd=None if cwd is None else absolute(cwd), key=key)
            source.create(header, self._dialect)
            actor = await core.activated(source, waits=waits)
            if actor is not None and actor.owned.written:  # without a log, no row would ever take it up
                self.catalog.listing.accessed(ref)
        return self._of_key(key, source, await source.ready() if actor is None else actor.log)

    def _of_key(self, key: str, source: Source, log: OpenLog) -> Session:
        """Return the handle of a key's session after checking that this is its log."""
        stored = log.index.header
        if stored.key != key:
            raise SessionExists(
                f"{source.ref} exists but is not the session of the key {key!r}: move it, or load it by id"
            )
        return Session(self.core, source, stored.id)

    async def find_by_key(self, key: str) -> Session | None:
        """Open the session of a key, or return None if it does not exist; see `get_or_create`.

        One that another process owns is opened too: its handle reads it, and raises `SessionLocked` when it writes.
        """
        self.core.check()
        source = self.core.registry.source(ref_of_key(key))
        if await self.core.registry.present(source.ref) is None:
            await self.core.recover()
            if not await self._store.exists(source.ref):
                return None
        try:
            return await self._of(key, None, waits=False)
        except SessionLocked:
            return self._of_key(key, source, await source.ready())

    async def continue_recent(self, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open the session with the latest message, or create one if there is none; see `find_recent`.

        Raises:
            SessionLocked: Another process or host owns that session; `load` lists everything that opening may raise.
        """
        return await self.find_recent(cwd=cwd) or await self.create(cwd=cwd)

    async def fork_from(self, source: SessionLike, *, session_id: str | None = None) -> Session:
        """Copy a session, including all branches, into a new session of this host whose parent it is.

        Args:
            source: The session, its id, its row, or the path of its file, which may lie anywhere; it is not changed.
            session_id: The id of the copy.

        Raises:
            SessionExists: A session with the id of the copy exists.
            NotFound: There is no session to copy, or the text matches several.
            AppendInDoubt: The copy was written with its leaf, but may not survive a power cut: load it, or repeat the
                call with the same `session_id`.
        """
        if isinstance(source, Session):
            return await self.write_fork(await copy_of(source), session_id)
        async with await self.load(source, read_only=True) as original:
            return await self.write_fork(await copy_of(original), session_id)

    async def put(self, session: Session, *, replace: bool = False) -> Session:
        """Write a whole session of another host, such as one in memory, into this host's store under its own id.

        After a crash it is there whole or not at all. Appends to the returned session are persisted as usual; the
        session that was passed in does not change.

        Args:
            session: The session. One that this host already holds is returned as it is.
            replace: Replace an existing session with the same id, whose file is kept as `.bak`.

        Raises:
            SessionExists: A session with the same id exists, and `replace` is not set.
            SessionLocked: Another process or host owns the existing session.
            ReadOnly: This process may not write there.
            AppendInDoubt: The session was written with its leaf, but may not survive a power cut: load it, or repeat
                the call.
        """
        if not isinstance(session, Session):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"{session!r} is not a session: give the handle that a host returned")
        return await self.write_copy(await copy_of(session), replace=replace)

    async def write_fork(self, copy: SessionCopy, session_id: str | None = None) -> Session:
        """Write a copied session into a new one that names it as its parent; for the library itself."""
        return Session(self.core, *await branching.write_fork(self.core, copy, session_id))

    async def write_copy(self, copy: SessionCopy, *, replace: bool = False) -> Session:
        """Write a copied session under its own id; for the library itself."""
        return Session(self.core, *await branching.write_copy(self.core, copy, replacing=replace))

    async def import_sessions(self, path: str | os.PathLike[str], *, format: str | None = None) -> ImportReports:
        """Import the sessions of other programs, or copies of treering's own; see docs/formats.md.

        Sessions of treering, pi and oh-my-pi keep their lines byte for byte; all others become native. A session that
        already exists here gets what it lacks, so an import can be repeated while its source grows, and two copies that
        were both continued are merged, as two branches. When an import of several sessions fails at one of them, those
        before it stay imported.

        Args:
            path: A file, or a folder, which is searched with everything below it; it is not changed.
            format: The format, such as "claude-code"; by default it is detected from the content of each file.

        Returns:
            A report for each session, those of sub-agents after the session that started them; and which files of a
            folder were not sessions, or could not be imported.

        Raises:
            InvalidInput: The path is not a path, or the format is not text.
            ForeignFormatError: The format is unknown, or nothing can be salvaged; nothing of it was written.
            UnsupportedVersion: A newer program wrote it.
            SessionExists: A different session exists under the name of one of them.
            SessionLocked: Another process or host owns one of them.
            ReadOnly: This process may not write there.
        """
        from ..transfer.importing import import_sessions

        self.core.check()
        source = checked_path(path)
        check_text("the format", format)
        await self.core.recover()
        return await import_sessions(self.core, source, format)

    # -- keeping sessions

    async def archive(self, session: SessionLike) -> None:
        """Archive a session: remove it from the default listing, and compress its file if the store can do that.

        Nothing is lost: the session is still listed under its status, searched, and opened read-only. Loading it for
        writing, or writing to it, brings it back, as `unarchive` does. See docs/keeping.md.

        Raises:
            SessionNotFound: There is no such session, or nothing has been appended to it yet.
            AmbiguousSession: The text matches several sessions.
            SessionLocked: Another process or host owns it.
            ReadOnly: This process may not write there.
            AppendError: The write failed; the session is not archived.
            Conflict: Another program changed the file meanwhile; the session is archived, and its file stays.
            OSError: The file could not be compressed; the session is archived, and its file is as it was.
        """
        from ..catalog.archiving import archive

        self.core.check()
        await self.core.recover()
        await archive(self.core, self.catalog, await self._find_to_write(session))

    async def unarchive(self, session: SessionLike) -> None:
        """Bring an archived session back, byte for byte; one that is not archived stays as it is.

        Raises:
            NotFound: There is no such session, or the text matches several.
            SessionLocked: Another process or host owns it.
            ReadOnly: This process may not write there.
            LogDamaged: Its compressed file is damaged; it was left as it is.
            AppendError: The write failed; the session is still archived.
        """
        from ..catalog.archiving import unarchive

        self.core.check()
        await self.core.recover()
        await unarchive(self.core, await self._find_to_write(session))

    async def apply_retention(self, *, dry_run: bool = False) -> RetentionReport:
        """Archive the sessions that exceed the retention limits of the host's settings; nothing is ever deleted.

        These are the sessions to which nothing has been appended for `auto_archive_after_days`, and in each project
        those beyond `max_sessions_per_project` that were appended to longest ago. Sessions in use, here or elsewhere,
        and the current session of each project are spared. Sessions created without a directory belong to no project.

        Args:
            dry_run: Change nothing, and report what would be done.
        """
        from ..catalog.archiving import retire

        self.core.check()
        await self.core.recover()
        return await retire(self.core, self.catalog, self._settings, dry_run=dry_run)

    # -- deleting

    async def delete(self, session: SessionLike) -> None:
        """Delete a session permanently: its file, and every copy of its content; do nothing if it does not exist.

        The copies are the files beside it: its state before a migration or before it was replaced (`.bak`), and
        fragments that a crash left (`.torn-`). Its line in the index and the pointers to it are removed too. The
        session's handles raise `SessionNotFound` until a session of this name is created anew. Subscriptions to the
        session end, as they do with the host. What the listing shows as corrupted is deleted in the same way, also if
        nothing of it can be read: whoever names it knows that.

        Raises:
            AmbiguousSession: The text matches several sessions; none was deleted.
            SessionLocked: Another process or host owns it.
            NotASession: The path is that of a directory, or of a file without a header that lies outside the root or
                has another name than sessions have; it still exists.
            UnsupportedVersion: A newer program wrote it; it still exists.
            ReadOnly: This process may not write there.
            OSError: The file cannot be deleted; the session still exists.
        """
        core = self.core
        core.check()
        await core.recover()
        try:
            ref = await self._find_to_write(session)
        except SessionNotFound:
            return
        core.check()
        # A repeated call finds no session, and would leave its text in the index.
        await on_own_task(core.runtime, partial(self._delete, ref))

    async def _delete(self, ref: Ref) -> None:
        core = self.core
        source = core.registry.source(ref)
        await self.catalog.listing.leaving(ref)
        try:
            async with source.leased() as lease:
                with anyio.CancelScope(shield=True):
                    await core.runtime.whole_logs.remove(lease)
                    source.deleted()
        except (NotASession, LogDamaged):
            removes = self._store.capability(RemovesDamaged)
            if removes is None:
                raise
            await source.unchanging()
            with source.changing(), anyio.CancelScope(shield=True):
                await removes.remove_damaged(ref)
                source.deleted()
        core.runtime.touched.add(ref)
        with anyio.CancelScope(shield=True):
            await self.catalog.removed(ref)
            await self._searching_of().forget(ref)
