"""Sessions: live, found as one types, a hundred thousand of them by range, with the keyboard alone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, Request, expect

from treering import SessionHost

from .chromium import until
from .conftest import Serving, Site
from .filling import fill, wake

pytestmark = pytest.mark.browser

MANY = 100_000
NAMES = """
() => [...document.querySelectorAll(".list-row")].sort((a, b) => a.dataset.index - b.dataset.index)
  .map((each) => each.querySelector(".name bdi")?.textContent)
"""


@pytest.mark.feature("S-34")
async def test_a_list_is_live_searched_as_one_types_and_filtered(page: Page, tmp_path: Path, serving: Serving) -> None:
    root = tmp_path / "filled"
    await fill(root)
    async with SessionHost(root) as host, serving(host) as site:
        await wake(host)
        await page.goto(site.url + "sessions")
        await expect(page.locator(".total")).to_have_text("62 sessions")
        # live: a new session stands first, a changed one says its last line, a deleted one goes
        session = await host.create("brand-new", cwd="/src/api")
        await session.append_message("user", "Look at the zebra crossing.")
        await expect(page.locator("[data-index='0']")).to_contain_text("Look at the zebra crossing.")
        await expect(page.locator(".total")).to_have_text("63 sessions")
        await session.append_message("assistant", "There is one stripe too many.", model="m")
        await expect(page.locator("[data-index='0']")).to_contain_text("There is one stripe too many.")
        # searched as one types, from the keyboard; the excerpt marks the words, and leads to the entry
        await page.keyboard.press("/")
        await page.keyboard.type("stripe")
        hit = page.locator(".hit")
        await expect(hit).to_have_count(1)
        await expect(hit.locator("mark")).to_have_text("stripe")
        await expect(page.locator(".total")).to_have_text("0 names, 1 entry")
        await expect(page).to_have_url(f"{site.url}sessions?q=stripe")
        await page.keyboard.press("Enter")
        await until(page, f"() => location.pathname === '/s/brand-new/e/{session.leaf_id}'")
        await page.go_back()
        await expect(hit).to_have_count(1)
        await page.keyboard.press("/")
        await page.keyboard.press("Escape")
        await expect(page.locator(".total")).to_have_text("63 sessions")
        # names are found too, and counts and chips filter; the address says it all
        await page.goto(site.url + "sessions?q=zebra")
        await expect(page.locator(".total")).to_have_text("1 name, 1 entry")
        await page.goto(site.url + "sessions?q=nothinglikethis")
        await page.get_by_role("button", name="Show all sessions").click()
        await page.locator(".chip.is-waits").click()
        await expect(page.locator(".total")).to_have_text("1 of 63 sessions")
        await expect(page.locator(".list-row")).to_have_count(1)
        await page.locator(".chip.is-waits").click()
        await page.get_by_role("button", name="Project: any").click()
        await page.get_by_role("menuitemradio", name="docs").click()
        await until(page, "() => new URL(location).searchParams.get('project') === '/src/docs'")
        await expect(page.locator(".total")).not_to_have_text("63 sessions")
        projects = {row.project for row in await host.list_sessions() if row.id in await shown_ids(page)}
        assert projects == {"/src/docs"}
        await page.get_by_role("button", name="Project: docs").click()
        await page.get_by_role("menuitemradio", name="any").click()
        await page.get_by_role("button", name="Archived").click()
        await expect(page.locator(".total")).to_have_text("4 sessions")
        await page.get_by_role("button", name="Archived").click()
        await host.delete("brand-new")
        await expect(page.locator(".total")).to_have_text("62 sessions")
        await page.goto("about:blank")  # before the server goes


async def shown_ids(page: Page) -> set[str]:
    """Return the ids of the sessions in view."""
    await page.locator(".list-row").first.wait_for()
    links = await page.evaluate("() => [...document.querySelectorAll('a.listed')].map((each) => each.pathname)")
    return {link.split("/")[2] for link in links}


@pytest.fixture
async def many() -> AsyncIterator[SessionHost]:
    """A host of a hundred thousand sessions."""
    async with SessionHost() as host:
        for number in range(MANY):
            session = await host.create(f"agent-{number:06}")
            await session.append_message("user", "Go")
        yield host


@pytest.mark.feature("S-34")
@pytest.mark.timeout(600)
async def test_100_000_scroll_by_range_with_the_keyboard(page: Page, many: SessionHost, serving: Serving) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/v1/sessions?" in request.url:
            asked.append(request.url)

    async with serving(many) as site:
        page.on("request", note)
        await page.goto(site.url + "sessions")
        await expect(page.locator(".total")).to_have_text("100,000 sessions")
        await page.locator("[role=list]").focus()
        await page.keyboard.press("End")
        last = page.locator(f"[data-index='{MANY - 1}']")
        await expect(last.locator("bdi").first).to_have_text("Go")
        assert await last.get_attribute("aria-posinset") == "100000"
        assert await last.get_attribute("aria-setsize") == "100000"
        await expect(last.locator("a")).to_be_focused()
        await page.keyboard.press("Home")
        await expect(page.locator("[data-index='0'] a")).to_be_focused()
        await page.keyboard.press("PageDown")
        # a key that is still on its way would take the list back to its row
        await until(page, "() => Number(document.activeElement.closest('[data-index]')?.dataset.index) > 0")
        await page.evaluate("() => { document.querySelector('.list').scrollTop = 44 * 50_000; }")
        await expect(page.locator("[data-index='50002'] bdi").first).to_have_text("Go")
        assert await page.locator(".list-row").count() < 60
        assert await page.evaluate("() => document.querySelectorAll('*').length") < 1500
        assert len(asked) < 20
        await page.locator("[data-index='50002'] a").click()
        await until(page, "() => location.pathname.startsWith('/s/agent-')")
        await page.go_back()
        await expect(page.locator("[data-index='50002'] bdi").first).to_have_text("Go")
        await page.goto("about:blank")  # before the server goes


async def test_the_order_holds_under_the_pointer(page: Page, host: SessionHost, site: Site) -> None:
    for name in ("one", "two", "three"):
        await (await host.create(name)).append_message("user", name)
    await page.goto(site.url + "sessions")
    await expect(page.locator(".list-row")).to_have_count(3)
    before = await page.evaluate(NAMES)
    await page.locator("[data-index='1']").hover()
    await (await host.load("one")).append_message("assistant", "Said while somebody reads.", model="m")
    await expect(page.locator(".list-row", has_text="Said while somebody reads.")).to_have_count(1)
    assert await page.evaluate(NAMES) == before
    await page.get_by_role("button", name="Order changed: sort now").click()
    await until(page, "() => document.querySelector(\"[data-index='0']\").textContent.includes('Said while')")
