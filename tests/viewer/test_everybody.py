"""For everybody: no page has what axe finds, in light, dark and on the phone; motion is reduced, and pages print."""

from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from playwright.async_api import Browser, Page, expect

from treering import SessionHost

from .chromium import Watch
from .conftest import Site, site_of
from .filling import fill, wake

pytestmark = pytest.mark.browser

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
FIND = """
async (rules) => {
  const found = await axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
  return found.violations.flatMap((each) =>
    each.nodes.map((node) => `${each.id}: ${node.html.slice(0, 160)} ${node.failureSummary}`));
}
"""
MOVES = """
() => document.getAnimations().map((each) => each.effect.target.className)
  .concat([...document.querySelectorAll("*")]
    .filter((each) => parseFloat(getComputedStyle(each).transitionDuration) > 0)
    .map((each) => each.className))
"""
SETTLED = """
async () => {
  const drawn = () => document.getElementById("main").innerHTML.length;
  for (let still = 0, before = -1; still < 3; ) {
    await new Promise((done) => setTimeout(done, 50));
    const now = drawn();
    still = now === before && !document.querySelector(".skeleton") ? still + 1 : 0;
    before = now;
  }
}
"""
LOOKS: list[tuple[int, Literal["light", "dark"]]] = [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")]


class Full(NamedTuple):
    """A server with sixty sessions, and the addresses of its pages."""

    site: Site
    pages: dict[str, str]


@pytest.fixture
async def full(tmp_path: Path) -> AsyncIterator[Full]:
    root = tmp_path / "root"
    await fill(root)
    async with SessionHost(root) as host:
        failed = (await wake(host))["billing-17"]
        first = next(node.id for node in failed.tree().nodes if node.depth == 1)
        await failed.branch(first)
        await failed.append_message("user", "Only look, change nothing.")
        other = failed.leaf_id
        ends = [node.id for node in failed.tree().nodes if not node.children]
        pages = {
            "live": "",
            "live, asleep": "?state=asleep,idle",
            "sessions": "sessions",
            "found": "sessions?q=report",
            "nothing": "sessions?q=nothinglikethis",
            "usage": "usage",
            "no usage": "usage?project=%2Fnone",
            "session": f"s/{failed.id}",
            "entry": f"s/{failed.id}/e/{first}",
            "tree": f"s/{failed.id}/tree",
            "saw": f"s/{failed.id}/saw/{other}",
            "compare": f"s/{failed.id}/compare/{ends[0]}/{ends[-1]}",
            "absent": "s/absent",
        }
        async with site_of(host) as site:
            yield Full(site, pages)


async def settled(page: Page) -> None:
    """Wait until the page has drawn what it asked for."""
    await page.locator("main > *").first.wait_for()
    await page.evaluate(SETTLED)


@pytest.mark.feature("S-43")
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
async def test_axe_finds_nothing_on_any_page(
    browser: Browser, full: Full, width: int, scheme: Literal["light", "dark"]
) -> None:
    context = await browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    watch = Watch(context, ["404"])
    page = await context.new_page()
    found: dict[str, list[str]] = {}
    for name, address in full.pages.items():
        await page.goto(full.site.url + address)
        await settled(page)
        await page.evaluate(AXE)
        findings = await page.evaluate(FIND, RULES)
        wide = await page.evaluate("() => document.documentElement.scrollWidth > innerWidth")
        findings += ["it scrolls sideways"] if wide else []
        findings += [f"{each} moves" for each in await page.evaluate(MOVES)]
        if findings:
            found[name] = findings
    await context.close()
    watch.check()
    assert found == {}


@pytest.mark.feature("S-43")
async def test_pages_print_what_they_show(browser: Browser, full: Full) -> None:
    context = await browser.new_context(viewport={"width": 1000, "height": 700}, color_scheme="dark")
    page = await context.new_page()
    for name, words in (("sessions", "Close the month of October"), ("usage", "By project"), ("session", "Only look")):
        await page.goto(full.site.url + full.pages[name])
        await settled(page)
        await page.emulate_media(media="print")
        assert not await page.locator(".head").is_visible()
        assert await page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert words in await page.locator("main").inner_text()
        # a list is printed as long as its rows are, not as long as it scrolls
        assert 1 <= (await page.pdf()).count(b"/Type /Page\n") <= 12, name
        if name == "sessions":
            await expect(page.locator(".list-row")).to_have_count(62)
        await page.emulate_media(media="screen")
    await context.close()
