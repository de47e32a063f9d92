"""What the model saw: the parts add up to the window, and each message says what became of it and opens."""

import random
import re

import pytest
from playwright.async_api import Locator, Page, expect

from treering import SessionHost
from treering.entries import Provider, Usage

from .conftest import Site
from .trees import turns

pytestmark = pytest.mark.browser


async def table(page: Page) -> dict[str, str]:
    """Return the tokens of each part, as the table has them."""
    rows: list[list[str]] = await page.locator(".saw-table tr").evaluate_all(
        "rows => rows.map((row) => [...row.children].map((cell) => cell.innerText))"
    )
    return {row[0].split()[0] if row[0] != "The window" else row[0]: row[1] for row in rows[1:]}


def number(words: str) -> int:
    return 0 if words == "not in the log" else int(words.replace(",", ""))


async def opened(item: Locator) -> str:
    """Open an item, and return what is in it."""
    await item.get_by_role("button").first.click()
    await expect(item.locator(".saw-opened")).to_be_visible()
    await expect(item.locator(".saw-opened")).not_to_have_text("In the session")  # its body has come, too
    await expect(item.locator(".skeleton")).to_have_count(0)
    return await item.locator(".saw-opened").inner_text()


@pytest.mark.feature("S-38")
async def test_what_the_model_saw_at_any_entry(site: Site, host: SessionHost, page: Page, allowed: list[str]) -> None:
    session = await host.create("s")
    await session.update_metadata(provider=Provider("demo", "model-x", 3_000))
    await session.append_message("system", "You are careful. " * 20)
    before = await session.append_many(turns(6, random.Random(1)))
    kept = await session.append_message("user", "Now the tests, please.")
    await session.append_compaction("The parser takes empty files.", kept, 148_000)
    await session.append_many(turns(20, random.Random(3)))
    edited = await session.append_message("user", "The password is hunter2.")
    await session.append_context_edit(edited, None)
    usage = Usage(input_tokens=5_000, output_tokens=20, cache_read_tokens=900, total_tokens=5_920)
    answer = await session.append_message("assistant", "So it is done.", model="model-x", provider="demo", usage=usage)
    report = await session.context_report(answer)
    fates = {item.entry_id: item.fate for item in report.items}
    assert {"sent", "masked", "cut"} <= set(fates.values())

    await page.goto(f"{site.url}s/s/saw/{answer}")
    await expect(page.get_by_text("What the model saw before this answer")).to_be_visible()
    parts = await table(page)
    assert number(parts.pop("The window")) == 3_000 == sum(map(number, parts.values()))
    for name in ("summary", "messages", "results", "free"):
        assert number(parts[name.capitalize()]) == getattr(report.parts, name)
    assert number(parts["System"]) == report.parts.system > 0
    assert parts["Tools"] == "not in the log"
    widths: list[float] = await page.locator(".saw-part").evaluate_all("all => all.map((each) => each.offsetWidth)")
    shown = [
        value
        for value in (
            report.parts.system,
            report.parts.summary,
            report.parts.messages,
            report.parts.results,
            report.parts.reserve,
            report.parts.free,
        )
        if value
    ]
    assert len(widths) == len(shown)
    assert max(abs(w / sum(widths) - v / 3_000) for w, v in zip(widths, shown, strict=True)) < 0.02
    await expect(page.locator(".saw-total")).to_contain_text("the provider counted 5,900, 900 of them cached")

    # each message in the order of the request; those that are absent stand in their places, and open
    items = page.locator(".saw-list > ol > li:not(.saw-hidden)")
    await expect(items).to_have_count(len(report.items))
    for place in (0, 1, 7, len(report.items) - 2, len(report.items) - 1):
        await expect(items.nth(place)).to_have_class(re.compile(f"is-{report.items[place].fate}"))
    left_out = page.locator(".saw-item.is-cut:not(.saw-hidden)")
    await expect(left_out).to_have_count(1)
    await expect(left_out).to_contain_text("left out by an edit")
    assert "hunter2" in await opened(left_out)
    masked = page.locator(".saw-item.is-masked").first
    words = await opened(masked)
    assert "As it was sent" in words
    assert "As it stands in the log" in words
    assert "masked-tools replaced results to make room" in await masked.inner_text()
    hidden = page.locator(".saw-hidden")
    await expect(hidden).to_contain_text(f"a compaction's summary stands for {len(before) + 1} entries")
    await expect(hidden).to_contain_text("148k")
    await hidden.get_by_role("button").click()
    await expect(hidden.locator(".saw-past")).to_have_count(report.hidden.count if report.hidden else 0)
    await expect(hidden.locator(".saw-past", has_text="You are careful.")).to_be_visible()
    summary = page.locator(".saw-item.is-summary").first
    assert "The parser takes empty files." in await opened(summary)

    # the call before and the next one, by keys, with the difference
    await expect(page.locator(".saw-table thead")).to_contain_text("Since the call before")
    assert report.previous_call is not None
    earlier = await session.context_report(report.previous_call)
    change = report.parts.messages - earlier.parts.messages
    row = page.locator(".saw-table tr", has_text="Messages").locator("td").last
    await expect(row).to_have_text(f"+{change}" if change > 0 else f"−{-change}" if change else "0")
    await page.keyboard.press("[")
    await expect(page).to_have_url(f"{site.url}s/s/saw/{report.previous_call}")
    await expect(page.get_by_role("button", name="next call")).to_be_enabled()
    await page.keyboard.press("]")
    await expect(page).to_have_url(f"{site.url}s/s/saw/{answer}")
    await page.go_back()
    await expect(page).to_have_url(f"{site.url}s/s/saw/{report.previous_call}")

    # another window: summarized where nothing else fits; and one that is too small says by how much
    await page.goto(f"{site.url}s/s/saw/{answer}")
    await page.get_by_label(re.compile("Window")).fill("1000")
    await page.get_by_role("button", name="Build for it").click()
    await expect(page.locator(".saw-item.is-summarized:not(.saw-hidden)").first).to_be_attached()
    await expect(page.locator(".saw-item", has_text="made by")).to_have_count(1)
    assert number((await table(page))["The window"]) == 1_000
    allowed.append("422")
    await page.get_by_label(re.compile("Window")).fill("90")
    await page.get_by_role("button", name="Build for it").click()
    await expect(page.get_by_text("the smallest context takes")).to_be_visible()


