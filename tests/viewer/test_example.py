"""The example of the documentation, as it is printed there, as a page of another origin."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Page

from treering import SessionHost

from .chromium import until
from .conftest import Serving, Site
from .sites import another_site

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs/javascript.md").read_text(encoding="utf-8")
PRINTED = re.search(r"```html\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_is_printed_as_it_is() -> None:
    assert PRINTED is not None
    assert PRINTED[1] == (PROJECT / "examples/follow.html").read_text(encoding="utf-8")
    assert PRINTED[1].count("\n") <= 40


@pytest.mark.browser
@pytest.mark.feature("S-46")
async def test_the_example_runs_as_printed(tmp_path: Path, serving: Serving, page: Page, allowed: list[str]) -> None:
    assert PRINTED is not None
    allowed += ["net::ERR", "503", "favicon.ico"]
    shown = "() => [...messages.children].map((line) => line.textContent)"
    root = tmp_path / "root"
    async with another_site(PRINTED[1]) as other:
        origin = f"http://other.test:{other}"
        async with SessionHost(root) as host, serving(host, allow_origins=[origin]) as site:
            for name in ("one", "two"):
                session = await host.create(name)
                await session.append_message("user", f"hello {name}")
            await page.goto(f"{origin}/?server={site.url}")
            await until(page, "() => messages.children.length === 1")
            await page.select_option("#sessions", "one")
            await until(page, "() => messages.textContent.includes('hello one')")
            session = await host.load("one")
            await session.append_message("assistant", ["an answer"])
            await until(page, "() => messages.children.length === 2")
            await page.fill("#text", "from the page")
            await page.click("text=Send")
            await until(page, "() => messages.children.length === 3")
            assert [message.role for message in (await session.context()).messages] == ["user", "assistant", "user"]
            port = site.port
        await until(page, "() => state.value.startsWith('waiting')")
        async with SessionHost(root) as host, serving(host, port=port, allow_origins=[origin]):
            session = await host.load("one")
            await session.append_message("assistant", ["after the restart"])
            await until(page, "() => messages.children.length === 4")
        assert await page.evaluate(shown) == [
            "user: hello one",
            "assistant: an answer",
            "user: from the page",
            "assistant: after the restart",
        ]


@pytest.mark.browser
async def test_the_other_blocks_run_too(host: SessionHost, site: Site, page: Page) -> None:
    session = await host.create("notes")
    await session.append_message("user", "one")
    await page.goto(f"{site.url}client.js")
    blocks = re.findall(r"```js\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 1
    start = "const { connect } = await import('./client.js'); const server = connect(document.baseURI);"
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    await page.evaluate(f"async () => {{ {start}\n{blocks[0]}\n window.tree = tree; }}")
    await session.append_message("user", "two")
    await until(page, "() => tree.value.nodes.length === 2 && tree.value.leaf === 2")
    assert said[-1] == "2 entries, the leaf is 2"
