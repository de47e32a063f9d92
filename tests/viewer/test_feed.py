"""Ten tabs share the streams of one: by a worker, by a tab that leads, or each for itself while it is shown."""

import re

import anyio
import httpx2
import pytest
from playwright.async_api import Page

from treering import Session, SessionHost
from treering.server.assets import assets

from .chromium import until
from .conftest import Site

pytestmark = pytest.mark.browser

WITHOUT = {
    "worker": "",
    "leader": "delete window.SharedWorker;",
    "itself": "delete window.SharedWorker; delete window.BroadcastChannel;",
}

FOLLOW = """async ([version, base, ids]) => {
  const { connect } = await import(`${base}assets/${version}/client.js`);
  const { feedOf } = await import(`${base}assets/${version}/parts/feed.js`);
  window.server = connect(base, { timing: { first: 20, most: 100 } });
  window.feed = feedOf(server);
  window.seen = Object.fromEntries(ids.map((id) => [id, []]));
  window.stops = ids.map((id) => feed.session(id, {}, ({ data }) => seen[id].push(data.seq)));
  window.rows = {};
  feed.list({}, ({ event, data }) => event === "session" && (rows[data.id] = data));
}"""

HIDE = """(isHidden) => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


async def follow(page: Page, site: Site, ids: list[str]) -> None:
    await page.goto(f"{site.url}client.js")  # a page that does nothing by itself
    await page.evaluate(FOLLOW, [assets().version, site.url, ids])


async def open_streams(site: Site) -> int:
    async with httpx2.AsyncClient() as http:
        text = (await http.get(f"{site.url}metrics")).text
    found = re.search(r"^treering_http_streams ([\d.]+)$", text, re.MULTILINE)
    assert found is not None, text
    return int(float(found[1]))


async def until_streams(site: Site, count: int) -> None:
    while await open_streams(site) != count:  # noqa: ASYNC110  # it is counted in another place
        await anyio.sleep(0.02)


async def sessions_of(host: SessionHost, count: int) -> list[Session]:
    sessions = [await host.create(f"s{number}") for number in range(count)]
    for session in sessions:
        await session.append_message("user", "the first")
    return sessions


@pytest.mark.parametrize("way", ["worker", "leader"])
async def test_ten_tabs_share_two_streams_and_each_has_each_entry_once(
    host: SessionHost, site: Site, page: Page, way: str
) -> None:
    sessions = await sessions_of(host, 3)
    ids = [session.id for session in sessions]
    await page.context.add_init_script(WITHOUT[way])
    tabs = [page, *[await page.context.new_page() for _ in range(9)]]
    for number, tab in enumerate(tabs):
        await follow(tab, site, ids)
        for session in sessions:
            await session.append_message("user", f"after tab {number}")
    await until_streams(site, 2)  # of all sessions, and of the listing
    expected = {each: list(range(1, 12)) for each in ids}
    for tab in tabs:
        await until(tab, "(ids) => ids.every((id) => seen[id].length >= 11) && rows[ids[0]]", ids)
        assert await tab.evaluate("seen") == expected
        assert await tab.evaluate("server.state.state") == "open"

    for tab in tabs[:5]:  # the one that leads among them
        await tab.close()
    for session in sessions:
        await session.append_message("user", "after five have gone")
    for tab in tabs[5:]:
        await until(tab, "(ids) => ids.every((id) => seen[id].length >= 12)", ids)
        assert await tab.evaluate("seen") == {each: list(range(1, 13)) for each in ids}
    await until_streams(site, 2)
    for tab in tabs[5:]:
        await tab.evaluate("stops[0]()")
    await sessions[0].append_message("user", "for nobody")
    await sessions[1].append_message("user", "for all")
    for tab in tabs[5:]:
        await until(tab, "(id) => seen[id].length >= 13", ids[1])
        assert len((await tab.evaluate("seen"))[ids[0]]) == 12


async def test_a_tab_alone_has_streams_as_long_as_it_is_shown(host: SessionHost, site: Site, page: Page) -> None:
    sessions = await sessions_of(host, 2)
    ids = [session.id for session in sessions]
    await page.context.add_init_script(WITHOUT["itself"])
    await follow(page, site, ids)
    await until(page, "(ids) => ids.every((id) => seen[id].length >= 1)", ids)
    await until_streams(site, 2)
    await page.evaluate(HIDE, True)
    await until_streams(site, 0)
    for session in sessions:
        await session.append_message("user", "while it is hidden")
    await page.evaluate(HIDE, False)
    await until(page, "(ids) => ids.every((id) => seen[id].length >= 2)", ids)
    assert await page.evaluate("seen") == {each: [1, 2] for each in ids}
