"""The page of a session: what its path shows, how it follows, how far it goes, and what its links open."""

import re

import pytest
from playwright.async_api import Page, expect
from tests.lateness import waited_s, waits

from treering import SessionHost, tool_result, tool_use

from .conftest import Site
from .long_story import tell_everything, tell_long

pytestmark = pytest.mark.browser

_VISIBLE = """key => {
  const path = document.querySelector(".path").getBoundingClientRect();
  const row = document.querySelector(`[data-entry="${key}"]`)?.getBoundingClientRect();
  return Boolean(row) && row.bottom > path.top && row.top < path.bottom;
}"""
_PLACES = """() => {
  const top = document.querySelector(".path").getBoundingClientRect().top;
  return Object.fromEntries([...document.querySelectorAll(".row")]
    .map((row) => [row.dataset.key, row.getBoundingClientRect().top - top]));
}"""

_MOVED = f"""(before) => {{
  const now = ({_PLACES})();
  return Object.entries(before).some(([key, top]) => key in now && Math.abs(now[key] - top) >= 1);
}}"""


@pytest.mark.feature("S-35")
async def test_a_path_shows_all_that_an_entry_may_hold(host: SessionHost, site: Site, page: Page) -> None:
    told = await tell_everything(host)
    await page.goto(f"{site.url}s/everything")
    path = page.locator(".path")
    await expect(path.get_by_text("I go on.")).to_be_visible()
    await expect(page.locator(".session-bar h1")).to_have_text("Everything at once")
    await expect(page.locator(".session-figures")).to_contain_text("idle")
    await expect(page.locator(".session-figures")).to_contain_text("$0.60")

    # text, code, images and thinking
    await expect(path.locator(".said strong", has_text="look")).to_be_attached()
    await expect(path.locator(".code-language")).to_have_text("python")
    picture = path.locator(f'[data-entry="{told.prompt}"] img')
    await picture.scroll_into_view_if_needed()
    await expect(picture).to_have_js_property("naturalWidth", 64)
    thought = path.locator(".thinking")
    await expect(thought.locator(".fold-line")).to_contain_text("A secret plan.")
    await expect(thought.locator(".fold-inside")).to_be_hidden()
    await thought.locator(".fold-line").click()
    await expect(thought.locator(".fold-inside")).to_be_visible()

    # a call and its result are one thing, folded, with duration and size; a failed one is open and says so
    read = path.locator('.tool[data-call="c1"]')
    await expect(read.locator(".fold-line")).to_have_text(re.compile(r"read_file.*a\.py.*(210 ms|0\.2. ?s)"))
    await expect(read.locator(".fold-line")).to_contain_text("440 B")
    await expect(read.get_by_text("first line").first).to_be_hidden()
    await read.locator(".fold-line").click()
    await expect(read.get_by_text("first line").first).to_be_visible()
    failed = path.locator('.tool[data-call="c2"]')
    await expect(failed.locator(".call-state")).to_have_text("exit 1")
    await expect(failed.get_by_text("1 failed")).to_be_visible()
    await expect(path.locator(".failure-line")).to_contain_text("the model is overloaded")
    await expect(path.locator(".ended")).to_have_text("the answer was cut off at the limit of its length")

    # what stands between messages
    await expect(path.locator(".compacted .rule")).to_contain_text("11 entries summarized, 148k to 900 tokens")
    await expect(path.locator(".row.is-out")).not_to_have_count(0)
    await expect(path.locator(f'[data-entry="{told.labelled}"] .pill')).to_have_text("good place")
    point = path.locator(".branch-point")
    await expect(point).to_contain_text("branch 1 of 2")
    await expect(point).to_contain_text("Try another way.")
    outline = page.locator(".outline")
    for words in ("Look at this:", "good place", "2 branches", "bash", "the model is overloaded", "summary"):
        await expect(outline.get_by_text(words, exact=True)).to_be_visible()

    # all at once
    await page.get_by_role("button", name="Expand all").click()
    await expect(path.locator('.fold-line[aria-expanded="false"]')).to_have_count(0)
    await page.get_by_role("button", name="Collapse all").click()
    await expect(path.locator('.fold-line[aria-expanded="true"]')).to_have_count(0)
    await page.get_by_role("button", name="Conversation only").click()
    await expect(read).to_have_count(0)
    await expect(thought).to_have_count(0)
    await expect(failed).to_have_count(1)
    await expect(path.locator(".failure-line")).to_have_count(1)


