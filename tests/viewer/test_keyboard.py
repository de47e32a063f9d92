"""By the keyboard alone: Tab walks every page, what opens gives the focus back, and axe finds nothing in it."""

from typing import Literal, NamedTuple

import pytest
from playwright.async_api import Browser, Page, expect

from treering import SessionHost

from .chromium import Watch
from .conftest import Site
from .filling import wake
from .long_story import tell_everything, tell_long
from .test_everybody import AXE, FIND, RULES, settled

pytestmark = pytest.mark.browser

STOPS_MAX = 200
FOCUSED = """() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const ring = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2) || style.boxShadow !== "none";
  const shown = element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const within = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  const named = element.ariaLabel || element.labels?.[0]?.textContent || element.textContent || element.title
    || element.getAttribute("aria-labelledby");
  return { is: element.outerHTML.slice(0, 120), ring, shown, within, named: Boolean(named?.trim()) };
}"""


class Told(NamedTuple):
    """The addresses of pages, and the id of an entry."""

    pages: list[str]
    entry: str


@pytest.fixture
async def told(host: SessionHost) -> Told:
    await wake(host)
    story = await tell_everything(host)
    await tell_long(host, 100)
    leaf = story.session.leaf_id
    pages = [
        "",
        "sessions",
        "sessions?q=invoices",
        "usage",
        "s/everything",
        "s/everything/tree",
        f"s/everything/saw/{leaf}",
        f"s/everything/compare/{leaf}/{story.other}",
    ]
    return Told(pages, story.labelled)


@pytest.mark.feature("S-43")
async def test_tab_walks_every_page_with_the_focus_in_sight(page: Page, site: Site, told: Told) -> None:
    wrong: list[str] = []
    for address in told.pages:
        await page.goto(site.url + address)
        await settled(page)
        seen: list[str] = []
        for _ in range(STOPS_MAX):
            await page.keyboard.press("Tab")
            focus = await page.evaluate(FOCUSED)
            if focus is None or focus["is"] in seen[:1]:
                break
            seen.append(focus["is"])
            wrong += [
                f"/{address}: {name} is missing: {focus['is']}"
                for name in ("ring", "shown", "within", "named")
                if not focus[name]
            ]
        else:
            wrong.append(f"/{address}: more than {STOPS_MAX} steps")
        if len(seen) < 8:
            wrong.append(f"/{address}: only {len(seen)} steps: {seen}")
    assert wrong == []


@pytest.mark.feature("S-43")
async def test_what_opens_takes_the_focus_and_gives_it_back(page: Page, site: Site, told: Told) -> None:
    await page.goto(f"{site.url}s/everything")
    await expect(page.locator(".path").get_by_text("I go on.")).to_be_visible()
    focused = page.locator(":focus")
    await page.keyboard.press("Tab")
    await expect(focused).to_have_text("To the content")
    await page.keyboard.press("Enter")
    await expect(focused).to_have_id("main")

    # the menu of the session: the arrows walk it, Escape leaves it; a dialog of it holds the focus until it is closed
    more = page.get_by_role("button", name="More", exact=True)
    await more.focus()
    await page.keyboard.press("Enter")
    first = page.get_by_role("menuitem").first
    await expect(first).to_be_focused()
    await page.keyboard.press("End")
    await expect(page.get_by_role("menuitem", name="Delete")).to_be_focused()
    await page.keyboard.press("Home")
    await expect(first).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(more).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(first).to_be_focused()
    await page.keyboard.press("Enter")  # it renames
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("textbox")).to_be_focused()
    for _ in range(8):
        await page.keyboard.press("Tab")
        assert await page.evaluate(
            "() => document.activeElement === document.body || Boolean(document.activeElement.closest('dialog'))"
        )
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(more).to_be_focused()

    # the list of keys, and the way of an entry's menu
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("?")
    await expect(dialog).to_contain_text("all keys")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await page.locator(f'[data-entry="{told.entry}"]').get_by_role("button", name="Menu of entry").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("menuitem", name="Copy link")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Escape")
    await expect(focused).to_have_accessible_name(f"Menu of entry {6}")

    # a message is written, sent and read without the pointer
    await page.get_by_role("textbox", name="Message to append").focus()
    await page.keyboard.type("By keys alone")
    await page.keyboard.press("Control+Enter")
    await expect(page.locator(".path").get_by_text("By keys alone")).to_be_visible()


@pytest.mark.feature("S-43")
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
async def test_axe_finds_nothing_in_what_opens(
    browser: Browser, host: SessionHost, site: Site, told: Told, width: int, scheme: Literal["light", "dark"]
) -> None:
    context = await browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    watch = Watch(context, ["422"])
    page = await context.new_page()
    found: dict[str, list[str]] = {}

    async def look(name: str) -> None:
        await settled(page)
        await page.evaluate(AXE)
        findings = await page.evaluate(FIND, RULES)
        if await page.evaluate("() => document.documentElement.scrollWidth > innerWidth"):
            findings.append("it scrolls sideways")
        if findings:
            found[name] = findings

    await page.goto(f"{site.url}s/everything")
    await expect(page.locator(".path").get_by_text("I go on.")).to_be_visible()
    if width < 600:
        await page.get_by_role("button", name="Outline").click()
        await look("outline")
        await page.keyboard.press("Escape")
    more = page.get_by_role("button", name="More", exact=True)
    await more.click()
    await look("menu")
    await page.keyboard.press("Escape")
    for name in ("Rename", "Compact", "Export", "Delete"):
        await more.click()
        await page.get_by_role("menuitem", name=name).click()
        await expect(page.get_by_role("dialog")).to_be_visible()
        await look(name)
        await page.keyboard.press("Escape")
    await page.keyboard.press("?")
    await look("keys")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Expand all").click()
    session = await host.load("everything")
    session.emit_text("agent.text", "I am still writing", message="a1")
    await expect(page.locator(".row.is-live")).to_be_visible()
    await look("all open, and writing")
    rows = page.locator(".row[data-entry] h3")
    await rows.last.click()
    await rows.first.click(modifiers=["Shift"])
    await expect(page.locator(".picked-bar")).to_be_visible()
    await look("picked")
    await page.goto(f"{site.url}s/everything/saw/{session.leaf_id}")
    for line in await page.locator(".saw-line").all():
        await line.click()
    await page.evaluate("scrollTo(0, 0)")  # what is half below the header is not small
    await look("what it saw, open")
    await page.get_by_label("Window").fill("5")
    await page.get_by_role("button", name="Build for it").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await look("a window too small")
    await page.goto(f"{site.url}s/long")
    await expect(page.locator(".path").get_by_text("Done with step 99")).to_be_visible()
    await page.keyboard.press("Control+f")
    await page.get_by_role("searchbox", name="Find in this session").fill("line")
    await expect(page.locator(".find-words")).to_contain_text("of")
    await look("find")
    await page.keyboard.press("Escape")
    await page.goto(f"{site.url}usage?measure=tokens")
    await page.get_by_role("button", name="Time").click()
    await look("filter")
    await context.close()
    watch.check()
    assert found == {}
