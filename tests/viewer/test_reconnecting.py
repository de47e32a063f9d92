"""The viewer while its server is away: it says so, comes back by itself, and shows everything once."""

from pathlib import Path

import pytest
from playwright.async_api import Page

from treering import SessionHost

from .chromium import until
from .conftest import Serving

pytestmark = pytest.mark.browser

COUNTS = """(words) => words.map((word) => document.querySelector("#main").innerText.split(word).length - 1)"""


@pytest.mark.feature("S-44")
async def test_a_page_comes_back_with_its_server_and_shows_everything_once(
    tmp_path: Path, serving: Serving, page: Page, allowed: list[str]
) -> None:
    allowed += ["net::ERR", "503"]
    root = tmp_path / "root"
    listing = await page.context.new_page()
    async with SessionHost(root) as host, serving(host) as site:
        session = await host.create("one")
        await session.append_message("user", "the question before")
        await (await host.create("gone")).append_message("user", "deleted meanwhile")
        await page.goto(f"{site.url}s/one")
        await listing.goto(site.url)
        for each in (page, listing):
            await until(each, "() => document.querySelector('.connection').textContent.trim() === 'live'")
        await until(page, "() => document.querySelector('#main').innerText.includes('the question before')")
        await until(listing, "() => document.querySelector('#main').innerText.includes('deleted meanwhile')")
        await session.append_message("assistant", "the answer as it runs")
        await until(page, "() => document.querySelector('#main').innerText.includes('the answer as it runs')")
    for each in (page, listing):
        await until(each, "() => document.querySelector('.connection').textContent.includes('no connection since')")
    assert await page.evaluate(COUNTS, ["the answer as it runs"]) == [1]

    async with SessionHost(root) as host:
        await host.delete("gone")
        session = await host.load("one")
        for number in range(3):
            await session.append_message("assistant", f"missed number {number}")
        async with serving(host, port=site.port):
            for each in (page, listing):
                await until(
                    each, "() => document.querySelector('.connection').textContent.trim() === 'live'", within_s=60
                )
            said = "Reconnected, 3 entries added"
            await until(page, f"() => document.querySelector('.toasts').innerText.includes('{said}')")
            await session.append_message("assistant", "the answer afterwards")
            await until(page, "() => document.querySelector('#main').innerText.includes('the answer afterwards')")
            missed = [f"missed number {number}" for number in range(3)]
            words = ["the answer as it runs", *missed, "the answer afterwards"]
            assert await page.evaluate(COUNTS, words) == [1] * 5
            other = await host.create("two")
            await other.append_message("user", "hello")
            await other.set_title("a session afterwards")
            await until(listing, "() => document.querySelector('#main').innerText.includes('a session afterwards')")
            assert await listing.evaluate(COUNTS, ["a session afterwards", "deleted meanwhile"]) == [1, 0]