async def test_all_pages_of_a_session_tell_what_becomes_of_it(
    host: SessionHost, site: Site, page: Page, allowed: list[str]
) -> None:
    session = await host.create("told")
    first = await session.append_message("user", "Begin.")
    for number in range(6):
        await session.branch(first)
        last = await session.append_message("user", f"Try {number}.")
    pages = [page, *[await page.context.new_page() for _ in range(3)]]
    for each, address in zip(pages, ("", "/tree", f"/saw/{last}", f"/compare/{first}/{last}"), strict=True):
        await each.goto(f"{site.url}s/told{address}")
        await expect(each.locator(".session-figures")).to_contain_text("working")
    await expect(page.get_by_role("link", name="2 more")).to_have_attribute("href", f"s/told/tree?at={last}")
    await session.append_message("assistant", "Done.")
    await session.set_title("Tries")
    for each in pages:
        await expect(each.locator(".session-figures")).to_contain_text("idle")
        await expect(each.locator(".session-bar h1")).to_have_text("Tries")
        await expect(each).to_have_title(re.compile("Tries · treering"))
    await host.archive(session)
    for each in pages:
        await expect(each.locator(".session-figures")).to_contain_text("archived")
    await expect(page.locator(".composer-note")).to_contain_text("archived")
    allowed.append("404")
    await host.delete("told")
    for each in pages:
        await expect(each.get_by_text("This session was deleted. What is shown")).to_be_visible()
        await expect(each.locator(".session-figures")).to_have_text("deleted")
    await page.get_by_role("button", name="Dismiss").click()
    await expect(page.locator(".composer-note")).to_have_text("This session was deleted.")


