"""What a person does to a session in its page: everything is written once, and nothing that was typed is lost."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from treering import Session, SessionHost, plain_text
from treering.events.disk.disk import OsDisk
from treering.server.tokens import Tokens

from .conftest import Serving, Site
from .long_story import tell_everything

pytestmark = pytest.mark.browser


async def _said(session: Session) -> list[str]:
    return [plain_text(each.content) for each in await session.messages()]


@pytest.mark.feature("S-40")
async def test_a_person_acts_on_a_session(
    host: SessionHost, site: Site, page: Page, allowed: list[str], serving: Serving, tmp_path: Path
) -> None:
    told = await tell_everything(host)
    session = told.session
    await page.goto(f"{site.url}s/everything")
    path, field = page.locator(".path"), page.get_by_role("textbox", name="Message to append")
    await expect(path.get_by_text("I go on.")).to_be_visible()

    # append, by the key; what is typed survives a reload until it is sent
    await field.fill("Half a thought")
    await page.reload()
    await expect(field).to_have_value("Half a thought")
    await field.fill("A whole thought")
    await field.press("Control+Enter")
    await expect(path.get_by_text("A whole thought")).to_be_visible()
    await expect(field).to_have_value("")
    assert (await _said(session))[-1] == "A whole thought"

    # another writer is faster: what came between is shown, nothing is lost, and both ways on work
    async def first(route: Route) -> None:
        await session.append_message("user", "I was faster.")
        await route.continue_()

    allowed.append("412")
    for choice, words in (("Append anyway", "Said anyway"), ("Branch here", "Said beside it")):
        known = session.leaf_id
        await page.route("**/entries", first, times=1)
        await field.fill(words)
        await page.get_by_role("button", name="Append", exact=True).click()
        conflict = page.locator(".conflict")
        await expect(conflict).to_contain_text("1 entry came in between")
        await expect(conflict).to_contain_text("I was faster.")
        await expect(field).to_have_value(words)
        assert words not in await _said(session)
        await conflict.get_by_role("button", name=choice).click()
        await expect(path.get_by_text(words)).to_be_visible()
        await expect(conflict).to_have_count(0)
        await expect(field).to_have_value("")
        below = (await session.entries())[-1]
        assert (below.parent_id == known) is (choice == "Branch here")

    # a reply that is lost is asked for again with the same key: written once
    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    allowed.append("ERR_FAILED")
    await page.route("**/entries", lose, times=1)
    await field.fill("Only once")
    await field.press("Control+Enter")
    await expect(path.get_by_text("Only once")).to_be_visible()
    await expect(field).to_have_value("")
    assert (await _said(session)).count("Only once") == 1

    # branch from an entry, label it
    async def choose(entry: str, item: str) -> None:
        row = path.locator(f'[data-entry="{entry}"]')
        await row.scroll_into_view_if_needed()
        await row.hover()
        await row.get_by_role("button", name=re.compile("Menu of entry")).click()
        await page.get_by_role("menuitem", name=item).click()

    await choose(told.labelled, "Change label")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("textbox").fill("the better place")
    await dialog.get_by_role("button", name="Save").click()
    await expect(path.locator(f'[data-entry="{told.labelled}"] .pill')).to_have_text("the better place")
    assert session.label(told.labelled) == "the better place"
    await choose(told.labelled, "Branch from here")
    await expect(page.locator(".branch-from")).to_contain_text("The file is fine.")
    await field.fill("A third way.")
    await page.get_by_role("button", name="Branch", exact=True).click()
    await expect(path.locator(".by-user", has_text="A third way.")).to_be_visible()
    await expect(path.get_by_text("Only once")).to_have_count(0)
    assert (await session.entries())[-1].parent_id == told.labelled

    # compact, rename
    more = page.get_by_role("button", name="More", exact=True)
    await more.click()
    await page.get_by_role("menuitem", name="Compact").click()
    await dialog.get_by_role("textbox", name="Summary").fill("In short: three ways.")
    await dialog.get_by_role("button", name="Compact").click()
    await expect(path.locator(".compacted")).to_contain_text("In short: three ways.")
    await more.click()
    await page.get_by_role("menuitem", name="Rename").click()
    await dialog.get_by_role("textbox").fill("Three ways")
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.locator(".session-bar h1")).to_have_text("Three ways")

    # export in each format
    await more.click()
    await page.get_by_role("menuitem", name="Export").click()
    links = await dialog.get_by_role("link").evaluate_all("links => links.map((each) => each.href)")
    assert len(links) == 4
    for link in links:
        reply = await page.request.get(link)
        assert reply.status == 200, link
        assert "attachment" in reply.headers["content-disposition"]
        assert "A third way." in await reply.text()
    await dialog.get_by_role("checkbox", name="secret").check()
    await expect(dialog.get_by_role("link")).to_have_count(3)
    link = await dialog.get_by_role("link", name="Markdown").get_attribute("href")
    assert link is not None
    assert link.endswith("format=markdown&redact=true")
    await dialog.get_by_role("button", name="Close").last.click()

    # archive and bring back; an archived session says why nothing can be sent
    await more.click()
    await page.get_by_role("menuitem", name="Archive").click()
    await expect(page.locator(".session-figures")).to_contain_text("archived")
    await expect(page.locator(".composer-note")).to_contain_text("archived")
    await more.click()
    await page.get_by_role("menuitem", name="Bring back").click()
    await expect(page.locator(".session-figures")).not_to_contain_text("archived")

    # whoever may only read is offered nothing: at a server that only reads, and with a token that does
    tokens = Tokens(tmp_path / "tokens.json", OsDisk())
    reader = tokens.create("read")
    allowed.append("401")
    for options in ({"read_only": True}, {"tokens": tokens}):
        async with serving(host, **options) as other:
            await page.goto(f"{other.url}s/everything")
            if "tokens" in options:
                await page.get_by_label("Token").fill(f"tr_{0:012x}_{43 * 'x'}")
                await page.get_by_role("button", name="Sign in").click()
                await expect(page.locator("#token-problem")).to_contain_text("make another one")
                await page.get_by_label("Token").fill(reader)
                await page.get_by_role("button", name="Sign in").click()
            await expect(path.get_by_text("A third way.")).to_be_visible()
            await expect(page.locator(".composer")).to_have_count(0)
            await more.click()
            await expect(page.get_by_role("menuitem", name="Export")).to_be_visible()
            for name in ("Rename", "Compact", "Archive", "Delete"):
                await expect(page.get_by_role("menuitem", name=name)).to_have_count(0)
            await page.keyboard.press("Escape")
            row = path.locator(".by-user", has_text="A third way.")
            await row.get_by_role("button", name=re.compile("Menu of entry")).click()
            await expect(page.get_by_role("menuitem", name="Copy link")).to_be_visible()
            await expect(page.get_by_role("menuitem", name=re.compile("Label|Branch|Compact"))).to_have_count(0)
            await page.goto("about:blank")  # before the server goes

    # delete: only by typing the name
    await page.goto(f"{site.url}s/everything")
    await more.click()
    await page.get_by_role("menuitem", name="Delete").click()
    delete = dialog.get_by_role("button", name="Delete")
    await dialog.get_by_role("textbox").fill("Three")
    await expect(delete).to_be_disabled()
    await dialog.get_by_role("textbox").fill("Three ways")
    await delete.click()
    await expect(page).to_have_url(re.compile("/sessions"))
    assert [row.id for row in await host.list_sessions(status="any")] == []


async def test_what_is_typed_while_a_message_is_sent_stays_and_what_was_sent_does_not(
    host: SessionHost, site: Site, page: Page
) -> None:
    session = await host.create("a")
    await session.append_message("user", "Hello")
    await page.goto(f"{site.url}s/a")
    field = page.get_by_role("textbox", name="Message to append")

    async def type_on(route: Route) -> None:
        await field.press_sequentially(" And more.")
        await route.continue_()

    await page.route("**/entries", type_on, times=1)
    await field.fill("First.")
    await field.press("Control+Enter")
    await expect(page.locator(".path").get_by_text("First.")).to_be_visible()
    await expect(field).to_have_value("And more.")

    async def leave(route: Route) -> None:
        await page.get_by_role("link", name="Sessions").first.click()
        await expect(field).to_have_count(0)
        await route.continue_()

    await page.route("**/entries", leave, times=1)
    await field.press("Control+Enter")
    while await page.evaluate("() => localStorage.getItem('treering.draft.a')") is not None:
        pass  # until the reply has come
    assert (await _said(session))[1:] == ["First.", "And more."]
    await page.go_back()
    await expect(field).to_have_value("")
