"""Draws each page of the viewer over a story and agents at work: wide and narrow, light and dark.

`python -m tests.viewer.screenshots FOLDER [WORD]` writes NAME-WIDTH-SCHEME.png for each page whose name holds the word.
Without a word it also renews the pictures of the documentation, which show a session with many branches.
"""

import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TypeAlias, get_args

import anyio
from playwright.async_api import Browser

from treering import Session, SessionHost, Usage
from treering.entries import Provider

from .chromium import chromium, until
from .conftest import site_of
from .filling import Calendar, wake
from .story import tell
from .trees import grow

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

DOCS = Path(__file__).parents[2] / "docs/viewer"


async def _labelled(session: Session) -> str:
    return f"s/{session.id}/tree?at={session.find_by_label('found 3')[0]}"


async def _attempts(session: Session) -> str:
    ends = [node.id for node in session.tree().nodes if not node.children and not node.on_path]
    return f"s/{session.id}/compare/{session.leaf_id}/{ends[-1]}"


SHOWN: dict[str, Address] = {"live": _live, "tree": _labelled, "saw": _saw, "compare": _attempts}
"""What stands in the documentation: the address of each page over a session with many branches."""


async def branch_out(host: SessionHost) -> Session:
    """Make a session with many branches, whose window is too small for all of its path."""
    session = await host.create("parser-2", cwd="/src/parser")
    await session.set_title("Try several parsers")
    await session.update_metadata(provider=Provider("demo", "model-x", 8_000))
    await grow(session, entries=420, branches=14, seed=3, each=True)
    counted = Usage(input_tokens=1_400, cache_read_tokens=4_800, output_tokens=90, total_tokens=6_290, cost=0.02)
    answer = "Both parsers take empty files now."
    await session.append_message("assistant", answer, model="model-x", provider="demo", usage=counted)
    return session


async def draw(browser: Browser, address: str, width: int, scheme: Scheme, path: Path) -> Path:
    """Draw a page, and return the file."""
    context = await browser.new_context(
        viewport={"width": width, "height": WIDTHS[width]}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = await context.new_page()
    await page.goto(address)
    await until(page, "document.querySelector('#main').childElementCount > 0")
    await page.wait_for_timeout(700)
    await page.screenshot(path=path)
    await context.close()
    return path


async def main(folder: Path, word: str) -> None:
    """Tell the story, serve it, and draw its pages."""
    with TemporaryDirectory() as root:
        async with SessionHost(root, clock=Calendar(datetime.now(UTC) - timedelta(minutes=15))) as host:
            session = await tell(host)
            await wake(host)
            async with site_of(host) as site, chromium() as browser:
                drawn = [
                    await draw(
                        browser,
                        site.url + await address(session),
                        width,
                        scheme,
                        folder / f"{name}-{width}-{scheme}.png",
                    )
                    for name, address in PAGES.items()
                    if word in name
                    for width in WIDTHS
                    for scheme in get_args(Scheme)
                ]
                if not word:
                    branching = await branch_out(host)
                    for name, address in SHOWN.items():
                        await draw(browser, site.url + await address(branching), 1440, "light", DOCS / f"{name}.png")
    print(f"{len(drawn)} pages in {folder}")  # noqa: T201  # a program


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    anyio.run(main, Path(sys.argv[1]), "".join(sys.argv[2:3]))