@pytest.mark.feature("S-42")
async def test_every_entry_has_a_link_and_back_works(
    host: SessionHost, site: Site, page: Page, allowed: list[str]
) -> None:
    told = await tell_everything(host)

    # an entry of another branch opens that branch, and the address of a result opens its call
    await page.goto(f"{site.url}s/everything/e/{told.other}")
    await expect(page.get_by_text("Another way is slower.")).to_be_visible()
    await expect(page.locator(".session-figures")).to_contain_text("another branch")
    await expect(page.locator(".by-user", has_text="Run the tests.")).to_have_count(0)
    await page.get_by_role("link", name="previous branch").click()
    await expect(page).to_have_url(re.compile(f"/e/{told.branch}$"))
    await expect(page.locator(".path").get_by_text("Run the tests.")).to_be_visible()
    await page.go_back()
    await expect(page).to_have_url(re.compile(f"/e/{told.other}$"))
    await expect(page.get_by_text("Another way is slower.")).to_be_visible()
    await page.go_forward()
    await expect(page.locator(".path").get_by_text("Run the tests.")).to_be_visible()
    await page.goto(f"{site.url}s/everything/e/{told.failed}")
    row = page.locator(".row.is-target")
    await expect(row).to_contain_text("pytest -q")
    await expect(row).to_contain_text("1 failed")

    # the outline's steps are steps of the history; keys copy the link of the entry they stand on
    await page.locator(".outline").get_by_text("Look at this:").click()
    await expect(page).to_have_url(re.compile(f"/e/{told.prompt}$"))
    await page.wait_for_function(_VISIBLE, arg=told.prompt)
    await page.go_back()
    await expect(page).to_have_url(re.compile(f"/e/{told.failed}$"))
    await page.keyboard.press("t")
    await expect(page).to_have_url(re.compile("/s/everything/tree$"))
    await page.go_back()
    await page.wait_for_selector(".row.is-target")

    # every view has an address that says all of it
    for entry in (told.prompt, told.failed, told.other, told.labelled):
        await page.goto(f"{site.url}s/everything/e/{entry}")
        await page.wait_for_selector(".row.is-target")
    leaf = told.session.leaf_id
    for view, shows in (
        (f"s/everything/tree?at={told.labelled}", ".tree-row.selected .pill"),
        (f"s/everything/tree?at={told.other}", ".tree-row.selected:not(.on-path)"),
        (f"s/everything/saw/{leaf}", ".page-saw h2"),
        (f"s/everything/saw/{leaf}?window=4000", ".page-saw button >> text=The model's own"),
        (f"s/everything/compare/{leaf}/{told.other}", ".page-compare >> text=Another way is slower."),
        ("?state=idle", ".chip[aria-pressed='true'] >> text=idle"),
        ("sessions?q=slower", ".hit mark >> text=slower"),
        ("sessions?days=7&state=idle", ".chip[aria-pressed='true'] >> text=idle"),
        ("usage?measure=tokens", ".chip[aria-pressed='true'] >> text=Tokens"),
        ("usage?days=7", ".chip.is-set"),
    ):
        await page.goto(site.url + view)
        await expect(page.locator(shows).first, view).to_be_visible()
        await page.reload()
        await expect(page.locator(shows).first, view).to_be_visible()
        assert page.url == site.url + view

    # a step from one view to the next is a step of the history
    await page.goto(f"{site.url}s/everything")
    for word, end in (("Tree", "/tree"), ("What it saw", f"/saw/{leaf}"), ("Usage", "/usage"), ("Live", "/")):
        await page.get_by_role("link", name=word, exact=True).first.click()
        await expect(page).to_have_url(re.compile(f"{re.escape(end)}$"))
    for end in ("/usage", f"/saw/{leaf}", "/tree", "/everything"):
        await page.go_back()
        await expect(page).to_have_url(re.compile(f"{re.escape(end)}$"))
    await expect(page.locator(".path").get_by_text("I go on.")).to_be_visible()

    # an entry that does not exist says so, and the end of the path is shown
    allowed.append("404")
    await page.goto(f"{site.url}s/everything/e/nothing-of-this-name")
    await expect(page.locator(".session-notice")).to_contain_text("There is no entry nothing-of-this-name")
    await expect(page.get_by_text("I go on.")).to_be_visible()
    await page.goto(f"{site.url}s/no-such-session")
    await expect(page.get_by_role("alert").first).to_be_visible()


