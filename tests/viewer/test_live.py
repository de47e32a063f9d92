"""Live: a thousand agents at a glance, who needs somebody first, drawn as they change."""

import statistics
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from tests.lateness import waited_s, waits

from treering import Session, SessionHost, tool_use

from .chromium import until
from .conftest import Serving, Site
from .filling import wake

pytestmark = pytest.mark.browser

CHANGE_S = 0.25
SEEN = """
(text) => new Promise((done) => {
  const look = () => {
    if (![...document.querySelectorAll(".agent .doing")].some((each) => each.textContent.includes(text))) return;
    watch.disconnect();
    done(performance.timeOrigin + performance.now());
  };
  const watch = new MutationObserver(look);
  watch.observe(document.getElementById("main"), { subtree: true, childList: true, characterData: true });
})
"""
NAMES = """
() => [...document.querySelectorAll(".list-row")].sort((a, b) => a.dataset.index - b.dataset.index)
  .map((each) => each.querySelector(".agent-name bdi")?.textContent ?? each.textContent.trim())
"""


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[SessionHost]:
    """A host whose clock shows no time twice, so that "changed last" has an answer."""
    last = datetime.now(UTC)

    def clock() -> datetime:
        nonlocal last
        last = max(datetime.now(UTC), last + timedelta(milliseconds=1))
        return last

    async with SessionHost(tmp_path / "ticking", clock=clock) as host:
        yield host


async def begin(host: SessionHost, name: str) -> Session:
    """Return an agent that runs a tool."""
    session = await host.create(name)
    await session.append_message("user", f"Do {name}.")
    await session.append_message("assistant", [tool_use("c1", "bash", {"command": f"make {name}"})], model="m")
    return session


async def fail(session: Session, call_id: str = "c1") -> None:
    """Let the running tool fail."""
    await session.append_tool_execution(call_id, "bash", {}, "boom", is_error=True, exit_code=3)


@pytest.mark.feature("S-41")
async def test_a_thousand_agents_at_a_glance(page: Page, host: SessionHost, site: Site) -> None:
    agents = [await begin(host, f"agent-{number:04}") for number in range(982)]
    await wake(host)  # eighteen more: errors, one that waits, sub-agents, idle ones
    await fail(agents[500])
    await page.goto(site.url)
    await expect(page.locator(".chip.is-working")).to_contain_text("993working")
    for group, words in (("error", "3errors"), ("waits", "1waits for you"), ("idle", "3idle"), ("asleep", "0asleep")):
        await expect(page.locator(f".chip.is-{group}")).to_contain_text(words)
    assert await page.title() == "(4) Live · treering"
    # errors first, whatever came later; the parent of a failed sub-agent stands among them and says so
    names = await page.evaluate(NAMES)
    assert names[0] == "Do agent-0500."
    assert names[1:5] == [
        "Review the change of the store",
        "Review cache.py",
        "6 more: 6 working",
        "Close the month of October",
    ]
    assert names[5] == "Remove what nobody calls"
    parent = page.locator(".list-row", has_text="Review the change of the store")
    await expect(parent).to_contain_text("1 of 7 failed")
    await page.get_by_role("button", name="6 more: 6 working").click()
    assert (await page.evaluate(NAMES))[3:9] == [
        f"Review {name}.py" for name in ("tail", "paths", "names", "pages", "index", "locks")
    ]
    # a row says the state, the tool with what matters of its arguments, the tokens and the age
    failed = page.locator(".list-row", has_text="Close the month of October")
    for words in ("error", "bash", "exit code 2", "3 invoices have no customer", "85k tokens", " s"):
        await expect(failed).to_contain_text(words)
    assert await failed.locator("a").get_attribute("href") != "s/billing-17"  # it leads to the entry that failed
    rows = page.locator(".list-row")
    assert await rows.count() < 60
    assert await rows.first.get_attribute("aria-setsize") == "1001"
    # what changes is drawn within a quarter of a second
    drawn_s: list[float] = []
    for number in range(5):
        said = page.evaluate(SEEN, f"make step-{number}")
        await page.evaluate("() => 0")
        before = waits()
        begun = time.time()
        await agents[500].append_message(
            "assistant", [tool_use(f"d{number}", "bash", {"command": f"make step-{number}"})], model="m"
        )
        drawn_s.append((await said) / 1000 - begun - waited_s(before))
        await fail(agents[500], f"d{number}")
        await until(page, "() => document.querySelector('.agent .doing').textContent.includes('exit code 3')")
    assert statistics.median(drawn_s) <= CHANGE_S, drawn_s


