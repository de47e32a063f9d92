"""The sessions of a server, by the calls of a host.

    async with RemoteHost("http://127.0.0.1:8765", token=token) as host:
        session = await host.get_or_create("telegram:123456")
        await session.append_message("user", "Hello")

A remote host is opened and closed as a `SessionHost` is, and its sessions are `Session`s, so what is written for one
runs on the other. The server writes; reading is done here, by the library's own code (see `remote.store`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from ..actors.host.host import SessionHost, Starting
from ..actors.host.listing import ListPosition, SessionsSubscription
from ..actors.host.lookup import SessionLike
from ..actors.host.names import absolute, checked_id, checked_path, ref_of_key
from ..actors.host.runtime import Limits
from ..actors.search.hits import Search
from ..actors.search.searching import Searching
from ..actors.session.branching import SessionCopy, child_of
from ..actors.session.session import Session
from ..actors.transfer.reports import ImportReports
from ..events.arguments import check_text
from ..events.errors import InvalidInput, InvalidSessionId, NotFound, SessionExists, SessionNotFound
from ..events.stores.base import Ref
from ..projections.summary import SessionSummary
from ..wire import ImportReply, RetentionReply, SessionRow
from .catalog import BEGINNING, RemoteCatalog, RemoteSessionsSubscription
from .connection import RETRY_FOR_S, Connection, segment
from .session import RemoteSession, opened
from .store import RemoteStore

if TYPE_CHECKING:
    from ..actors.catalog.archiving import RetentionReport


class RemoteHost(SessionHost):
    """The sessions of a server.

    A request that is cut off, before, within or after its reply, is repeated: nothing is done twice, since each command
    carries its id. Errors are those that the library raised behind the server.

    Args:
        url: The server's address: "http://127.0.0.1:8765", with the path below which it is mounted, if any; or "unix:"
            and the path of its socket.
        token: Who asks, as `treering token create` prints it; None where the server needs none.
        retry_for_s: The seconds for which a request is repeated before it counts as failed.
        limits: The bounds of what is kept here, above all `cache_bytes_max`.

    Raises:
        InvalidInput: The address is none.
    """

    def __init__(
        self, url: str, *, token: str | None = None, retry_for_s: float = RETRY_FOR_S, limits: Limits | None = None
    ) -> None:
        self._connection = Connection(url, token, retry_for_s=retry_for_s)
        store = RemoteStore(self._connection, lambda ref: self.core.registry.source(ref))
        super().__init__(store=store, limits=limits)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.url!r})"

    start = Starting(__init__)  # type: ignore[assignment]  # it takes other arguments, as `__init__` does

    async def _begin(self) -> None:
        await super()._begin()
        self._catalog = RemoteCatalog(self.core.runtime, self._connection)

    # -- opening sessions

    async def load(self, session: SessionLike, *, read_only: bool = False) -> Session:
        """Open an existing session; see `SessionHost.load`."""
        row = await self._row(session)
        if row.archived and not read_only:
            await self.unarchive(row)
        return await self._open(row.ref, read_only=read_only)

    async def create(
        self,
        session_id: str | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        parent_session: str | None = None,
        parent_entry: str | None = None,
        key: str | None = None,
    ) -> Session:
        """Create a session, which the server writes at once; see `SessionHost.create`."""
        folder = None if cwd is None else absolute(cwd)
        self.core.new_header(  # which refuses what the server would
            session_id, cwd=folder, parent_session=parent_session, parent_entry=parent_entry, key=key
        )
        chosen = session_id if session_id is not None or key is not None else self.core.runtime.new_id()
        parents = {"parent_session": parent_session, "parent_entry": parent_entry}
        try:
            chosen = (await self._keyed("/v1/sessions", {"id": chosen, "key": key, "cwd": folder, **parents})).id
        except SessionExists:
            if chosen is None or chosen == session_id:
                raise  # otherwise it is this very one, and the first reply was lost
        return await self._open(chosen)

    async def open(self, session_id: str, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open a session by its id, or create it; see `SessionHost.open`."""
        checked_id(session_id)
        if await self.catalog.listing.row(session_id) is None:
            with suppress(SessionExists):  # created meanwhile
                return await self.create(session_id, cwd=cwd)
        return await self.load(session_id)

    async def get_or_create(self, key: str, *, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Open the session of a key, or create it; see `SessionHost.get_or_create`."""
        folder = None if cwd is None else absolute(cwd)
        self.core.new_header(None, cwd=folder, key=key)  # which refuses what the server would
        self.core.check()
        body = msgspec.json.encode({"cwd": folder})
        row = await self._connection.ask(SessionRow, "PUT", f"/v1/keys/{segment(key)}", body=body)
        return await self._open(row.id)

    async def find_by_key(self, key: str) -> Session | None:
        """Open the session of a key, or return None if it does not exist; see `SessionHost.find_by_key`."""
        ref_of_key(key)
        self.core.check()
        try:
            row = await self._connection.ask(SessionRow, "GET", f"/v1/keys/{segment(key)}")
        except SessionNotFound:
            return None
        return await self._open(row.id)

    async def _open(self, session_id: str, *, read_only: bool = False) -> RemoteSession:
        return await opened(self.core, session_id, self._connection, read_only=read_only)

    async def _keyed(self, path: str, body: dict[str, Any]) -> SessionRow:
        """Ask for a new session, once however often the request is sent."""
        given = {name: value for name, value in body.items() if value is not None}
        headers = {"idempotency-key": self.core.runtime.new_id()}
        return await self._connection.ask(SessionRow, "POST", path, body=msgspec.json.encode(given), headers=headers)

    # -- finding sessions

    def subscribe_sessions(self, *, after: ListPosition | None = None) -> SessionsSubscription:
        """Follow the listing of the server, whoever changes it; see `SessionHost.subscribe_sessions`.

        Args:
            after: A position of the server; also one that another remote host of it said.
        """
        return RemoteSessionsSubscription(self._connection, self.catalog, self.core.runtime, after=after)

    def sessions_position(self) -> ListPosition:
        """Return a position after which the listing begins with all rows: only a subscription knows the server's."""
        return BEGINNING

    async def _find(self, session: SessionLike, *, begun: bool = False) -> Ref:
        if isinstance(session, (Session, SessionSummary)):
            return session.ref
        if not isinstance(session, str):
            raise InvalidInput(
                f"{session!r} does not name a session: give an id, a name, or a row of the server's listing"
            )
        invalid: InvalidSessionId | None = None
        try:
            if await self.catalog.listing.row(checked_id(session)) is not None:
                return session
        except InvalidSessionId as error:
            invalid = error  # it may still be a name
        try:
            return (await self.catalog.resolve(session, begun=begun)).ref
        except NotFound:
            if invalid is not None:
                raise invalid from None
            raise

    def search(
        self,
        query: str,
        *,
        project: str | os.PathLike[str] | None = None,
        role: str | None = None,
        tool: str | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        limit: int = 50,
        offset: int = 0,
        index: bool | None = None,
    ) -> Search:
        """Find entries in all sessions; `index` is the server's to decide. See `SessionHost.search`."""
        catalog = self.catalog
        assert isinstance(catalog, RemoteCatalog)
        where: dict[str, Any] = {"project": project, "role": role, "tool": tool, "after": after, "before": before}
        Searching(self.core.runtime, catalog.listing).search(query, **where, limit=limit, offset=offset, index=index)
        return Search(lambda _: catalog.hits(query, **where, limit=limit, offset=offset))

    # -- copies

    async def fork_from(self, source: SessionLike, *, session_id: str | None = None) -> Session:
        """Copy a session, also one of another host, into a new one; see `SessionHost.fork_from`."""
        if isinstance(source, Session) and not self._is_own(source):
            return await super().fork_from(source, session_id=session_id)
        if session_id is not None:
            checked_id(session_id, is_new=True)
        path = f"/v1/sessions/{segment(await self._find(source))}/fork"
        return await self._open((await self._keyed(path, {"id": session_id})).id)

    def _is_own(self, session: Session) -> bool:
        return isinstance(session, RemoteSession) and session.is_of(self.core)

    async def put(self, session: Session, *, replace: bool = False) -> Session:
        """Write a whole session of another host into the server; see `SessionHost.put`."""
        if isinstance(session, RemoteSession):
            if self._is_own(session):
                return await self._open(session.ref)
            log = await session.log()  # of another server, whose file is sent as it is
            leaf = UNSET if log.index.leaf == log.index.tip else log.index.leaf_id
            file = await session.export(log.dialect.name)
            assert isinstance(file, bytes)  # no destination is given
            return await self._put(session.id, file, leaf, replace=replace)
        return await super().put(session, replace=replace)

    async def write_fork(self, copy: SessionCopy, session_id: str | None = None) -> Session:
        """Write a copied session into a new one; see `SessionHost.write_fork`."""
        _, child = child_of(self.core, copy, session_id)
        return await self.write_copy(child)

    async def write_copy(self, copy: SessionCopy, *, replace: bool = False) -> Session:
        """Write a copied session under its own id; see `SessionHost.write_copy`."""
        block = copy.dialect.encode_header(copy.header)
        return await self._put(copy.header.id, b"".join([block, *copy.lines]), copy.leaf, replace=replace)

    async def _put(self, session_id: str, data: bytes, leaf: str | UnsetType | None, *, replace: bool) -> Session:
        """Have the server write a session as a file says it, with the leaf where it was moved to, if it was."""
        self.core.check()
        query = {"replace": "true"} if replace else {}
        if not isinstance(leaf, UnsetType):
            query["leaf"] = leaf or ""
        path = f"/v1/sessions/{segment(session_id)}"
        headers = {"content-type": "application/octet-stream", "idempotency-key": self.core.runtime.new_id()}
        await self._connection.answer("PUT", path, query=query, body=data, headers=headers)
        return await self._open(session_id)

    async def import_sessions(self, path: str | os.PathLike[str], *, format: str | None = None) -> ImportReports:
        """Import the sessions of a file of this machine into the server; see `SessionHost.import_sessions`.

        Raises:
            InvalidInput: The path is that of a folder: import its files one by one.
        """
        source = Path(checked_path(path))
        check_text("the format", format)
        if await self.core.runtime.offload(source.is_dir):
            raise InvalidInput(f"{source} is a folder, and a server takes one file at a time: give a file")
        return await self._import(await self.core.runtime.offload(source.read_bytes), format, str(source))

    async def _import(self, data: bytes, format: str | None, source: str = "") -> ImportReports:
        query = {} if format is None else {"format": format}
        headers = {"content-type": "application/octet-stream"}
        imported = await self._connection.ask(
            ImportReply, "POST", "/v1/import", query=query, body=data, headers=headers
        )
        return ImportReports(
            (each.report(source) for each in imported.sessions),
            failed=[each.finding(source) for each in imported.failed],
        )

    # -- keeping sessions

    async def archive(self, session: SessionLike) -> None:
        """Archive a session; see `SessionHost.archive`."""
        await self._change(await self._find(session), "POST", "/archive")

    async def unarchive(self, session: SessionLike) -> None:
        """Bring an archived session back; see `SessionHost.unarchive`."""
        await self._change(await self._find(session), "POST", "/unarchive")

    async def delete(self, session: SessionLike) -> None:
        """Delete a session permanently; do nothing if it does not exist. See `SessionHost.delete`."""
        self.core.check()
        try:
            ref = await self._find(session)
        except SessionNotFound:
            return
        with suppress(SessionNotFound):  # also where the reply to the request that deleted it was lost
            await self._change(ref, "DELETE")
        self.core.registry.source(ref).deleted()

    async def _change(self, ref: Ref, verb: str, path: str = "") -> None:
        self.core.check()
        await self._connection.answer(verb, f"/v1/sessions/{segment(ref)}{path}")

    async def apply_retention(self, *, dry_run: bool = False) -> RetentionReport:
        """Have the server archive what exceeds the limits of its settings; see `SessionHost.apply_retention`."""
        self.core.check()
        body = msgspec.json.encode({"dry_run": dry_run})
        return (await self._connection.ask(RetentionReply, "POST", "/v1/retention", body=body)).report()