@pytest.mark.feature("S-35")
async def test_what_is_written_appears_and_becomes_final_there(host: SessionHost, site: Site, page: Page) -> None:
    session = await host.create("growing")
    await session.append_message("user", "Tell me.")
    await page.goto(f"{site.url}s/growing")
    await expect(page.locator(".path").get_by_text("Tell me.")).to_be_visible()
    await session.append_message("assistant", [tool_use("c1", "bash", {"command": "make"})], model="m", provider="p")
    running = page.locator('.tool[data-call="c1"] .call-state')
    await expect(running).to_have_text(re.compile(r"running \d+ s"))
    await session.append_tool_execution("c1", "bash", {"command": "make"}, "made", duration_ms=1500.0)
    await expect(running).to_have_count(0)
    await expect(page.locator('.tool[data-call="c1"]')).to_contain_text("1.5 s")
    figures = page.locator(".session-figures")
    await expect(figures).to_contain_text("working")

    # an answer grows piece by piece, blocks that are closed stay as they are, and the entry takes the place of the text
    answer = "### It is made\n\nHere is **what** I did:\n\n```sh\nmake all\n```\n\nAnd *that* is 🎉 all."
    for start in range(0, len(answer) - 5, 7):
        session.emit_text("agent.text", answer[start : min(start + 7, len(answer) - 5)], message="a1")
    live = page.locator(".row.is-live")
    await expect(live.locator(".state")).to_have_text("writing")
    await expect(live).to_contain_text("And that is 🎉")
    await expect(live.locator("pre")).to_have_text("make all")
    await live.evaluate("row => { globalThis.before = [row, row.querySelector('h6'), row.querySelector('pre')]; }")
    late = await page.context.new_page()
    await late.goto(f"{site.url}s/growing")
    await expect(late.locator(".row.is-live")).to_contain_text("And that is 🎉")
    await expect(late.locator(".row.is-live h6")).to_have_text("It is made")
    await late.close()
    await session.append_message("assistant", answer, model="m", provider="p")
    await expect(page.locator(".path").get_by_text("🎉 all.")).to_be_visible()
    await expect(page.locator(".row.is-live")).to_have_count(0)
    now = """() => {
      const row = [...document.querySelectorAll(".row")].findLast((each) => each.querySelector("h6"));
      return [row, row.querySelector("h6"), row.querySelector("pre")].map((each, place) => each === before[place]);
    }"""
    assert await page.evaluate(now) == [True, True, True]
    assert await page.locator(".path h6").count() == 1
    await expect(figures).to_contain_text("idle")

    # a text that is given up goes; a leaf that is moved takes the page with it
    session.emit_text("agent.text", "Never finished", message="a2")
    await expect(page.locator(".row.is-live")).to_contain_text("Never finished")
    session.emit_text("agent.text", "Begun anew", message="a3")
    await expect(page.locator(".row.is-live")).to_contain_text("Begun anew")
    await expect(page.get_by_text("Never finished")).to_have_count(0)
    first = session.path()[0]
    await page.goto(f"{site.url}s/growing/e/{first}")
    await expect(page.locator(".row.is-target")).to_contain_text("Tell me.")
    await session.append_message("assistant", "Begun anew, and done.", model="m", provider="p")
    await expect(page.locator(".path").get_by_text("Begun anew, and done.")).to_be_visible()
    await expect(page.locator(".row.is-live")).to_have_count(0)
    await page.goto(f"{site.url}s/growing")
    await session.branch(first)
    await expect(page.locator(".path h6")).to_have_count(0)
    await expect(page.locator(".path").get_by_text("Tell me.")).to_be_visible()


