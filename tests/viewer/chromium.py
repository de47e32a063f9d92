"""Debian's Chromium, which reaches this machine alone and reports all that goes wrong in its pages."""

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, async_playwright

CHROMIUM = shutil.which("chromium")

_HERE = ("127.0.0.1", "localhost", "[::1]")
_NAMES = "MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"
"""Names under .test, which nobody owns, are this machine, as other sites; no other name is found."""


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run a browser."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-background-networking", f"--host-resolver-rules={_NAMES}"],
        )
        try:
            yield browser
        finally:
            await browser.close()


async def until(page: Page, expression: str, arg: object = None, *, within_s: float = 60) -> None:
    """Wait until an expression, or a function of `arg`, is true in a page.

    `page.wait_for_function` evaluates texts in the page, which the page's policy forbids.
    """
    with anyio.move_on_after(within_s):
        while not await page.evaluate(expression, arg):  # noqa: ASYNC110  # a page has no event to wait for
            await anyio.sleep(0.02)
        return
    raise AssertionError(f"after {within_s:g} s it is still not true that {expression}")


class Watch:
    """What goes wrong in the pages of a context.

    Args:
        context: The context.
        allowed: Parts of messages that are meant to come.
    """

    def __init__(self, context: BrowserContext, allowed: Sequence[str]) -> None:
        self.found: list[str] = []
        self._allowed = allowed
        context.on("page", self._enter)
        context.on("request", self._asked)

    def check(self) -> None:
        """Fail if something went wrong."""
        unexpected = [each for each in self.found if not any(part in each for part in self._allowed)]
        assert not unexpected, "\n".join(unexpected)

    def _enter(self, page: Page) -> None:
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.found.append(f"{page.url}: {error}"))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.found.append(f"{message.location.get('url')}: {message.text}")

    def _asked(self, request: Request) -> None:
        address = urlsplit(request.url)
        host = address.hostname or ""
        if address.scheme in ("http", "https") and host not in _HERE and not host.endswith(".test"):
            self.found.append(f"{request.url} was asked for, which is not on this machine")
