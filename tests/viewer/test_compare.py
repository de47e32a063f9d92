"""Two branches side by side: what both have stands once, each side has its figures, turns stay beside each other."""

import random

import pytest
from playwright.async_api import Page, expect

from treering import SessionHost, message, tool_result, tool_use
from treering.entries import Usage

from .conftest import Site
from .trees import turns

pytestmark = pytest.mark.browser

ERROR = (
    message(
        "assistant", (tool_use("c", "bash", {"command": "pytest"}),), usage=Usage(400, 100, total_tokens=500, cost=0.25)
    ),
    message("tool", tool_result("c", "1 failed", is_error=True)),
    message("assistant", "It fails.", usage=Usage(600, 100, total_tokens=700, cost=0.5)),
)
TOP_TURN = """box => {
  const top = box.getBoundingClientRect().top;
  const turns = [...box.querySelectorAll("[data-turn]")];
  return Number(turns.findLast((turn) => turn.getBoundingClientRect().top <= top + 2)?.dataset.turn ?? 0);
}"""


@pytest.mark.feature("S-37")
async def test_branches_stand_side_by_side_from_their_ancestor(site: Site, host: SessionHost, page: Page) -> None:
    session = await host.create("s")
    common = await session.append_many([message("user", "Fix it"), message("assistant", "I look at **it** first.")])
    left = await session.append_many([message("user", "One way"), *ERROR, *turns(14, random.Random(1))])
    await session.branch(common[-1])
    right = await session.append_many([message("user", "The other way"), *turns(25, random.Random(2))])
    await session.set_label(right[-1], "better")
    await page.goto(f"{site.url}s/s/compare/{left[-1]}/{right[-1]}")

    both = page.get_by_role("region", name="What both branches have")
    await both.get_by_text("Both begin with the same 2 entries").click()
    await expect(both.get_by_text("first.")).to_be_visible()
    await expect(page.locator("strong", has_text="it")).to_have_count(1)
    await both.get_by_text("Both begin with the same 2 entries").click()
    sides = [page.get_by_role("region", name=f"Branch {name}", exact=True) for name in "AB"]
    figures = [
        await side.locator("dl > div").evaluate_all("all => all.map((each) => each.innerText.replace(/\\s+/g, ' '))")
        for side in sides
    ]
    assert figures[0][0] == f"entries {len(left)}"
    assert figures[1][0] == f"entries {len(right)}"
    assert [each.split()[0] for each in figures[0]] == ["entries", "duration", "tokens", "cost", "errors"]
    cost = sum(0.004 * 2 + 0.01 for _ in range(14)) + 0.75
    assert figures[0][3] == f"cost ${cost:.2f}"
    failed = sum(
        part.tool_result.is_error
        for each in turns(14, random.Random(1))
        for part in each.content
        if part.type == "tool_result"
    )
    assert figures[0][4] == f"errors {failed + 1}"
    await expect(sides[1].locator("header")).to_contain_text("better")
    await expect(sides[0].get_by_text("One way")).to_be_visible()
    await expect(sides[1].get_by_text("The other way")).to_be_visible()
    await expect(sides[0]).not_to_contain_text("I look at")

    # scrolled together, the same turn is at the top of both; apart, the other side stays
    boxes = [side.get_by_role("group") for side in sides]
    await boxes[1].hover()
    await boxes[1].evaluate("box => { box.querySelector('[data-turn=\"9\"]').scrollIntoView() }")
    await page.wait_for_function(f"() => ({TOP_TURN})(document.querySelectorAll('.compare-scroll')[0]) === 9")
    await page.get_by_label("scroll together").uncheck()
    await boxes[0].hover()
    await boxes[0].evaluate("box => { box.scrollTop = 0 }")
    await page.wait_for_function("() => document.querySelector('.compare-scroll').scrollTop === 0")
    assert await boxes[1].evaluate(TOP_TURN) == 9
    await expect(sides[1].get_by_role("link", name="open at its end")).to_have_attribute("href", f"s/s/e/{right[-1]}")

    # on the phone: one side at a time, at the turn where the other one was
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.reload()
    await expect(sides[1]).to_be_hidden()
    tabs = page.get_by_role("tab")
    await expect(tabs.first).to_have_attribute("aria-selected", "true")
    await tabs.first.focus()
    await page.keyboard.press("ArrowRight")
    await expect(sides[1]).to_be_visible()
    await expect(sides[0]).to_be_hidden()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_what_cannot_be_compared_says_so(site: Site, host: SessionHost, page: Page) -> None:
    session = await host.create("s")
    first = await session.append_message("user", "One")
    last = await session.append_message("assistant", "Two")
    other = await session.append_message("user", "Another root", below=None)
    await page.goto(f"{site.url}s/s/compare/{last}/nobody")
    await expect(page.get_by_text("One of the two entries is not in this session")).to_be_visible()
    await page.goto(f"{site.url}s/s/compare/{first}/{last}")
    await expect(page.get_by_text("so one side has nothing of its own")).to_be_visible()
    await page.goto(f"{site.url}s/s/compare/{last}/{other}")
    await expect(page.get_by_text("They have no entry in common")).to_be_visible()
    await expect(page.get_by_text("Another root")).to_be_visible()