@pytest.mark.feature("S-35")
async def test_10_000_messages_are_readable_at_once_and_bounded(host: SessionHost, site: Site, page: Page) -> None:
    session = await tell_long(host, 2500)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/v1/" in request.url else None)
    before = waits()
    await page.goto(f"{site.url}s/long")
    await expect(page.get_by_text("Done with step 2499.")).to_be_visible()
    took = await page.evaluate("performance.now()")
    assert took < 3_000 + 1_000 * waited_s(before)  # 1 s on a machine of one's own
    bodies = [url for url in asked if "/entries?" in url]
    assert len([url for url in asked if "/outline?" in url and "places" not in url]) == 1
    assert len(bodies) <= 2
    assert sum(url.count("%2C") + 1 for url in bodies) <= 120
    nodes = "document.querySelectorAll('.page-session *').length"
    assert await page.evaluate(nodes) < 2_500
    assert await page.locator(".session-count").text_content() == "10,000 entries"

    # what is worth jumping to is known of the whole path, though the end of it alone is loaded; turns are counted
    await expect(page.locator(".path-map .map-error")).to_have_count(25)
    assert await page.locator(".path-map").get_attribute("title") == "25 errors, 2,500 prompts"
    await expect(page.locator(".by-user .turn").last).to_have_text("2500")

    # upward, through pages that are not loaded yet: nothing jumps, and the document does not grow
    await page.locator(".path").hover()
    for _ in range(24):
        before = await page.evaluate(_PLACES)
        await page.mouse.wheel(0, -500)
        await page.wait_for_function(_MOVED, arg=before)
        await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        after = await page.evaluate(_PLACES)
        moved = [after[key] - top for key, top in before.items() if key in after and top >= 350 and after[key] < 700]
        assert all(abs(each - 500) < 2 for each in moved), "what is read moved by something else than the wheel"
    assert await page.evaluate(nodes) < 2_500

    # what comes meanwhile does not move what is read; the pill counts it and leads there
    held = await page.evaluate(_PLACES)
    await session.append_message("user", "One more thing.")
    await session.append_message("assistant", "Yes?", model="m", provider="p")
    pill = page.get_by_role("button", name="2 new")
    await expect(pill).to_be_visible()
    now = await page.evaluate(_PLACES)
    assert all(abs(now[key] - top) < 2 for key, top in held.items() if key in now)
    await pill.click()
    await expect(page.locator(".path").get_by_text("Yes?")).to_be_visible()
    await session.append_message("user", "And another one, while at the end.")
    await expect(page.locator(".path").get_by_text("And another one, while at the end.")).to_be_visible()

    # finding: the server searches what is not drawn, and the page goes there
    await page.keyboard.press("Control+f")
    await page.get_by_role("searchbox", name="Find in this session").fill("needle17")
    target = page.locator(".row.is-target")
    await expect(target).to_contain_text("make 17")
    await expect(target).to_contain_text("needle17")
    await expect(page.locator(".find-words")).to_have_text(re.compile("1 of 1"))
    assert await page.evaluate("CSS.highlights.get('found').size") > 0
    assert await page.evaluate(nodes) < 2_500
    await expect(page.locator(".path-map .map-hit")).not_to_have_count(0)
    await page.keyboard.press("Escape")
    await expect(page.locator(".find-bar")).to_have_count(0)
    await page.keyboard.press("e")
    await expect(page.locator(".row.is-active")).to_contain_text("make 107")
    for turn in (207, 307):
        await page.keyboard.press("e")
        await expect(page.locator(".row.is-active")).to_contain_text(f"make {turn}")
        await expect(page.locator(".row.is-active .call-state.is-error")).to_be_visible()
    assert await page.evaluate(nodes) < 2_500

    # the keys for both ends, and the map beside the path: it shows where the view is, and a click leads there
    await page.keyboard.press("Home")
    await expect(page.locator(".path").get_by_text("Prompt 0:").first).to_be_in_viewport()
    paper = page.locator("p.print-only")
    await expect(paper).to_contain_text(re.compile(r"Entries 1 to \d+ of 10,003: those in view\."))
    await page.emulate_media(media="print")
    await expect(paper).to_be_visible()
    await expect(page.locator(".path-map")).to_be_hidden()
    await page.emulate_media(media="screen")
    view = page.locator(".path-map .map-view")
    assert float(await view.get_attribute("y") or "-1") == 0
    map_box = await page.locator(".path-map").bounding_box()
    assert map_box is not None
    await page.mouse.click(map_box["x"] + 7, map_box["y"] + map_box["height"] / 2)
    await expect(page.locator(".row.is-active")).to_contain_text(re.compile(r"(?:Prompt|step|make) 12[45]\d"))
    await page.keyboard.press("End")
    await expect(page.locator(".path").get_by_text("And another one, while at the end.")).to_be_in_viewport()

    # a click and a Shift+click pick what lies between them, and it is copied from the data
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    rows = page.locator(".row[data-entry]")
    await rows.filter(has_text="And another one, while").locator("h3").click()
    await rows.filter(has_text="One more thing.").locator("h3").click(modifiers=["Shift"])
    await expect(page.locator(".picked-bar")).to_contain_text("3 entries picked")
    await expect(page.locator(".row.is-picked")).to_have_count(3)
    await page.keyboard.press("Control+c")
    await expect(page.get_by_text("Copied 3 entries as Markdown")).to_be_visible()
    copied = re.sub(r", [\d: -]+ UTC", "", await page.evaluate("navigator.clipboard.readText()"))
    assert copied == (
        "### You\n\nOne more thing.\n\n### Agent\n\nYes?\n\n### You\n\nAnd another one, while at the end.\n"
    )
    await page.keyboard.press("Escape")
    await expect(page.locator(".picked-bar")).to_have_count(0)


