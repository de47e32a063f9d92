"""The viewer as it is installed: from a wheel, without the checkout, without Node, with no name but this machine's."""

import os
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from playwright.async_api import Page

from treering import SessionHost

from ..installing import install
from .chromium import until
from .processes import served
from .screenshots import PAGES
from .story import tell

pytestmark = pytest.mark.browser

WORDS = {
    "live": "working",
    "sessions": "Fix the parser for empty files",
    "session": "One test fails: it expected the error.",
    "tree": "cause found",
    "saw": "Why did it expect the error?",
    "compare": "The other parser is slower.",
    "usage": "model-x",
}
"""What each page shows of the story."""


@pytest.mark.feature("S-45")
async def test_the_wheel_shows_every_page_with_nothing_from_outside(tmp_path: Path, page: Page) -> None:
    site = await anyio.to_thread.run_sync(install, tmp_path)
    async with SessionHost(tmp_path / "root") as host:
        session = await tell(host)
        addresses = {name: await address(session) for name, address in PAGES.items()}
    env = {**os.environ, "PYTHONPATH": str(site), "PATH": ""}
    where = await anyio.run_process(
        [sys.executable, "-c", "import treering; print(treering.__file__)"], env=env, cwd=tmp_path
    )
    assert Path(where.stdout.decode().strip()).is_relative_to(site)
    async with served(tmp_path / "root", signs_in=False, env=env, cwd=tmp_path) as (url, _):
        assert addresses.keys() == WORDS.keys()
        for name, address in addresses.items():
            await page.goto(url + address)
            await until(page, "(words) => document.body.innerText.includes(words)", WORDS[name])
        await page.goto("about:blank")  # before the server goes
