"""The files of the viewer: read once, compressed once, and named by what is in them.

The one page stands at every address of the viewer. It names its files with the version of all of them in their
addresses, so a browser keeps them for ever, and a new version of treering has other addresses. Modules import each
other relatively, and so stay within one version.
"""

from __future__ import annotations

import gzip
import hashlib
import html
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from msgspec import Struct

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'self'; form-action 'none'"
)
"""What the viewer may load and do: what comes from its own server, and nothing that stands inside the page."""

_PAGE = "index.html"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class Asset(Struct, frozen=True):
    """A file as it is sent.

    Attributes:
        media_type: Its type.
        tag: What changes with its content.
        plain: Its bytes.
        packed: Its bytes, compressed with gzip.
    """

    media_type: str
    tag: str
    plain: bytes
    packed: bytes


class Assets:
    """The files of the viewer.

    Attributes:
        version: What changes when any of the files does.
    """

    def __init__(self, folder: Traversable) -> None:
        self._assets = {name: _asset(name, content) for name, content in sorted(_contents(folder, ""))}
        self.version = _hash("\n".join(f"{name} {asset.tag}" for name, asset in self._assets.items()).encode())
        self._pages: dict[str, Asset] = {}

    def find(self, name: str) -> Asset | None:
        """Return a file by its path within the folder, such as "parts/time.js"; None if there is none."""
        return self._assets.get(name)

    def page(self, root_path: str) -> Asset:
        """Return the one page, for a server that is shown under a path: its addresses are relative to that."""
        page = self._pages.get(root_path)
        if page is None:
            base = html.escape(f"{root_path}/")
            text = self._assets[_PAGE].plain.decode()
            text = text.replace('<base href="/">', f'<base href="{base}">')
            text = text.replace('"assets/', f'"assets/{self.version}/')
            self._pages = {root_path: (page := _asset(_PAGE, text.encode()))}
        return page


@cache
def assets() -> Assets:
    """Return the files that are installed with treering."""
    return Assets(files("treering.server").joinpath("viewer"))


def _contents(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _contents(each, f"{path}{each.name}/")
        elif _suffix(each.name) in _TYPES:
            yield path + each.name, each.read_bytes()


def _asset(name: str, content: bytes) -> Asset:
    return Asset(_TYPES[_suffix(name)], _hash(content), content, gzip.compress(content, 9, mtime=0))


def _suffix(name: str) -> str:
    return name[name.rindex(".") :] if "." in name else ""


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