async def test_a_long_request_is_shown_in_pieces_and_an_unknown_window_is_said(
    site: Site, host: SessionHost, page: Page, allowed: list[str]
) -> None:
    session = await host.create("long")
    await session.append_many(turns(700, random.Random(1)))
    last = await session.append_message("user", "And now?")
    await page.goto(f"{site.url}s/long/saw/{last}")
    await expect(page.get_by_text("What the model would be sent here")).to_be_visible()
    await expect(page.get_by_text("window unknown")).to_be_visible()
    assert await page.evaluate("document.querySelectorAll('*').length") < 4_000
    items = page.locator(".saw-item")
    await expect(items).to_have_count(300)
    await expect(items.last).to_contain_text("And now?")
    everything = (await session.context_report(last)).items
    await expect(page.locator(".saw-title")).to_contain_text(f"of {len(everything):,} messages sent")
    await page.get_by_role("button", name=re.compile("messages before")).click()
    await expect(items).to_have_count(600)
    await page.get_by_role("button", name="Show the first 40").click()
    await expect(items).to_have_count(640)
    for place, item in ((0, everything[0]), (39, everything[39]), (40, everything[-600]), (639, everything[-1])):
        await expect(items.nth(place).locator(".saw-text")).to_contain_text(item.text[:20])
    await expect(page.get_by_role("button", name=re.compile("messages between"))).to_be_visible()
    empty = await host.create("empty")
    first = await empty.append_message("assistant", "Hello, whoever you are.")
    await page.goto(f"{site.url}s/empty/saw/{first}")
    await expect(page.get_by_text("The model saw nothing of this session here")).to_be_visible()
    allowed.append("404")
    await page.goto(f"{site.url}s/long/saw/nobody")
    await expect(page.get_by_role("alert")).to_contain_text("nobody")
