"""Pages of other sites in the same browser: they can neither read nor write here, and no text becomes a program."""

from pathlib import Path

import pytest
from playwright.async_api import Page

from treering import SessionHost
from treering.events.disk.disk import OsDisk
from treering.server.tokens import Tokens

from .chromium import until
from .processes import served
from .sites import another_site

pytestmark = pytest.mark.browser

POSTS = """async (target) => {
  const body = JSON.stringify({ id: "stolen" });
  const post = (options) => fetch(target, { method: "POST", body, ...options }).then(String, String);
  await post({ mode: "no-cors", credentials: "include" });
  await post({ mode: "no-cors", credentials: "include", body: new Blob([body]) }); // of no type
  await post({ mode: "no-cors", credentials: "include", headers: { "content-type": "text/plain" } });
  await post({ credentials: "include", headers: { "content-type": "application/json" } });
  const form = document.createElement("form");
  const frame = Object.assign(document.createElement("iframe"), { name: "sink" });
  document.body.append(frame, form);
  Object.assign(form, { action: target, method: "post", enctype: "text/plain", target: "sink" });
  form.append(Object.assign(document.createElement("input"), { name: '{"id": "stolen", "x": "', value: '"}' }));
  const done = new Promise((resolve) => (frame.onload = resolve));
  form.submit();
  await done;
}"""

READ = "(target) => fetch(target, { credentials: 'include' }).then((reply) => reply.text(), (error) => String(error))"

INLINE = """async () => {
  const violations = [];
  document.addEventListener("securitypolicyviolation", (event) => violations.push(event.effectiveDirective));
  const script = document.createElement("script");
  script.textContent = "window.ran = 'inline'";
  const other = Object.assign(document.createElement("script"), { src: "data:text/javascript,window.ran='data'" });
  const image = new Image();
  image.src = "http://elsewhere.test/pixel.png";
  const button = document.createElement("button");
  button.setAttribute("onclick", "window.ran = 'handler'");
  const style = document.createElement("style");
  style.textContent = "body { display: none }";
  document.body.append(script, other, image, button, style);
  button.click();
  await fetch("http://elsewhere.test/").catch(() => {});
  const wanted = ["script-src-elem", "script-src-attr", "img-src", "connect-src", "style-src-elem"];
  for (const until = Date.now() + 20000; Date.now() < until && !wanted.every((each) => violations.includes(each)); )
    await new Promise((resolve) => setTimeout(resolve, 10));
  return [window.ran ?? null, [...new Set(violations)].sort(), getComputedStyle(document.body).display];
}"""


@pytest.mark.feature("S-30")
async def test_no_other_page_reads_or_writes_nor_text_is_run(tmp_path: Path, page: Page, allowed: list[str]) -> None:
    allowed += [".test", "CORS policy", "Content Security Policy", "40", "42", "net::ERR"]
    root = tmp_path / "root"
    async with SessionHost(root) as host:
        session = await host.create("secret")
        await session.append_message("user", "the secret text")
    Tokens(root / ".treering" / "tokens.json", OsDisk()).create("admin")

    async with served(root) as (address, link), another_site() as port:
        # A link signs in once, and leaves nothing that a script could read.
        assert link.startswith(f"{address}#once=tr_")
        await page.goto(link)
        await until(page, "!location.hash")
        sign_in = (
            "(token) => import('./client.js').then((m) => m.signIn(m.connect(document.baseURI), token)).then(String)"
        )
        await until(page, "() => fetch('v1').then((reply) => reply.ok)")
        assert await page.evaluate("document.cookie") == ""
        assert "once" not in page.url
        (cookie,) = await page.context.cookies()
        assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
        second = await page.context.new_page()
        await second.goto(f"{address}client.js")
        assert "NotAuthorized" in str(
            await second.evaluate(sign_in.replace("then(String)", "catch((e) => e.error)"), link.partition("=")[2])
        )

        # The policy of the page.
        reply = await page.goto(address)
        assert reply is not None
        policy = reply.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "script-src 'self'" in policy
        ran, violations, display = await page.evaluate(INLINE)
        assert ran is None
        assert {"script-src-elem", "script-src-attr", "img-src", "connect-src", "style-src-elem"} <= set(violations)
        assert display != "none"

        # Pages of another site, and of another port of this machine, which has the cookie sent along.
        for name in ("attacker.test", "127.0.0.1"):
            other = await page.context.new_page()
            await other.goto(f"http://{name}:{port}/")
            await other.evaluate(POSTS, f"{address}v1/sessions")
            assert "secret" not in await other.evaluate(READ, f"{address}v1/sessions")
            await other.evaluate(
                "(target) => document.body.append(Object.assign(document.createElement('iframe'), { src: target }))",
                address,
            )
            await other.wait_for_timeout(300)
            framed = [await frame.evaluate("document.body?.innerText ?? ''") for frame in other.frames[1:]]
            assert not any("treering" in text for text in framed)
            await other.close()

        # A name that was bound to this machine afterwards: the browser takes the page for one of that name.
        rebound = await page.context.new_page()
        reply = await rebound.goto(address.replace("127.0.0.1", "attacker.test") + "v1/sessions")
        assert reply is not None
        assert reply.status == 421
        assert "secret" not in await rebound.content()
        await rebound.evaluate(POSTS, "/v1/sessions")

        # Its own page may, until it signs out.
        own = "() => fetch('v1/sessions').then(async (reply) => [reply.status, await reply.text()])"
        status, text = await page.evaluate(own)
        assert (status, "secret" in text, "stolen" in text) == (200, True, False)
        await page.evaluate("import('./client.js').then((m) => m.signOut(m.connect(document.baseURI)))")
        assert (await page.evaluate(own))[0] == 401
        assert await page.context.cookies() == []
        for each in page.context.pages:
            await each.goto("about:blank")  # before the server goes
