"""The store: what a host calls, each call carried to the room that does it, in a worker thread."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from ...events.dialects.base import Dialect
from ...events.errors import HostClosed, InvalidInput, SessionLocked
from ...events.offload import Offload, ThreadOffload, carried_out
from ...events.stores.base import Append, Blob, BlobKind, Cursor, Lease, LogInfo, Opening, Outcome, Page, Ref
from ...events.stores.capabilities import Health, KeepsRows, Leases, Packs, Watches, offered
from ...events.stores.checks import check_header, check_kind, check_lines
from ...events.stores.finding import FindsRows
from ...events.stores.hosts import Answer, HostRow, Hosts, Inbox, Letter
from ...events.stores.search import FindsTexts, KeepsSearch
from .acquiring import Acquirer
from .address import parse_address
from .archive.opened import OpenedObjects
from .archive.packing import Packer
from .catalog.conditions import is_name
from .catalog.finding import Finder
from .catalog.row_statements import RowStatements
from .catalog.searching import TextIndex
from .catalog.text_statements import TextStatements
from .committing import Committer
from .connections import CONNECTIONS_MAX, Connections
from .examining import Examiner
from .gathering import Gatherer, up_to
from .mailing import LETTER_BYTES_MAX, Mailing
from .owning import Holdings
from .reading import LOADED_AT_ONCE, LOOKED_FOR_AT_ONCE, READ_AT_ONCE, Asked, Reader
from .statements import Statements
from .watching import Listener, Watch
from .writing import Writer

T = TypeVar("T")

_READS_AT_ONCE = 4  # how many statements of one kind are under way at the same time

_DECLARED = (Hosts, Inbox, Leases, Packs, Watches)


class PostgresStore:
    """Keeps logs in a PostgreSQL database, which many hosts share.

    Whatever durability is asked for, an acknowledged append is as safe as a commit of the server. Nothing is connected
    until the first call; that call also makes the tables, or brings them up to date.

    Args:
        url: The address of one database; see `treering.stores.postgres.address`, and `store_at` for several.
        offload: Runs blocking work; by default in threads.

    Raises:
        InvalidInput: The address cannot be read.
        ExtraMissing: A package is not installed that the place of archived sessions needs.
    """

    def __init__(self, url: str, *, offload: Offload | None = None) -> None:
        self.address = parse_address(url)
        # What waits for a connection would take the threads of the host's other work.
        self._offload = (
            ThreadOffload(CONNECTIONS_MAX) if offload is None or isinstance(offload, ThreadOffload) else offload
        )
        # A lease must not end because all other threads wait for answers.
        self._renewing = ThreadOffload(1) if isinstance(self._offload, ThreadOffload) else self._offload
        self._connections = Connections(self.address)
        statements = Statements(self.address.schema)
        self._connections.names = statements.names
        channel = f"treering_{hashlib.sha256(self.address.schema.encode()).hexdigest()[:16]}"
        self._holdings = Holdings(self._connections, statements)
        self._acquirer = Acquirer(self._holdings, self._offload)
        self._committer = Committer(self._connections, self._holdings, statements, channel, self._offload)
        opened = OpenedObjects()
        self._reader = reader = Reader(self._connections, statements, opened)
        self._exist = Gatherer(reader.exist, self._offload, up_to(LOOKED_FOR_AT_ONCE), _READS_AT_ONCE)
        self._load = Gatherer(reader.load_each, self._offload, up_to(LOADED_AT_ONCE), _READS_AT_ONCE)
        self._read = Gatherer(reader.read_each, self._offload, up_to(READ_AT_ONCE), _READS_AT_ONCE)
        self._packer = Packer(self._connections, self._holdings, statements, opened, reader.look, reader.read)
        self._writer = Writer(self._connections, self._holdings, statements, channel, self._packer.remove)
        self._listener = Listener(self._connections, statements.changed, channel, self._offload)
        self._mailing = Mailing(self._connections, self._holdings, statements, channel, self._offload)
        self._texts = TextStatements(self.address.schema, statements.names)
        self._finder = Finder(self._connections, RowStatements(self.address.schema, statements.names))
        self._closed = False

    def capability(self, kind: Callable[..., T]) -> T | None:
        """See `Store.capability`."""
        if kind in (FindsTexts, KeepsSearch):
            return offered(TextIndex(self._connections, self._texts), kind, (FindsTexts, KeepsSearch))
        if kind is Health:
            return offered(Examiner(self._connections), kind, (Health,))
        found = offered(self._finder, kind, (FindsRows, KeepsRows))
        return offered(self, kind, _DECLARED) if found is None else found

    # -- owning

    async def acquire(self, refs: Sequence[Ref], owner: str) -> list[Lease | SessionLocked]:
        """See `Store.acquire`."""
        self._check(refs)
        return await self._acquirer.acquire(list(refs), owner) if refs else []

    async def renew(self, leases: Sequence[Lease]) -> list[bool]:
        """See `Store.renew`."""
        return await carried_out(self._renewing, self._holdings.renew, list(leases))

    async def release(self, leases: Sequence[Lease]) -> None:
        """See `Store.release`."""
        if leases:
            await self._acquirer.release(leases)

    def holder(self, ref: Ref) -> str | None:
        """See `Leases.holder`."""
        return self._holdings.holder(ref)

    @property
    def lease_s(self) -> float:
        """See `Leases.lease_s`."""
        return self.address.lease_s

    @property
    def wait_s(self) -> float:
        """See `Leases.wait_s`."""
        return self.address.wait_s

    async def confirm(self, lease: Lease) -> bool:
        """See `Leases.confirm`."""
        if self._holdings.is_alive:
            return self._holdings.holds(lease)
        return await carried_out(self._offload, self._holdings.confirm, lease)

    # -- hosts

    @property
    def host_name(self) -> str:
        """See `Hosts.host_name`."""
        return self._holdings.name

    @property
    def draining(self) -> bool:
        """See `Hosts.draining`."""
        return self._holdings.draining

    def announce(self, address: str | None) -> None:
        """See `Hosts.announce`."""
        self._holdings.address, self._holdings.announced = address, True

    def hosts(self) -> list[HostRow]:
        """See `Hosts.hosts`."""
        return self._holdings.hosts()

    def drain(self, name: str) -> bool:
        """See `Hosts.drain`."""
        return self._holdings.drain(name)

    # -- writing

    def try_append(self, append: Append) -> Outcome | None:
        """Return None: every append has to wait for the server."""
        return None

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        """See `Store.append`."""
        self._check()
        for each in appends:
            check_lines(each.lines)
            if each.header is not None:
                check_header(each.header, each.lease.ref)
        return await self._committer.append(appends) if appends else []

    async def resolve(self, lease: Lease) -> Cursor:
        """See `Store.resolve`."""
        return await self._offload(self._holdings.resolve, lease)

    async def save(self, lease: Lease, kind: BlobKind, head: Cursor, data: bytes) -> None:
        """See `Store.save`."""
        check_kind(kind)
        await carried_out(self._offload, self._writer.save, lease, kind, head, data)

    async def put(self, lease: Lease, dialect: Dialect, header: bytes, lines: Iterable[bytes]) -> Cursor:
        """See `Store.put`."""
        return await carried_out(self._offload, self._writer.put, lease, header, lines)

    async def remove(self, lease: Lease) -> None:
        """See `Store.remove`."""
        await carried_out(self._offload, self._writer.remove, lease)

    # -- packing

    @property
    def can_pack(self) -> bool:
        """See `Packs.can_pack`: the address says where."""
        return self.address.archive is not None

    async def pack(self, lease: Lease) -> None:
        """See `Packs.pack`."""
        await carried_out(self._offload, self._packer.pack, lease)

    async def unpack(self, lease: Lease) -> Lease:
        """See `Packs.unpack`."""
        return await carried_out(self._offload, self._packer.unpack, lease)

    # -- reading

    async def open(self, ref: Ref) -> Opening:
        """See `Store.open`."""
        self._check([ref])
        return await self._offload(self._reader.open, ref)

    async def header_block(self, ref: Ref) -> bytes:
        """See `Store.header_block`."""
        self._check([ref])
        return await self._offload(self._reader.header_block, ref)

    async def read(self, ref: Ref, generation: str, after: int, *, through: int | None = None) -> Page:
        """See `Store.read`."""
        self._check([ref])
        return await self._read.ask(Asked(ref, generation, after, through))

    async def bodies(self, ref: Ref, generation: str, seqs: Sequence[int]) -> list[bytes]:
        """See `Store.bodies`."""
        self._check([ref])
        return await self._offload(self._reader.bodies, ref, generation, seqs)

    async def load(self, ref: Ref, kind: BlobKind) -> Blob | None:
        """See `Store.load`."""
        self._check([ref])
        return await self._load.ask((ref, check_kind(kind)))

    async def exists(self, ref: Ref) -> bool:
        """See `Store.exists`."""
        self._check([ref])
        return await self._exist.ask(ref)

    async def page(self, prefix: str = "", after: Ref = "", limit: int = 1000) -> list[LogInfo]:
        """See `Store.page`."""
        self._check([prefix, after])
        return await self._offload(self._reader.page, prefix, after, limit)

    def watch(self, refs: Sequence[Ref]) -> Watch:
        """See `Watches.watch`."""
        self._check(refs)
        return self._listener.watch(refs)

    # -- letters

    @property
    def letter_bytes_max(self) -> int:
        """See `Inbox.letter_bytes_max`."""
        return LETTER_BYTES_MAX

    def post(self, letter: Letter, keep_s: float) -> bool:
        """See `Inbox.post`."""
        self._check([letter.ref])
        return self._mailing.post(letter, keep_s)

    def withdraw(self, letter_id: str) -> bool:
        """See `Inbox.withdraw`."""
        return self._mailing.withdraw(letter_id)

    def answers(self, letter_ids: Sequence[str]) -> dict[str, Answer]:
        """See `Inbox.answers`."""
        return self._mailing.answers(letter_ids)

    def take(self, most: int) -> list[Letter]:
        """See `Inbox.take`."""
        return self._mailing.take(most)

    def answer(self, answers: Mapping[str, bytes]) -> None:
        """See `Inbox.answer`."""
        self._mailing.answer(answers)

    async def arrived(self) -> None:
        """See `Inbox.arrived`."""
        self._check()
        await self._mailing.arrived()

    # -- closing

    async def aclose(self) -> None:
        """See `Store.aclose`."""
        if self._closed:
            return
        self._closed = True
        self._listener.close()
        self._mailing.close()
        try:
            await carried_out(self._offload, self._holdings.leave)
        finally:
            self._connections.close()

    def _check(self, refs: Sequence[Ref] = ()) -> None:
        """Refuse what a closed store cannot do, and names that the database cannot hold."""
        if self._closed:
            raise HostClosed("this store was closed: make another one")
        for ref in refs:
            if not is_name(ref):
                raise InvalidInput(f"{ref!r} is no name of a log: it holds a NUL, or half of a character")