async def test_rows_stay_where_they_are_under_the_pointer(page: Page, host: SessionHost, site: Site) -> None:
    agents = [await begin(host, f"agent-{number}") for number in range(6)]
    await page.goto(site.url)
    first = page.locator(".list-row").first
    await expect(first).to_contain_text("agent-5")
    order = await page.evaluate(NAMES)
    await first.hover()
    await fail(agents[0])
    await begin(host, "agent-6")
    await expect(page.locator(".list-row", has_text="agent-0")).to_contain_text("error")
    await expect(page.locator(".list-row")).to_have_count(7)
    assert await page.evaluate(NAMES) == [*order, "Do agent-6."]
    await page.get_by_role("button", name="Order changed: sort now").click()
    assert (await page.evaluate(NAMES))[:2] == ["Do agent-0.", "Do agent-6."]
    await page.mouse.move(700, 20)
    await fail(agents[3])
    await expect(first).to_be_visible()
    await until(page, "() => document.querySelector('[data-index=\"0\"]').textContent.includes('agent-3')")
    # the counts filter; the keys move, find what needs somebody, and open it
    await page.locator(".chip.is-error").click()
    await expect(page.locator(".list-row")).to_have_count(2)
    await expect(page).to_have_url(f"{site.url}?state=error")
    await page.locator(".chip.is-error").click()
    await page.keyboard.press("n")
    assert "agent-3" in await page.evaluate("() => document.activeElement.textContent")
    await page.keyboard.press("j")
    assert "agent-0" in await page.evaluate("() => document.activeElement.textContent")
    await page.keyboard.press("Enter")
    await until(page, "() => location.pathname.startsWith('/s/agent-0/e/')")
    await page.go_back()
    await expect(page.locator(".list-row")).to_have_count(7)


ORDER = """async (rows) => {
  const { arrange } = await import(new URL("parts/roster.js", document.querySelector("script[type=module]").src));
  return arrange(rows).map(({ row }) => row.id);
}"""


async def test_who_changed_last_stands_first_also_at_a_whole_second(page: Page, site: Site) -> None:
    await page.goto(site.url)
    times = {"late": "2026-01-01T00:00:01.000002Z", "whole": "2026-01-01T00:00:01Z", "early": "2026-01-01T00:00:00.9Z"}
    state = {"state": "working", "live": True}
    rows = [{"id": name, "last_entry": at, "state": state, "parent_entry": None} for name, at in times.items()]
    assert await page.evaluate(ORDER, rows[::-1]) == ["late", "whole", "early"]


async def test_what_an_empty_and_an_absent_server_say(
    page: Page, tmp_path: Path, serving: Serving, allowed: list[str]
) -> None:
    allowed += ["net::ERR", "503"]  # it asks while its server ends, and when it is gone
    async with SessionHost(tmp_path / "root") as host:
        async with serving(host) as site:
            await page.goto(site.url)
            await expect(page.get_by_text("There are no sessions yet")).to_be_visible()
            await expect(page.get_by_text("treering demo --serve")).to_be_visible()
            session = await begin(host, "agent-1")
            await expect(page.locator(".list-row")).to_have_count(1)
            await expect(page.locator(".connection")).to_have_text("live")
        await expect(page.locator(".connection")).to_contain_text("no connection since")
        await expect(page.locator(".list-row")).to_have_count(1)
        await fail(session)
        async with serving(host, port=site.port):
            await expect(page.locator(".list-row")).to_contain_text("exit code 3", timeout=60_000)
            await expect(page.locator(".connection")).to_have_text("live")
            assert await page.locator(".list-row").count() == 1
