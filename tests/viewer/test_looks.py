"""How pages hold what is odd: long names, right-to-left text, wide numbers, little room; and what they say of it."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, ViewportSize, expect

from treering import SessionHost, Usage, tool_result, tool_use

from .conftest import Serving, Site

pytestmark = pytest.mark.browser

PHONE: ViewportSize = {"width": 390, "height": 844}

LINES = """() => [...document.querySelectorAll(".who:not(.side), .note-row, .session-figures")]
  .map((each) => new Set([...each.children].filter((one) => one.offsetParent && one.offsetTop < each.offsetHeight
    + each.offsetTop).map((one) => Math.round((one.offsetTop + one.offsetHeight / 2 - each.offsetTop) / 16))).size)"""
"""On how many lines the parts of each heading stand that are seen."""

LISTS = """() => [...document.querySelectorAll(".said ol, .said ul")].map((list) => {
  const style = getComputedStyle(list);
  const probe = document.createElement("span");
  probe.textContent = list.matches("ol") ? `${list.start + list.children.length - 1}. ` : "• ";
  list.firstElementChild.append(probe);
  const { width } = probe.getBoundingClientRect();
  probe.remove();
  return [style.direction, width, parseFloat(style.direction === "rtl" ? style.paddingRight : style.paddingLeft)];
})"""
"""For each list its direction, how wide its widest marker is, and how much room it has for that."""


async def test_a_phone_keeps_a_session_in_two_lines_headings_in_one(host: SessionHost, site: Site, page: Page) -> None:
    parent = await host.create("chief")
    await parent.append_message("user", "Go on.")
    name = "A name that says far more than anybody asked for " * 20
    session = await host.create("long-name", parent_session="chief")
    await session.set_title(name)
    await session.append_message("user", "Run it for real.")
    await session.append_message(
        "assistant",
        ["I run it now.", tool_use("c1", "bash", {"command": "make"})],
        model="a-model-whose-name-is-long-2026-11-27",
        provider="p",
        usage=Usage(input_tokens=123_456, total_tokens=125_000, cost=12.34),
    )
    await session.append_message("tool", [tool_result("c1", "boom", is_error=True)], tool_name="bash")
    await page.set_viewport_size(PHONE)
    for view in ("", "/tree", f"/saw/{session.leaf_id}"):
        await page.goto(f"{site.url}s/long-name{view}")
        bar = page.locator(".session-bar")
        await expect(bar.locator(".session-figures")).to_contain_text("error")
        await expect(bar.get_by_role("link", name=re.compile("Session|Tree")).first).to_be_visible()
        await expect(bar.locator(".session-up")).to_contain_text("Go on.")
        up = await bar.locator(".session-up").evaluate("line => line.offsetHeight")
        assert up < 32
        assert await bar.evaluate("bar => bar.offsetHeight") - up <= 92  # two lines of 44 px
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.goto(f"{site.url}s/long-name")
    await expect(page.locator('[data-call="c1"]').get_by_text("boom")).to_be_visible()
    assert set(await page.evaluate(LINES)) == {1}
    # where there is little room, that it is another branch is said before how old it is; and how others begin is read
    beside = await session.append_message("user", "Walk it instead, if you can.", below=session.path()[1], aside=True)
    await page.goto(f"{site.url}s/long-name/e/{beside}")
    words = page.locator(".session-figures .another")
    await expect(words).to_have_text("another branch")
    shown = (
        "each => each.offsetTop + each.offsetHeight <= each.parentElement.offsetTop + each.parentElement.offsetHeight"
    )
    assert await words.evaluate(shown)
    other = page.locator(".branch-others a")
    await expect(other).to_contain_text("I run it now.")
    assert await other.evaluate("link => link.scrollWidth <= link.clientWidth")
    await page.goto(f"{site.url}s/long-name")
    await expect(page.locator('[data-call="c1"]').get_by_text("boom")).to_be_visible()
    # the button that copies stays within what it copies
    inside = """button => {
      const [own, box] = [button, button.closest(".plain")].map((each) => each.getBoundingClientRect());
      return own.top >= box.top && own.bottom <= box.bottom;
    }"""
    assert await page.locator(".plain .button").first.evaluate(inside)


async def test_lists_have_room_for_their_numbers_and_each_block_the_direction_of_its_text(
    host: SessionHost, site: Site, page: Page
) -> None:
    session = await host.create("lists")
    await session.append_message("user", "1\\. no list\n\n- one\n- two\n\n1. first\n2. second")
    await session.append_message("assistant", "98765. far\n98766. further\n\nסעיפים:\n\n- ראשון\n- שני\n\n> ציטוט")
    await session.append_message("user", "שלום\n\n1. אחת\n2. שתיים\n\nAnd in English.")
    desk: ViewportSize = {"width": 1440, "height": 900}
    for size in (desk, PHONE):
        await page.set_viewport_size(size)
        await page.goto(f"{site.url}s/lists")
        await expect(page.locator(".said").get_by_text("And in English.")).to_be_visible()
        await expect(page.locator(".said :is(ol, ul)")).to_have_count(5)
        lists = await page.evaluate(LISTS)
        assert [direction for direction, *_ in lists] == ["ltr", "ltr", "ltr", "rtl", "rtl"]
        assert [room for _, marker, room in lists if room < marker] == []
        quote = page.locator(".said blockquote")
        assert await quote.evaluate("quote => getComputedStyle(quote).borderRightWidth") == "3px"
        english = page.locator(".said p", has_text="And in English.")
        assert await english.evaluate("said => getComputedStyle(said).direction") == "ltr"


async def test_what_was_found_has_its_columns_named_and_searching_is_not_finding_nothing(
    host: SessionHost, site: Site, page: Page
) -> None:
    session = await host.create("report-7")
    await session.set_title("The report of October")
    await session.append_message("user", "Write the report.")
    await page.goto(f"{site.url}sessions?q=report")
    labels = page.locator(".list-row.is-caption .listed-labels")
    await expect(labels).to_contain_text("Names")
    row = page.locator("a.listed")
    for word, cell in (("Messages", ".entries"), ("Tokens", ".tokens"), ("Last change", ".time")):
        heading, value = labels.get_by_text(word), row.locator(cell)
        edges = [await each.evaluate("cell => cell.getBoundingClientRect().right") for each in (heading, value)]
        assert edges[0] == pytest.approx(edges[1], abs=1)
    # while the server looks, the page does not say that there is nothing
    await page.route("**/v1/search?**", lambda _: None)
    await page.goto(f"{site.url}sessions?q=zebra")
    await expect(page.locator(".total")).to_have_text("0 names, searching conversations")
    await expect(page.locator(".skeleton > div").first).to_be_visible()
    await expect(page.get_by_text("Nothing matches")).to_have_count(0)
    await page.unroute_all(behavior="ignoreErrors")


async def test_the_longest_word_for_a_state_has_its_column(tmp_path: Path, serving: Serving, page: Page) -> None:
    async with SessionHost(tmp_path) as host:
        parent = await host.create("parent")
        await parent.append_message("user", "Go on.")
        for number in range(2):
            child = await host.create(f"c{number}", parent_session=parent.id, parent_entry=parent.leaf_id)
            await child.append_message("assistant", [tool_use("c1", "bash", {"command": "make"})], model="m")
    async with SessionHost(tmp_path) as host, serving(host) as site:
        for address, count in (("sessions", 3), ("?state=asleep", 3)):
            await page.goto(site.url + address)
            await expect(page.locator(".list-row .state", has_text="working, asleep")).to_have_count(count)
            gaps = await page.locator(".list-row > a").evaluate_all(
                "rows => rows.map((row) => row.querySelector('bdi').getBoundingClientRect().left"
                " - Math.max(...[...row.querySelector('.state').childNodes].map((part) => {"
                "   const range = document.createRange(); range.selectNode(part);"
                "   return range.getBoundingClientRect().right; })))"
            )
            assert min(gaps) >= 8, address
        await page.goto("about:blank")  # before the server goes


async def test_a_session_that_is_not_there_says_so_once_and_leads_on(
    site: Site, host: SessionHost, page: Page, allowed: list[str]
) -> None:
    allowed.append("404")
    await (await host.create("one")).append_message("user", "Hello")
    for view in ("", "/tree", "/saw/x", "/compare/x/y"):
        await page.goto(f"{site.url}s/nothing{view}")
        await expect(page.get_by_role("alert")).to_have_count(1)
        await page.get_by_role("link", name="All sessions").click()
        await expect(page).to_have_url(f"{site.url}sessions")
        await expect(page.locator(".total")).to_have_text("1 session")


async def test_a_session_of_one_line_has_the_ways_of_any_other(site: Site, host: SessionHost, page: Page) -> None:
    await (await host.create("one")).append_message("user", "Hello")
    places: list[float] = []
    for view in ("", "/tree", f"/compare/{(await host.load('one')).leaf_id}/x"):
        await page.goto(f"{site.url}s/one{view}")
        views = page.locator(".session-views a")
        await expect(views).to_have_text(["Session", "Tree", "What it saw"])
        top = "name => Math.round(name.getBoundingClientRect().top)"
        places.append(await page.locator(".session-bar h1").evaluate(top))
        places.append(await views.last.evaluate("link => link.parentElement.getBoundingClientRect().right"))
    assert len(set(places)) == 2, "the header moves from page to page"
