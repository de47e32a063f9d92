"""Answers that are being written, in a browser: every piece in order for a quick reader, joined ones for a slow one."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from playwright.async_api import Page

from treering import SessionHost

from .chromium import until
from .conftest import Site
from .test_client import open_client

pytestmark = pytest.mark.browser

FOLLOW = """(gated) => {
  window.open = null;
  const gate = new Promise((resolve) => (window.open = resolve));
  window.heard = { pieces: 0, gaps: 0, texts: {}, entries: [], message: null };
  (async () => {
    const options = { kinds: ["entry", "transient"] };
    for await (const { event, id, data } of server.session("one").follow(options)) {
      if (event === "entry") heard.entries.push([data.seq, id !== null]);
      if (event !== "transient") continue;
      const { message, offset, end, text } = data.data;
      const held = message === heard.message ? heard.texts[message] : "";
      heard.pieces += 1;
      heard.message = message;
      if (offset === 0) heard.texts[message] = text;
      else if (offset === held.length) heard.texts[message] = held + text;
      else if (end > held.length) heard.gaps += 1;
      if (gated) await gate;
    }
  })();
}"""


@pytest.mark.feature("S-17")
async def test_pieces_come_in_order_and_joined_for_a_slow_browser_and_stand_in_no_log(
    host: SessionHost, site: Site, page: Page, tmp_path: Path
) -> None:
    session = await host.create("one")
    await session.append_message("user", "tell me")
    slow = await page.context.new_page()
    for tab, gated in ((page, False), (slow, True)):
        await open_client(tab, site.url)
        await tab.evaluate(FOLLOW, gated)
        await until(tab, "() => heard.entries.length === 1")

    # A quick reader: each piece, as it was written.
    for number in range(200):
        session.emit_text("agent.text", f"word {number} ", message="first")
        await until(page, "(count) => heard.pieces === count", number + 1)
    first = "".join(f"word {number} " for number in range(200))
    assert await page.evaluate("heard.texts.first") == first
    await session.append_message("assistant", first)

    # A slow one: more than what networks and browsers hold for it.
    texts, pieces, size = 20, 100, 10_000
    for message in range(texts):
        for number in range(pieces):
            session.emit_text("agent.text", f"{number:>{size}}", message=f"m{message}")
            await anyio.lowlevel.checkpoint()
    last = "".join(f"{number:>{size}}" for number in range(pieces))
    await session.append_message("user", "the end")
    await slow.evaluate("open()")
    for tab in (page, slow):
        await until(tab, "() => heard.entries.length === 3")
        assert await tab.evaluate("heard.texts[heard.message]") == last
        assert await tab.evaluate("[heard.gaps, heard.message]") == [0, f"m{texts - 1}"]
        assert await tab.evaluate("heard.entries") == [[1, True], [2, True], [3, True]]
    assert await slow.evaluate("heard.pieces") < texts * pieces

    # And none of it in the log.
    assert session.cursor.seq == 3
    (log,) = (tmp_path / "root").rglob("one*.jsonl")
    assert len(await anyio.Path(log).read_bytes()) < 10_000
