"""The HTML page: all of a session on one page that stands alone, and nothing that is said in it becomes markup."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from typing import Literal, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec import Raw

from treering import Session, SessionHost, image, text, thinking, tool_result, tool_use
from treering.projections.exporting.html import NESTED_MAX
from treering.projections.exporting.rich_text import RichText
from treering.projections.exporting.telling import is_plain

from .conftest import DOT

ViewFormat: TypeAlias = Literal["html", "markdown", "json"]

VOID = {"meta", "img", "br", "hr", "circle"}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop is enough here: what a page holds does not depend on it."""
    return "asyncio"


class Page(HTMLParser):
    """All tags with their attributes, and whether each that was opened was closed in its turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.tags if name == tag)

    @property
    def text(self) -> str:
        return "".join(self.words)


async def page_of(session: Session) -> Page:
    return Page((await session.export("html")).decode())


async def test_the_page_tells_all_branches_included(told: Session) -> None:
    page = await page_of(told)
    for said in ("Old trees", "Be brief.", "oldest", "I count.", "112 rings\nand bark", "Felling it?", "the question"):
        assert said in page.text
    for said in (
        "Felling was considered.",
        "The oak has 112 rings.",
        "Thinking level: high",
        "Thanks.",
        "no such tree",
    ):
        assert said in page.text
    kinds = [str(each["class"]) for each in page.all("details")]
    assert kinds.count("branch") == 1
    assert {"thinking", "call", "result", "result error", "data", "system"} <= set(kinds)
    assert all("open" not in each for each in page.all("details"))


async def test_each_entry_can_be_pointed_at_and_the_contents_lead_there(told: Session) -> None:
    page = await page_of(told)
    ids = [each["id"] for _, each in page.tags if "id" in each]
    assert len(ids) == len(set(ids))
    assert {f"e{entry.seq}" for entry in await told.entries()} <= set(ids)
    led = {str(each["href"])[1:] for each in page.all("a") if str(each["href"]).startswith("#")}
    assert led <= set(ids)
    [nav] = page.all("nav")
    assert nav["aria-label"] == "Contents"


async def test_the_page_stands_alone(told: Session) -> None:
    page = await page_of(told)
    [policy] = [each["content"] for each in page.all("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not {"link", "iframe", "object", "embed", "form", "base", "video"} & {name for name, _ in page.tags}
    assert all(str(each["src"]).startswith("data:image/png;base64,") for each in page.all("img"))
    assert not any("src" in each for each in page.all("script"))
    assert [each["src"] for each in page.all("img")] == [f"data:image/png;base64,{DOT}"]


async def test_one_session_makes_one_page(told: Session) -> None:
    assert await told.export("html") == await told.export("html")


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><script>alert(1)</script>',
    "' onmouseover='alert(1)",
    "</title></style></script><script>alert(1)</script>",
    "[x](javascript:alert(1)) ![x](javascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "![x](https://example.org/track.png)",
    '<https://example.org/"onclick=alert(1)>',
    '```"><script>alert(1)</script>\nx\n```',
    "# <svg onload=alert(1)>",
    "[x]: javascript:alert(1)\n\n[x]",
    "\x00<script\x00>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "]]><!-- --!> <script>alert(1)</script>",
    "|<b onclick=x>|b|\n|:-:|-:|\n|</details>|\ud800|",
]
ATTRIBUTES = {
    *("id", "class", "href", "rel", "title", "dir", "alt", "src", "loading", "datetime", "aria-label", "aria-hidden"),
    *("type", "hidden", "lang", "charset", "http-equiv", "content", "name", "width", "height", "viewbox", "fill"),
    *("stroke", "cx", "cy", "r", "start"),
}


@pytest.mark.parametrize("said", HOSTILE)
async def test_nothing_that_is_said_becomes_markup(session: Session, said: str) -> None:
    whole = said.replace("\ud800", "?")
    first = await session.append_message("user", whole, metadata={whole: whole}, provider=whole, model=whole)
    await session.append_message("assistant", [thinking(whole), text(whole), tool_use(whole, whole, {whole: [whole]})])
    await session.append_message("tool", tool_result(whole, whole, is_error=True), tool_name=whole)
    for kind in ("image/png", "image/svg+xml", "text/html", whole):
        await session.append_message("user", [image(whole, kind), image(whole, kind, kind="url")])
        await session.append_message("user", image("javascript:alert(1)", kind, kind="url"))
        await session.append_message("user", image(f"https://example.org/{whole}", kind, kind="url"))
    await session.append_custom_entry(whole, {whole: whole})
    await session.append_custom_message(whole, whole)
    await session.set_label(first, whole)
    await session.append_session_info(whole)
    await session.append_message(whole or "x", whole, stop_reason=whole)
    await session.append_compaction(whole, None, 1)
    await session.branch_with_summary(first, whole)
    page = await page_of(session)
    assert [name for name, _ in page.tags].count("script") == 1
    assert not {"svg", "iframe", "object"} & {name for name, each in page.tags if each.get("class") != "mark"}
    used = {name for _, attributes in page.tags for name in attributes}
    assert used <= ATTRIBUTES, used - ATTRIBUTES
    assert list(page.all("img")) == []
    for link in page.all("a"):
        assert str(link["href"]).lower().startswith(("#", "http://", "https://", "mailto:"))


async def test_only_whole_images_of_known_types_are_shown(session: Session) -> None:
    for data, kind in [(DOT, "image/png"), (DOT, "image/svg+xml"), ('x" onerror="y', "image/png"), ("", "image/gif")]:
        await session.append_message("user", image(data, kind))
    assert len(list((await page_of(session)).all("img"))) == 1


async def test_deep_branches_are_told_too(session: Session) -> None:
    below = None
    for number in range(NESTED_MAX + 10):
        below = await session.append_message("user", f"{number} deep", below=below)
        await session.append_message("assistant", f"{number} late", below=below)
    await session.branch(await session.append_message("user", "root", below=None))
    page = await page_of(session)
    assert all(f"{number} deep" in page.text and f"{number} late" in page.text for number in range(NESTED_MAX + 10))


async def test_free_json_that_is_no_usual_json_is_shown(session: Session) -> None:
    await session.append_message("assistant", tool_use("c", "f", Raw(b'{"n": 1e999, "m": 100000000000000000000000}')))
    assert "100000000000000000000000" in (await page_of(session)).text


PLAIN = st.text(st.sampled_from(" ab\"'.,:;()-+=1\n"), max_size=30)


@given(PLAIN, st.booleans())
def test_plain_text_is_shown_as_a_parser_would_show_it(said: str, typed: bool) -> None:
    rich = RichText()
    parsed = MarkdownIt("commonmark", {"breaks": typed}).render(said).replace("<br />", "<br>")
    if is_plain(said):
        assert unescape(rich.html(said, typed=typed)).split() == unescape(parsed).split()


@pytest.mark.parametrize("format", ["html", "markdown", "json"])
async def test_lines_without_an_id_are_left_out(session: Session, host: SessionHost, format: ViewFormat) -> None:
    """Nothing can refer to them, so they are no branches either."""
    first = await session.append_message("user", "Hello")
    assert session.file_path is not None
    await host.flush()
    with open(session.file_path, "ab") as file:  # noqa: ASYNC230 - a test may wait for a file
        file.write(b'{"type":"nameless","parent_id":"%s"}\n{"type":"nameless"}\n' % first.encode())
    await session.append_message("assistant", "Hi!")
    said = (await session.export(format)).decode()
    assert "nameless" not in said
    assert said.index("Hello") < said.index("Hi!")
