"""Updating the index: the texts of changed logs, each from its checkpoint on, in portions of bounded size."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from zlib import crc32

from ...events.arguments import is_text
from ...events.errors import LogReplaced, TreeringError
from ...events.stores.base import Cursor, Opening, Ref, Stamp
from ...events.stores.search import (
    UNFINISHED,
    Checkpoint,
    EntryText,
    FindsTexts,
    IndexedLog,
    KeepsSearch,
    Portion,
    Unindexed,
    text_of,
)
from ...events.telemetry import logger
from ...projections.search.texts import TextReader
from ..host.runtime import Runtime

INLINE_MAX = 64 * 1024
"""How many bytes or characters are searched on the event loop; more goes to a worker thread."""

_PORTION_CHARS = 4 * 1024 * 1024
_PORTIONS_MAX = 256


def is_indexed(ref: Ref, stamp: Stamp, indexed: Mapping[Ref, IndexedLog]) -> bool:
    """Return whether a log is fully indexed."""
    log = indexed.get(ref)
    return log is not None and log.stamp == text_of(stamp)


async def update_index(runtime: Runtime, index: KeepsSearch, stamps: Mapping[Ref, Stamp]) -> None:
    """Bring the index up to date with the logs whose stamps are given.

    Raises:
        IndexUnavailable: It cannot be written to.
    """
    known = await runtime.offload(index.known)
    gone = [ref for ref in known if ref not in stamps]
    missing = (
        Unindexed(ref, text_of(stamp), known.get(ref))
        for ref, stamp in stamps.items()
        if is_text(ref) and not is_indexed(ref, stamp, known)
    )
    await _index(runtime, index, missing, gone)


async def update_unindexed(runtime: Runtime, index: FindsTexts) -> list[Unindexed]:
    """Bring the index up to date with all logs; return those that it lacks even so, such as those that are unreadable.

    Raises:
        IndexUnavailable: It cannot be written to.
    """
    after = ""
    while missing := await runtime.offload(partial(index.unindexed, after=after, limit=_PORTIONS_MAX)):
        await _index(runtime, index, missing, [])
        after = missing[-1].ref
    return await runtime.offload(index.unindexed)


async def _index(runtime: Runtime, index: KeepsSearch, missing: Iterable[Unindexed], gone: list[Ref]) -> None:
    """Index the texts that the index lacks, log by log, and remove logs that are gone."""
    portions: list[Portion] = []
    size = 0
    for log in missing:
        async with aclosing(_portions_of(runtime, log.ref, log.stamp, log.known)) as missing_portions:
            async for portion in missing_portions:
                portions.append(portion)
                size += _chars(portion.texts)
                if size > _PORTION_CHARS or len(portions) == _PORTIONS_MAX:
                    await runtime.offload(index.update, portions, gone)
                    portions, size, gone = [], 0, []
    if portions or gone:
        await runtime.offload(index.update, portions, gone)


async def _portions_of(runtime: Runtime, ref: Ref, stamp: str, known: IndexedLog | None) -> AsyncGenerator[Portion]:
    """Yield the texts of a log after its checkpoint; a log that cannot be read yields none, and is retried later."""
    try:
        store = runtime.store
        opening = await store.open(ref)
        if runtime.scans is not None and not runtime.scans.reads_all(ref):
            stamp = UNFINISHED  # not all of the log is readable yet, and its stamp may stay the same when it is
        head, before = opening.head, known.checkpoint if known is not None else None
        if before is not None and not await _holds(runtime, ref, head, before):
            before = None
        start = before or Checkpoint(head.generation)
        reader = TextReader(opening.dialect, opening.header.id, after=start.seq, crc=start.crc)
        texts: list[EntryText] = []
        size = 0
        async with aclosing(texts_of(runtime, ref, opening, reader, start.seq)) as pages:
            async for page in pages:
                texts += page
                size += _chars(page)
                if size > _PORTION_CHARS:
                    after = Checkpoint(head.generation, reader.settled, reader.crc)
                    yield Portion(ref, UNFINISHED, before, after, texts)
                    before, texts, size = after, [], 0
        yield Portion(ref, stamp, before, Checkpoint(head.generation, reader.settled, reader.crc), texts)
    except (TreeringError, OSError) as error:
        logger().debug("log_not_indexed", ref=ref, error=str(error))  # the row or the scan reports it to the caller


def _chars(texts: Iterable[EntryText]) -> int:
    return sum(len(each.text) for each in texts)


async def _holds(runtime: Runtime, ref: Ref, head: Cursor, checkpoint: Checkpoint) -> bool:
    """Return whether a log still has the line that a checkpoint was made at."""
    if checkpoint.generation != head.generation or checkpoint.seq > head.seq:
        return False
    if not checkpoint.seq:
        return True
    (line,) = await runtime.store.bodies(ref, head.generation, [checkpoint.seq])
    return crc32(line) == checkpoint.crc


async def texts_of(
    runtime: Runtime, ref: Ref, opening: Opening, reader: TextReader, after: int = 0
) -> AsyncGenerator[list[EntryText]]:
    """Yield the texts of a log after a seq, page by page."""
    fates, more, generation = runtime.whole_logs.fates(ref), True, opening.head.generation
    while more:
        try:
            page = await runtime.store.read(ref, generation, after)
        except LogReplaced:
            await fates.check(generation)
            raise
        more, after = page.more and bool(page.lines), page.last
        if sum(map(len, page.lines)) <= INLINE_MAX:
            yield reader.take(page.lines, page.first)
        else:
            yield await runtime.offload(reader.take, page.lines, page.first)
