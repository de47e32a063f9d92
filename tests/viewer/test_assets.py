"""The files of the viewer: at which addresses they are, what a browser may keep of them, and what they may do."""

import re
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Page

from treering import SessionHost
from treering.server.assets import POLICY, assets

from .chromium import until
from .conftest import Serving, Site

PAGES = [
    "",
    "sessions?q=a&state=error",
    "s/one",
    "s/one/e/two",
    "s/one/tree",
    "s/one/saw/two",
    "s/one/compare/a/b",
    "usage",
]
LINES_MAX = {"client.js": 1_000}  # programs of others load it as one file
VIEWER = Path(__file__).parents[2] / "src/treering/server/viewer"


async def test_one_page_is_at_every_address_and_its_files_kept_for_ever(host: SessionHost, serving: Serving) -> None:
    async with serving(host, root_path="/a") as site, httpx2.AsyncClient(base_url=site.url) as http:
        pages = [await http.get(path) for path in PAGES]
        assert {page.status_code for page in pages} == {200}
        assert len({page.text for page in pages}) == 1
        page = pages[0]
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert '<base href="/a/">' in page.text
        for reply in (page, await http.get("", headers={"if-none-match": page.headers["etag"]})):
            assert reply.headers["content-security-policy"] == POLICY  # a 304 renews what the browser keeps
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.status_code == 304
        for name in re.findall(r'"(assets/[^"]+)"', page.text):
            asset = await http.get(name, headers={"accept-encoding": "gzip"})
            assert asset.status_code == 200, name
            assert asset.headers["content-encoding"] == "gzip"
            assert asset.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert asset.headers["content-security-policy"] == POLICY  # a worker has that of its file
            plain = await http.get(name, headers={"accept-encoding": "gzip;q=0, identity"})
            assert plain.content == asset.content
            assert "content-encoding" not in plain.headers
        for wrong in ("assets/0123456789abcdef/app.js", f"assets/{assets().version}/..%2fassets.py", "assets/app.js"):
            assert (await http.get(wrong)).status_code in (400, 404), wrong
        client = await http.get("client.js")
        assert client.headers["content-type"] == "text/javascript; charset=utf-8"
        assert client.headers["cache-control"] == "private, no-cache"
        assert client.content == (VIEWER / "client.js").read_bytes()


def test_the_viewer_is_small_and_holds_nothing_that_runs_beside_its_files() -> None:
    found = [assets().find(path.relative_to(VIEWER).as_posix()) for path in VIEWER.rglob("*.*")]
    assert 100 * 1024 < sum(len(asset.packed) for asset in found if asset is not None) <= 300 * 1024
    for path in VIEWER.rglob("*.*"):
        if path.suffix == ".html":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=|https?://", text), path
        elif path.suffix == ".js" and path.parent.name != "vendor":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval)\b", text), path
            lines = text.splitlines()
            assert max(map(len, lines)) <= 120, path
            assert len(lines) <= LINES_MAX.get(path.name, 400), f"{path} is more than one thing: divide it"


@pytest.mark.browser
async def test_the_page_opens_at_each_address(site: Site, page: Page, allowed: list[str]) -> None:
    allowed.append("404")  # those sessions do not exist
    for path in PAGES:
        await page.goto(site.url + path)
        await until(page, "document.querySelector('#main').childElementCount > 0")
