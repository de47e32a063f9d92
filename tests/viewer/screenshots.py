"""Draws each page of the viewer over a story of several agents: wide and narrow, light and dark.

`python -m tests.viewer.screenshots FOLDER [WORD]` writes NAME-WIDTH-SCHEME.png for each page whose name holds the word.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias, get_args

import anyio
from playwright.async_api import Browser

from treering import Session, SessionHost

from .chromium import chromium, until
from .conftest import Site, site_of
from .story import tell

Scheme: TypeAlias = Literal["light", "dark"]
Address: TypeAlias = Callable[[Session], Awaitable[str]]

WIDTHS = {1440: 900, 390: 844}


async def _live(session: Session) -> str:
    return ""


async def _sessions(session: Session) -> str:
    return "sessions"


async def _session(session: Session) -> str:
    return f"s/{session.id}"


async def _tree(session: Session) -> str:
    return f"s/{session.id}/tree"


async def _saw(session: Session) -> str:
    return f"s/{session.id}/saw/{session.leaf_id}"


async def _compare(session: Session) -> str:
    ends = [node.id for node in session.tree().nodes if not node.children]
    return f"s/{session.id}/compare/{ends[0]}/{ends[-1]}"


async def _usage(session: Session) -> str:
    return "usage"


PAGES: dict[str, Address] = {
    "live": _live,
    "sessions": _sessions,
    "session": _session,
    "tree": _tree,
    "saw": _saw,
    "compare": _compare,
    "usage": _usage,
}
"""What is drawn: the address of each page over the story's main session."""


async def draw(browser: Browser, site: Site, session: Session, folder: Path, word: str = "") -> list[Path]:
    """Draw the pages whose names hold a word, and return the files."""
    drawn: list[Path] = []
    for name, address in PAGES.items():
        if word not in name:
            continue
        for width, height in WIDTHS.items():
            for scheme in get_args(Scheme):
                context = await browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
                )
                page = await context.new_page()
                await page.goto(site.url + await address(session))
                await until(page, "document.querySelector('#main').childElementCount > 0")
                await page.wait_for_timeout(700)
                path = folder / f"{name}-{width}-{scheme}.png"
                await page.screenshot(path=path)
                drawn.append(path)
                await context.close()
    return drawn


async def main(folder: Path, word: str) -> None:
    """Tell the story, serve it, and draw its pages."""
    with TemporaryDirectory() as root:
        async with SessionHost(root) as host:
            session = await tell(host)
            async with site_of(host) as site, chromium() as browser:
                drawn = await draw(browser, site, session, folder, word)
    print(f"{len(drawn)} pages in {folder}")  # noqa: T201  # a program


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    anyio.run(main, Path(sys.argv[1]), "".join(sys.argv[2:3]))
