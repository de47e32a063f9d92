"""The demo in a browser: agents are at work within seconds, entries arrive while one looks, and the tree grows."""

import os
import signal
import sys
from pathlib import Path
from time import monotonic

import anyio
import httpx2
import pytest
from playwright.async_api import Page
from tests.lateness import waited_s, waits

import treering

from .chromium import until

PACKAGES = str(Path(treering.__file__).resolve().parents[1])
pytestmark = pytest.mark.browser

WITHIN_S = 10.0
"""How soon there is something to see, but for the time in which the processes wait for a processor."""
SILENT_S = 5.0
"""After this, an agent waits for a person or for a slow tool."""
ENTRIES = (
    r"Number((document.querySelector('main').innerText.match(/([\d,]+) entries/) ?? [0, '0'])[1].replace(',', ''))"
)
"""How many entries a page of a session says that it has."""


@pytest.mark.feature("S-47")
async def test_agents_write_within_seconds_and_the_page_shows_entries_arriving_and_the_tree_growing(page: Page) -> None:
    began, before = monotonic(), waits()
    command = [sys.executable, "-m", "treering.cli", "demo", "--serve", "--port", "0"]
    async with await anyio.open_process(command, env={**os.environ, "PYTHONPATH": PACKAGES}, stderr=None) as demo:
        try:
            assert demo.stdout is not None
            url = (await demo.stdout.receive()).decode().strip()
            async with httpx2.AsyncClient(base_url=f"{url}/v1/", timeout=60) as http:
                first = await messages(http)
                assert len(first) >= 20
                await one_that_writes(http, first)
                assert monotonic() - began < WITHIN_S + waited_s(before)
                await page.goto(f"{url}/")
                await until(page, "() => document.querySelectorAll('.page-live .agent').length >= 10")
                shown = await page.inner_text("main")
                await until(page, "shown => document.querySelector('main').innerText !== shown", shown)
                for view in ("", "/tree"):
                    await see_growing(page, http, url, view)
                await page.goto("about:blank")  # so that nothing asks a server that ends
        finally:
            demo.send_signal(signal.SIGINT)
        assert await demo.wait() == 0


async def messages(http: httpx2.AsyncClient) -> dict[str, int]:
    """Return the number of messages of each session that is no sub-agent's."""
    rows = (await http.get("sessions", params={"limit": 500})).json()["items"]
    return {row["id"]: row["message_count"] for row in rows if row["parent_session"] is None}


async def one_that_writes(http: httpx2.AsyncClient, before: dict[str, int]) -> str:
    """Wait for new messages, and return the session among those that got some which has the fewest: it goes on."""
    while not (grown := {key: n for key, n in (await messages(http)).items() if n > before.get(key, 0)}):  # noqa: ASYNC110
        await anyio.sleep(0.1)
    return min(grown, key=lambda each: grown[each])


async def see_growing(page: Page, http: httpx2.AsyncClient, url: str, view: str) -> None:
    """Wait until a page of a session counts more entries than at first; one that falls silent is left for another."""
    seen = False
    while not seen:
        session = await one_that_writes(http, await messages(http))
        await page.goto(f"{url}/s/{session}{view}")
        await until(page, f"() => {ENTRIES} > 0")
        with anyio.move_on_after(SILENT_S):
            await until(page, f"before => {ENTRIES} > before", await page.evaluate(f"() => {ENTRIES}"))
            seen = True