async def test_sub_agents_lead_down_and_up_and_a_reader_finds_the_place_again(
    host: SessionHost, site: Site, page: Page, allowed: list[str]
) -> None:
    session = await host.create("chief")
    await session.set_title("The chief")
    await session.append_message("user", "Find the cause.")
    spawning = await session.append_message(
        "assistant", [tool_use("t1", "task", {"prompt": "Look into the parser."})], model="m", provider="p"
    )
    child = await host.create("scout", parent_session="chief", parent_entry=spawning)
    await child.set_title("\u05de\u05e4\u05ea\u05d7 scout " + "with a long name " * 40)
    await child.append_message("user", "Look into the parser.")
    await child.append_message("assistant", "It is in line 7.", model="m", provider="p")

    # a running call shows the session that it started: its state, its last line and the way in
    await page.goto(f"{site.url}s/chief")
    call = page.locator('[data-call="t1"]')
    await expect(call.locator(".call-state")).to_contain_text("running")
    sub = call.locator(".sub-agent")
    await expect(sub).to_contain_text("idle")
    await expect(sub).to_contain_text("It is in line 7.")
    await session.append_message("tool", [tool_result("t1", "Line 7 it is.")], tool_name="task")
    await expect(call.locator(".call-state")).to_have_count(0)
    await call.locator(".fold-line").click()
    await expect(call.locator(".fold-line")).to_contain_text("Look into the parser.")
    await expect(call.locator(".fold-inside")).to_contain_text("Line 7 it is.")
    await sub.get_by_role("link").click()
    await expect(page).to_have_url(re.compile("/s/scout$"))
    up = page.locator(".session-up")
    await expect(up).to_contain_text("The chief")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert await page.locator(".session-bar").evaluate("bar => bar.clientHeight") < 120
    await up.get_by_role("link").click()
    await expect(page).to_have_url(re.compile(f"/s/chief/e/{spawning}$"))
    await expect(page.locator(".row.is-target")).to_contain_text("task")

    # the list marks what was read before it went on, and whoever comes back sees how far they had read
    await page.goto(f"{site.url}sessions")
    unseen = page.locator(".listed.is-unseen")
    await expect(page.locator(".listed", has_text="The chief")).to_be_visible()
    await expect(unseen).to_have_count(0)
    await session.append_message("assistant", "News.", model="m", provider="p")
    await expect(unseen).to_contain_text("The chief")
    await expect(unseen.locator(".unseen")).to_have_text("new entries")
    await page.goto(f"{site.url}s/chief")
    await expect(page.locator(".path").get_by_text("News.")).to_be_visible()
    after = page.locator(".row.is-seen + .row")
    await expect(page.locator(".row.is-seen")).to_have_text("seen up to here")
    await expect(after).to_contain_text("News.")

    # an empty session says so; an archived one is read as before; a deleted one stays readable and says what it is
    assert (await page.request.post(f"{site.url}v1/sessions", data={"id": "empty"})).status == 201
    await page.goto(f"{site.url}s/empty")
    await expect(page.locator(".session-empty")).to_contain_text("Nothing in this session yet.")
    await host.archive("chief")
    await page.goto(f"{site.url}s/chief")
    await expect(page.locator(".path").get_by_text("News.")).to_be_visible()
    await expect(page.locator(".session-figures")).to_contain_text("archived")
    allowed.append("404")
    await host.delete("chief")
    await expect(page.locator(".session-notice")).to_contain_text("was deleted")
    await expect(page.locator(".path").get_by_text("News.")).to_be_visible()
