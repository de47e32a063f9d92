"""Where sessions are: the list of addresses, and which of them a session belongs to.

The list and its order are part of where sessions are: a list in another order is noticed and refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ....events.errors import InvalidInput
from ....events.stores.base import Ref

_BETWEEN = re.compile(r",(?=postgres(?:ql)?://)")
_FILE = re.compile(r"postgres(?:ql)?:@(.+)")


def addresses_of(url: str) -> list[str]:
    """Return the addresses of the databases that an address names: one, or several.

    Args:
        url: An address; several, separated by commas; or `postgresql:@FILE`, a file with one in each line.

    Raises:
        InvalidInput: The file holds no address, or the same one is given twice.
        OSError: The file cannot be read.
    """
    named = _FILE.fullmatch(url)
    if named is None:
        found = _BETWEEN.split(url)
    else:
        lines = (line.strip() for line in Path(named[1]).read_text(encoding="utf-8", errors="replace").splitlines())
        found = [line for line in lines if line and not line.startswith("#")]
        if not found:
            raise InvalidInput(f"{named[1]} holds no address: give one in each line")
    if len(set(found)) < len(found):
        raise InvalidInput("the same address is given twice: each database holds other sessions")
    return found


def shard_of(ref: Ref, count: int) -> int:
    """Return which of so many databases holds a session, counted from 0."""
    digest = hashlib.blake2b(ref.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % count


class Places:
    """The places of logs, by their numbers.

    Args:
        names: Where each is, for messages.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def number(self, ref: Ref) -> int:
        """Return the number of the place of a log."""
        return shard_of(ref, len(self._names))

    def grouped(self, refs: Iterable[Ref]) -> dict[int, list[Ref]]:
        """Return some logs by the numbers of their places."""
        groups: dict[int, list[Ref]] = {}
        for ref in refs:
            groups.setdefault(self.number(ref), []).append(ref)
        return groups

    def check(self, number: int, found: Iterable[Ref]) -> None:
        """Check that logs that were found in a place belong there.

        Raises:
            InvalidInput: One belongs to another place.
        """
        for ref in found:
            if (other := self.number(ref)) != number:
                raise InvalidInput(
                    f"{self._names[number]} is the address {number + 1} of {len(self._names)}, but {ref} in it "
                    f"belongs to the address {other + 1}: give all addresses, in the order of before"
                )
