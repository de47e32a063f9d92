"""A browser, a page in it that fails its test if anything goes wrong there, and a server on a real socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from playwright.async_api import Browser, Page, expect
from tests.serving import running

from treering import SessionHost
from treering.server import Application

from .chromium import CHROMIUM, Watch, chromium

Json: TypeAlias = Any
"""Any value."""

WAIT_MS = 60_000
"""How long a page may take to show what a test waits for, also where a test module runs alone."""

expect.set_options(timeout=WAIT_MS)


class Site:
    """A server that runs.

    Attributes:
        url: Its address, ending with "/".
        port: Its port.
        application: What answers.
    """

    def __init__(self, application: Application, port: int) -> None:
        self.application = application
        self.port = port
        self.url = f"http://127.0.0.1:{port}/"


Serving: TypeAlias = Callable[..., AbstractAsyncContextManager[Site]]


@asynccontextmanager
async def site_of(host: SessionHost, *, port: int = 0, root_path: str = "", **options: Json) -> AsyncIterator[Site]:
    """Serve a host as long as the block runs; the options are those of `Application`."""
    async with running(host, port=port, serving={"root_path": root_path}, **options) as (application, bound):
        yield Site(application, bound)


@pytest.fixture(name="serving")
def serving_fixture() -> Serving:
    return site_of


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[SessionHost]:
    async with SessionHost(tmp_path / "root") as host:
        yield host


@pytest.fixture(scope="module")
async def browser(anyio_backend: object) -> AsyncIterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium here")
    async with chromium() as browser:
        yield browser


@pytest.fixture
async def site(host: SessionHost, browser: Browser) -> AsyncIterator[Site]:
    async with site_of(host) as site:
        yield site
        for context in browser.contexts:  # a page that still asks while its server ends would report an error
            for page in context.pages:
                await page.close()


@pytest.fixture
def allowed() -> list[str]:
    """Parts of messages that the test provokes in the browser's console: add them."""
    return []


@pytest.fixture
async def page(browser: Browser, allowed: list[str]) -> AsyncIterator[Page]:
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(WAIT_MS)
    watch = Watch(context, allowed)
    yield await context.new_page()
    await context.close()
    watch.check()
