"""Records beside a log: a line that says to which of its lines the data belongs, and the data.

The leaf record `abc.jsonl.leaf` is state, small and readable::

    {"seq":3,"end":811,"ends_crc":123,"data_crc":456}
    {"leaf":"5f0c..."}

It depends only on the log's content, so it survives a copy of both files. It is valid while the log ends at its `seq`.

The checkpoint of a projection, `abc.jsonl.view-<name>`, is derived. It is a record that also names the generation. It
is ignored for any other generation, and if the log does not have the line that it names.
"""

from __future__ import annotations

from zlib import crc32

import msgspec
from msgspec import Struct

from ....disk import Disk, opened
from ....disk.atomic_files import write_atomically
from ....json_values import UNDECODABLE
from ...base import BlobKind, Cursor
from ...blobs import check_kind
from .head import Extent


class RecordLine(Struct, frozen=True, omit_defaults=True):
    """The first line of a record.

    Attributes:
        seq: The last line of the log when the record was written.
        end: The offset at which that line ends.
        ends_crc: The checksum of the log's fingerprint up to that line.
        data_crc: The checksum of the data that follows in the record.
        generation: The generation that the record is bound to; empty for none.
    """

    seq: int
    end: int
    ends_crc: int
    data_crc: int
    generation: str = ""

    def matches(self, extent: Extent) -> bool:
        """Tell whether the record was written for a log with this fingerprint."""
        return (self.end, self.ends_crc) == (extent.end, _crc_of(extent))


_decode_record = msgspec.json.Decoder(RecordLine).decode


def suffix_of(kind: BlobKind) -> str:
    """Return the suffix of the file that holds data of this kind.

    Raises:
        InvalidInput: The kind is unknown.
    """
    return f".{check_kind(kind)}"


def read_record(disk: Disk, path: str, suffix: str) -> tuple[RecordLine, bytes] | None:
    """Return a record of a log and its data; None if there is none or it is damaged."""
    try:
        with opened(disk, path + suffix) as fd:
            content = disk.pread(fd, disk.fstat(fd).size, 0)
    except OSError:
        return None
    line, _, data = content.partition(b"\n")
    try:
        record = _decode_record(line)
    except UNDECODABLE:
        return None
    return (record, data) if record.data_crc == crc32(data) else None


def write_record(disk: Disk, path: str, suffix: str, head: Cursor, extent: Extent, data: bytes, *, sync: bool) -> None:
    """Write a record, replacing an existing one.

    Args:
        disk: The disk.
        path: The log's path.
        suffix: See `suffix_of`.
        head: The log's last line; if its generation is empty, the record is not bound to one.
        extent: The fingerprint of the log up to that line.
        data: The data of the record.
        sync: Make the record survive a power cut.

    Raises:
        NameNotFlushed: The record was written, and its directory could not be flushed.
        OSError: The record cannot be written. The old one is unchanged.
    """
    line = msgspec.json.encode(RecordLine(head.seq, extent.end, _crc_of(extent), crc32(data), head.generation))
    write_atomically(disk, path + suffix, [line, b"\n", data], sync=sync)


def _crc_of(extent: Extent) -> int:
    return crc32(b"%d %d" % (extent.header_crc, extent.edges_crc))
