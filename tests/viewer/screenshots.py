"""Draws each page of the viewer over a story of several agents: wide and narrow, light and dark.

`python -m tests.viewer.screenshots FOLDER [WORD]` writes NAME-WIDTH-SCHEME.png for each page whose name holds the word,
and renews those that stand in the documentation.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias, get_args

import anyio
from playwright.async_api import Browser

from treering import Session, SessionHost, Usage
from treering.entries import Provider

from .chromium import chromium, until
from .conftest import Site, site_of
from .story import tell
from .trees import grow

Scheme: TypeAlias = Literal["light", "dark"]
Address: TypeAlias = Callable[[Session, Session], Awaitable[str]]

WIDTHS = {1440: 900, 390: 844}


async def _live(session: Session, branching: Session) -> str:
    return ""


async def _sessions(session: Session, branching: Session) -> str:
    return "sessions"


async def _session(session: Session, branching: Session) -> str:
    return f"s/{session.id}"


async def _tree(session: Session, branching: Session) -> str:
    return f"s/{branching.id}/tree?at={branching.find_by_label('found 3')[0]}"


async def _saw(session: Session, branching: Session) -> str:
    return f"s/{branching.id}/saw/{branching.leaf_id}"


async def _compare(session: Session, branching: Session) -> str:
    ends = [node.id for node in branching.tree().nodes if not node.children and not node.on_path]
    return f"s/{branching.id}/compare/{branching.leaf_id}/{ends[-1]}"


async def _usage(session: Session, branching: Session) -> str:
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
"""What is drawn: the address of each page over the story's main session, or over one with many branches."""

SHOWN = ("tree", "saw", "compare")
"""The pages of which a picture stands in the documentation."""

DOCS = Path(__file__).parents[2] / "docs/viewer"


async def draw(
    browser: Browser, site: Site, session: Session, branching: Session, folder: Path, word: str = ""
) -> list[Path]:
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
                await page.goto(site.url + await address(session, branching))
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
            branching = await host.create("parser-2", cwd="/src/parser")
            await branching.set_title("Try several parsers")
            await branching.update_metadata(provider=Provider("demo", "model-x", 8_000))
            await grow(branching, entries=420, branches=14, seed=3)
            counted = Usage(
                input_tokens=1_400, cache_read_tokens=4_800, output_tokens=90, total_tokens=6_290, cost=0.02
            )
            await branching.append_message(
                "assistant", "Both parsers take empty files now.", model="model-x", provider="demo", usage=counted
            )
            async with site_of(host) as site, chromium() as browser:
                drawn = await draw(browser, site, session, branching, folder, word)
    DOCS.mkdir(exist_ok=True)
    for name in SHOWN:
        picture = folder / f"{name}-1440-light.png"
        if picture in drawn:
            shutil.copyfile(picture, DOCS / f"{name}.png")
    print(f"{len(drawn)} pages in {folder}")  # noqa: T201  # a program


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    anyio.run(main, Path(sys.argv[1]), "".join(sys.argv[2:3]))
