"""The leaf record: where the leaf was moved to since the last append.

A move of the leaf writes nothing to the log. Its record lies beside the log, and is valid until an entry that becomes
the leaf is appended::

    {"leaf":"5f0c..."}

`null` means that the leaf was cleared: the next entry becomes a root.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ...events.json_values import UNDECODABLE


class LeafRecord(Struct, frozen=True):
    """The id of the leaf, or None."""

    leaf: str | None


def encode_leaf(leaf_id: str | None) -> bytes:
    """Return the record as bytes."""
    return msgspec.json.encode(LeafRecord(leaf_id))


def decode_leaf(data: bytes) -> LeafRecord | None:
    """Return the record, or None if the bytes are not one."""
    try:
        return msgspec.json.decode(data, type=LeafRecord)
    except UNDECODABLE:
        return None
