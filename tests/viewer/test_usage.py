"""Usage: tokens and cost over time, by model, project and session, as charts whose numbers stand below."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from treering import SessionHost

from .chromium import until
from .conftest import Serving, Site
from .filling import fill, wake

pytestmark = pytest.mark.browser

TABLE = """
(name) => [...document.querySelectorAll(`[aria-labelledby=by-${name}] tbody tr`)]
  .map((row) => [...row.querySelectorAll("th, td:not(.bar-cell)")].map((each) => each.textContent))
"""


@pytest.mark.feature("S-39")
async def test_charts_and_tables_say_what_sessions_cost(page: Page, tmp_path: Path, serving: Serving) -> None:
    root = tmp_path / "filled"
    await fill(root)
    async with SessionHost(root) as host, serving(host) as site:
        await wake(host)
        rows = await host.list_sessions()
        cost = sum(row.usage.cost for row in rows if row.usage)
        tokens = sum(row.usage.total_tokens for row in rows if row.usage)
        await page.goto(site.url + "usage")
        sums = page.locator(".sums")
        await expect(sums).to_contain_text(f"Cost${cost:,.2f}")
        await expect(sums).to_contain_text("Sessions62")
        for name in ("day", "model", "project", "session"):
            section = page.locator(f"[aria-labelledby=by-{name}]")
            await section.locator("tbody tr").first.wait_for()
            more = section.get_by_role("button", name="Show all")
            if await more.count():
                await more.click()
            table = await page.evaluate(TABLE, name)
            assert sum(float(row[1].lstrip("$").replace(",", "")) for row in table) == pytest.approx(cost, abs=0.5)
            assert sum(int(row[2].replace(",", "")) for row in table) == tokens
        # each day is a bar, days without any included, which says its numbers; tokens have the same chart
        bars = page.locator(".chart rect.bar")
        days = await page.evaluate(TABLE, "day")
        assert await bars.count() >= len(days) > 15
        titles = await page.evaluate(
            "() => [...document.querySelectorAll('.bar title')].map((each) => each.textContent)"
        )
        assert any(title.startswith(f"{days[0][0]}: {days[0][1]}, ") for title in titles)
        await page.get_by_role("button", name="Tokens", exact=True).first.click()
        await until(
            page, "() => document.querySelector('.chart svg').getAttribute('aria-label').startsWith('Tokens of')"
        )
        # sorted by any column, both ways; copied as CSV
        session = page.locator("[aria-labelledby=by-session]")
        await session.get_by_role("button", name="Cost").click()
        costs = [row[1] for row in await page.evaluate(TABLE, "session")]
        await session.get_by_role("button", name="Cost").click()
        assert [row[1] for row in await page.evaluate(TABLE, "session")] == costs[::-1]
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await session.get_by_role("button", name="Copy as CSV").click()
        await expect(page.get_by_text("Copied 62 rows as CSV")).to_be_visible()
        lines = (await page.evaluate("() => navigator.clipboard.readText()")).splitlines()
        head = "session,title,cost,total_tokens,input_tokens,output_tokens,cache_read_tokens,sessions"
        assert lines[0] == head
        assert len(lines) == 63
        # the same filter as the list of sessions has, in the address; a row leads on
        await page.get_by_role("button", name="Time: any").click()
        await page.get_by_role("menuitemradio", name="last 7 days").click()
        await until(page, "() => document.querySelectorAll('.chart rect.bar').length <= 8")
        await expect(page).to_have_url(re.compile("days=7"))
        await page.locator("[aria-labelledby=by-project] tbody a").first.click()
        await until(page, "() => location.pathname === '/sessions'")
        await expect(page).to_have_url(re.compile("(?=.*days=7)(?=.*project=)"))
        await page.locator(".listed").nth(1).wait_for()
        await page.goto("about:blank")  # before the server goes


async def test_what_is_not_counted_is_not_shown_as_nothing(page: Page, host: SessionHost, site: Site) -> None:
    await (await host.create("one")).append_message("assistant", "Hello", model="m")
    await page.goto(site.url + "usage")
    await expect(page.get_by_text("Nothing was counted yet")).to_be_visible()
    assert await page.locator(".sums, .chart").count() == 0
    await page.goto(site.url + "usage?project=%2Felsewhere")
    await expect(page.get_by_text("No usage matches")).to_be_visible()
    await page.get_by_role("button", name="Show all usage").click()
    await until(page, "() => location.search === ''")
