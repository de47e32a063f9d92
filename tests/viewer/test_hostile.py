"""Whatever stands in a session, nothing of it runs or loads, and the page stays usable."""

import pytest
from playwright.async_api import Dialog, Page, Request, expect

from treering import Message, Session, SessionHost, image, text, thinking, tool_result, tool_use

from .conftest import Site

pytestmark = pytest.mark.browser

_ADDRESS = "http://outside.example"
_SCRIPT = "globalThis.ran=1;alert(1)"
_HTML = (
    f"<script>{_SCRIPT}</script><img src=x onerror='{_SCRIPT}'><img src='{_ADDRESS}/a.png'>"
    f"<svg onload='{_SCRIPT}'><a xlink:href='javascript:{_SCRIPT}'>x</a></svg><iframe src='{_ADDRESS}'></iframe>"
    f"<style>@import '{_ADDRESS}/x.css';*{{display:none}}</style><base href='{_ADDRESS}/'><form action='{_ADDRESS}'>"
    f"<input autofocus onfocus='{_SCRIPT}'></form><meta http-equiv=refresh content='0;url={_ADDRESS}'>"
    "<div style='position:fixed;inset:0'>"
)
_MARKDOWN = f"""# A heading

![remote]({_ADDRESS}/pixel.png "t") ![data](data:image/svg+xml,%3Csvg%20onload=alert(1)%3E)
[js](javascript:alert(1)) [JS](JaVaScRiPt:alert(1)) [data](data:text/html,<script>alert(1)</script>)
[vb](vbscript:x) [entity](&#106;avascript:alert(1)) [file](file:///etc/passwd) [good](https://good.example/a)
<javascript:alert(1)> [![nested]({_ADDRESS}/n.png)](javascript:alert(1)) [ref]

[ref]: javascript:alert(1)

{_HTML}

`{_HTML}`

```html
{_HTML}
```

| {_HTML} |
|---|
| {_HTML} |

{">" * 300} deep

{"*" * 4000}a{"*" * 4000}

{"[" * 3000}{"]" * 3000}
"""
_TERMINAL = (
    "\x1b[31mred\x1b[0m \x1b]8;;http://outside.example\x07link\x1b]8;;\x07 a\x00b\x08c "
    "\u202eevil\u202c \u2066iso\u2069 \U000e0041"
)
_SVG = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0iYWxlcnQoMSkiLz4="


_RUNNABLE = """() => {
  const found = [];
  for (const element of document.querySelectorAll("#app *")) {
    const isRunnable = element.matches("script, iframe, object, embed, style, base, meta, link, form:not(.composer)");
    if (isRunnable) found.push(element.outerHTML.slice(0, 200));
    for (const { name, value } of element.attributes) {
      const isAddress = ["href", "src", "xlink:href", "action", "formaction"].includes(name);
      if (/^on/i.test(name) || (isAddress && /^\\s*(javascript|vbscript|file):/i.test(value))) found.push(name + value);
    }
  }
  return found;
}"""
"""What could run or load in the document: the viewer makes none of it."""


