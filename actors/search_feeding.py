"""Feeding the index: the texts of logs that changed, each from its checkpoint on, in portions of bounded size."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from zlib import crc32

from ..events.errors import TreeringError
from ..events.stores.base import Cursor, Opening, Ref
from ..events.stores.files import FileStore
from ..events.telemetry import logger
from ..projections.search.lines import TextReader
from ..projections.search.texts import Said
from .naming import is_text
from .runtime import Runtime
from .search_ground import Looks, is_in
from .search_index import SearchIndex
from .search_portions import UNFINISHED, Checkpoint, Known, Look, Portion

INLINE_MAX = 64 * 1024
"""How many bytes or characters are looked through on the event loop; more goes to a worker thread."""

_PORTION_CHARS = 4 * 1024 * 1024
_PORTIONS_MAX = 256


async def feed(runtime: Runtime, index: SearchIndex, looks: Looks) -> None:
    """Bring the index up to how the logs look.

    Raises:
        IndexUnavailable: It cannot be written to.
    """
    known = await runtime.offload(index.known)
    gone = [ref for ref in known if ref not in looks]
    changed = [(ref, look) for ref, look in looks.items() if is_text(ref) and not is_in(ref, look, known)]
    portions: list[Portion] = []
    size = 0
    for ref, look in changed:
        async with aclosing(_portions(runtime, ref, look, known.get(ref))) as coming:
            async for portion in coming:
                portions.append(portion)
                size += sum(len(said.text) for said in portion.texts)
                if size > _PORTION_CHARS or len(portions) == _PORTIONS_MAX:
                    await runtime.offload(index.take_in, portions, gone)
                    portions, size, gone = [], 0, []
    if portions or gone:
        await runtime.offload(index.take_in, portions, gone)


async def _portions(runtime: Runtime, ref: Ref, look: Look, known: Known | None) -> AsyncGenerator[Portion]:
    """Yield the texts of a log after its checkpoint; a log that cannot be read has none, and is tried again."""
    try:
        store = runtime.store
        opening = await store.open(ref)
        if isinstance(store, FileStore) and not store.reads_all(ref):
            look = UNFINISHED  # the file is ahead of what is read, and will look the same when the rest can be read
        head, before = opening.head, known.checkpoint if known is not None else None
        if before is not None and not await _holds(runtime, ref, head, before):
            before = None
        start = before or Checkpoint(head.generation)
        reader = TextReader(opening.dialect, opening.header.id, after=start.seq, crc=start.crc)
        texts: list[Said] = []
        size = 0
        async with aclosing(texts_of(runtime, ref, opening, reader, start.seq)) as pages:
            async for page in pages:
                texts += page
                size += sum(len(said.text) for said in page)
                if size > _PORTION_CHARS:
                    after = Checkpoint(head.generation, reader.settled, reader.crc)
                    yield Portion(ref, UNFINISHED, before, after, texts)
                    before, texts, size = after, [], 0
        yield Portion(ref, look, before, Checkpoint(head.generation, reader.settled, reader.crc), texts)
    except (TreeringError, OSError) as error:
        logger().debug("log_not_indexed", ref=ref, error=str(error))  # the row or the scan says it to the caller


async def _holds(runtime: Runtime, ref: Ref, head: Cursor, checkpoint: Checkpoint) -> bool:
    """Tell whether a log still has the line that a checkpoint was made at."""
    if checkpoint.generation != head.generation or checkpoint.seq > head.seq:
        return False
    if not checkpoint.seq:
        return True
    (line,) = await runtime.store.bodies(ref, head.generation, [checkpoint.seq])
    return crc32(line) == checkpoint.crc


async def texts_of(
    runtime: Runtime, ref: Ref, opening: Opening, reader: TextReader, after: int = 0
) -> AsyncGenerator[list[Said]]:
    """Yield the texts of a log after an ordinal, page by page."""
    more = True
    while more:
        page = await runtime.store.read(ref, opening.head.generation, after)
        more, after = page.more and bool(page.lines), page.last
        if sum(map(len, page.lines)) <= INLINE_MAX:
            yield reader.take(page.lines, page.first)
        else:
            yield await runtime.offload(reader.take, page.lines, page.first)
