"""The places of a long path: marked beside it though they are not loaded, and reached without what lies between."""

import pytest
from playwright.async_api import Page, expect

from treering import SessionHost, message, tool_result, tool_use

from .conftest import Site

pytestmark = pytest.mark.browser


@pytest.mark.feature("S-35")
async def test_what_is_far_is_marked_and_reached_in_one_step(host: SessionHost, site: Site, page: Page) -> None:
    session = await host.create("far")
    steps = iter(range(10_000))

    async def work(count: int) -> list[str]:
        return await session.append_many([message("assistant", f"step {next(steps)}") for _ in range(count)])

    await session.append_message("user", "The first prompt.")
    early = await work(4_000)
    await session.append_message("user", "The second prompt.")
    await session.append_message("assistant", [tool_use("c1", "bash", {"command": "make"})])
    await session.append_message("tool", [tool_result("c1", "no rule", is_error=True)], tool_name="bash")
    await work(5_000)
    await session.append_message("user", "Beside.", below=early[100], aside=True)
    await session.set_label(early[700], "here it began")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/outline?" in request.url else None)

    def read() -> list[str]:
        return [url for url in asked if "places" not in url]

    await page.goto(f"{site.url}s/far")
    kinds = ("error", "branch", "label", "prompt")
    for kind, number in zip(kinds, (1, 1, 1, 2), strict=True):
        await expect(page.locator(f".path-map .map-{kind}")).to_have_count(number)
    outline = page.locator(".outline li")
    words = ["The first prompt.", "2 branches", "here it began", "The second prompt.", "failed: no rule"]
    assert [(await each.inner_text()).split("\n")[-1] for each in await outline.all()] == words
    assert await page.locator(".outline .turn").all_text_contents() == ["1", "2"]
    active = page.locator(".row.is-active")
    for key, said in (("[", "The second prompt."), ("[", "The first prompt.")):
        await page.keyboard.press(key)
        await expect(active).to_contain_text(said)
    await page.keyboard.press("e")
    await expect(active).to_contain_text("make")
    await expect(active.get_by_text("no rule")).to_be_visible()
    await page.keyboard.press("Home")
    await expect(page.locator(".path").get_by_text("The first prompt.")).to_be_in_viewport()
    await page.keyboard.press("b")
    await expect(page.locator(".row.is-active.is-branch")).to_contain_text("Beside.")
    assert len(read()) <= 10, "the path between was read"
    await page.keyboard.press("End")
    await expect(page.locator(".path").get_by_text("step 8999")).to_be_visible()

    # what comes is marked at once, and a label wherever it is set
    before = len(asked)
    await session.append_message("user", "The third prompt.")
    await expect(page.locator(".outline")).to_contain_text("The third prompt.")
    assert await page.locator(".outline .turn").all_text_contents() == ["1", "2", "3"]
    assert [url for url in asked[before:] if "places" in url] == []
    await session.set_label(early[701], "and here")
    await expect(page.locator(".outline")).to_contain_text("and here")
    await session.set_label(early[700], None)
    await expect(page.locator(".outline")).not_to_contain_text("here it began")