async def _attack(host: SessionHost) -> Session:
    """Write a session in which every text that a page may show is an attack."""
    session = await host.create("hostile", cwd=f"/tmp/{_HTML[:40]}")
    await session.set_title(f"{_HTML}\u202e" + "long " * 2000)
    await session.append_message(
        "user", [text(_MARKDOWN), image(_SVG, "image/svg+xml"), image(f"{_ADDRESS}/i.png", "image/png", kind="url")]
    )
    await session.append_message(
        "user", [image("javascript:alert(1)", "image/png", kind="url"), image('"><script>', "image/png")]
    )
    call = tool_use("c1", f"{_HTML}\u202e", {f"{_HTML}": _HTML, "path": _TERMINAL, "deep": {"a": [1, {"b": _HTML}]}})
    answer = await session.append_message(
        "assistant", [thinking(_MARKDOWN + _TERMINAL), text(_MARKDOWN + _TERMINAL), call], model=_HTML, provider="p"
    )
    await session.append_message("tool", [tool_result("c1", _TERMINAL + _HTML, is_error=True)], tool_name="x")
    await session.set_label(answer, _HTML)
    await session.append(Message("assistant", (), model="m", provider="p", error=_HTML + _TERMINAL))
    end = session.leaf_id
    assert end is not None
    await session.branch(answer)
    await session.append_message("user", _HTML)
    await session.branch(end)
    kept = await session.append_message("user", "x" * 300_000 + _HTML)
    await session.append_compaction(_MARKDOWN, kept, 10)
    await session.append_custom_entry(f"{_HTML}", {"data": _HTML})
    await session.append_custom_message(f"{_HTML}", _MARKDOWN)
    await session.append_message("assistant", [tool_use("c2", "cat", {"path": "big"})], model="m", provider="p")
    await session.append_message("tool", [tool_result("c2", "y" * 5_000_000 + "\nthe end")], tool_name="cat")
    await session.append_message("assistant", "Nothing of that ran.", model="m", provider="p")
    return session


@pytest.mark.feature("S-31")
async def test_nothing_of_a_hostile_session_runs_or_loads(host: SessionHost, site: Site, page: Page) -> None:
    await _attack(host)
    dialogs: list[str] = []
    outside: list[str] = []

    async def asked(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        await dialog.dismiss()

    def requested(request: Request) -> None:
        if not request.url.startswith((site.url, "data:", "blob:")):
            outside.append(request.url)

    page.on("dialog", asked)
    page.context.on("request", requested)
    for width in (1440, 390):
        await page.set_viewport_size({"width": width, "height": 844})
        await page.goto(f"{site.url}s/hostile")
        path = page.locator(".path")
        await expect(path.get_by_text("Nothing of that ran.")).to_be_visible()
        await page.get_by_role("button", name="Expand all").click()
        await expect(path.locator('.fold-line[aria-expanded="false"]')).to_have_count(0)
        await expect(path.locator('[data-call="c2"]').get_by_text("the end")).to_be_visible()
        await expect(path.locator('[data-call="c2"] .plain button', has_text="more on this line")).to_contain_text(
            "5 MB"
        )

        # every element is one that the viewer makes, and none has a handler or an address that runs
        assert await page.evaluate(_RUNNABLE) == []
        addresses = await path.locator(".said a").evaluate_all(
            "links => links.map((each) => [each.getAttribute('href'), each.rel])"
        )
        assert {rel for _, rel in addresses} == {"noopener noreferrer nofollow"}
        assert all(href.startswith(("https://", "http://", "mailto:")) for href, _ in addresses)
        assert await path.locator("img").count() == 0

        # an image elsewhere is named with its host; hidden characters are drawn, terminal codes are gone
        await expect(path.locator(".outside-image", has_text="outside.example").first).to_contain_text(
            "Image on outside.example"
        )
        drawn = await path.locator(".sign").all_text_contents()
        assert {"RLO", "PDF", "LRI", "PDI", "\u2400", "\u2408", "TAG A"} <= set(drawn)
        words = await path.text_content() or ""
        assert "\x1b" not in words
        assert "[31m" not in words
        assert "\u202e" not in (await page.locator("#app").text_content() or "")
        assert "\u202e" not in await page.title()
        assert "<script>globalThis.ran=1" in words  # as text

        # and the page is still usable: nothing wider than the window, keys, folds and the outline work
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await page.evaluate(
            "[...document.querySelectorAll('.outline li')].every((each) => each.scrollHeight < 48)"
        )
        await page.get_by_role("button", name="Collapse all").click()
        await page.keyboard.press("[")
        await expect(page.locator(".row.is-active")).to_have_count(1)
        assert await page.evaluate("globalThis.ran") is None
    assert dialogs == []
    assert outside == []
