"""Deleting objects that no row names and none will ever name: what crashes left.

An object's name holds the epoch of the lease under which it was written. Only that lease can still note it in the row
of its log, so an object is in use if a row names it, or if a log has that epoch and an owner. Names are looked at
before the rows, and are compared without their place: what was moved to another bucket is in use, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from ..connections import row_of
from ..schema import Connection
from ..statements import IDENTITY, filled_in
from . import objects

_UNUSED = """
with found as (select * from unnest(%(names)s::text[], %(epochs)s::int8[]) as f (name, epoch))
select name from found
where not exists (select from {s}.logs l where l.object is not null and substring(l.object from '[^/]*$') = found.name)
    and not exists (select from {s}.logs l where l.epoch = found.epoch and l.owner is not null)
order by name
"""

_NAME = re.compile(r"[0-9a-f]{64}-(\d{1,18})\.jsonl\.(?:zst|gz)")
_FOLDERS = tuple(f"{number:02x}" for number in range(256))


class Swept(Struct, frozen=True):
    """What a sweep found.

    Attributes:
        place: Where it looked.
        objects: How many objects it found there.
        unused: The addresses of those that nothing uses; unless it was a dry run, they are deleted.
        dry_run: Whether it was a dry run, which deletes nothing.
    """

    place: str
    objects: int
    unused: list[str]
    dry_run: bool


def sweep(connection: Connection, schema: str, place: str, *, dry_run: bool) -> Swept:
    """Delete the objects of a database that nothing uses.

    Args:
        connection: A connection to the database.
        schema: The name of its schema.
        place: Where its objects are.
        dry_run: Only tell which.

    Raises:
        StoreUnavailable: The place does not answer, or refuses.
    """
    of = filled_in(schema)
    found, unused = 0, list[str]()
    for folder, names in _folders(connection, of, place):
        found += len(names)
        for name in _unused(connection, of, names):
            unused.append(f"{folder}/{name}")
            if not dry_run:
                objects.remove(unused[-1])
    return Swept(place, found, unused, dry_run)


def _folders(connection: Connection, of: Callable[[str], bytes], place: str) -> Iterator[tuple[str, list[str]]]:
    (identity,) = row_of(connection, of(IDENTITY))
    for number in _FOLDERS:
        folder = f"{place}/{identity}/{number}"
        names = [name for name in objects.names(folder) if _NAME.fullmatch(name)]
        if names:
            yield folder, names


def _unused(connection: Connection, of: Callable[[str], bytes], names: list[str]) -> list[str]:
    epochs = [int(match[1]) for name in names if (match := _NAME.fullmatch(name)) is not None]
    return [name for (name,) in connection.execute(of(_UNUSED), {"names": names, "epochs": epochs})]
