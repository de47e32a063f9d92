"""Files that requests send, and that replies are made of: each in a temporary folder of its own."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct
from starlette.types import Receive

_PIECE = 256 * 1024


class Upload(Struct, frozen=True):
    """A file that a request has sent.

    Attributes:
        path: Where it is.
        size: Its bytes.
        digest: Its SHA-256, in hexadecimal.
    """

    path: Path
    size: int
    digest: str


async def received(receive: Receive) -> Upload:
    """Receive the body of a request as a file, which `remove` removes with its folder.

    Raises:
        ConnectionError: The client left.
    """
    folder = Path(await anyio.to_thread.run_sync(tempfile.mkdtemp))
    try:
        path, size, digest = folder / "upload.jsonl", 0, hashlib.sha256()
        async with await anyio.open_file(path, "wb") as file:
            is_whole = False
            while not is_whole:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionResetError("the client left before its file was whole")
                piece = message.get("body", b"")
                await file.write(piece)
                size += len(piece)
                digest.update(piece)
                is_whole = not message.get("more_body", False)
    except BaseException:
        await remove(folder)
        raise
    return Upload(path, size, digest.hexdigest())


async def pieces(path: Path) -> AsyncGenerator[bytes]:
    """Yield the content of a file."""
    async with await anyio.open_file(path, "rb") as file:
        while piece := await file.read(_PIECE):
            yield piece


async def remove(folder: Path) -> None:
    """Remove a temporary folder with all that is in it, even if the caller is cancelled."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(shutil.rmtree, folder)
