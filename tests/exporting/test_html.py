"""The HTML page: it shows the whole session, needs no other file, and no content of the session becomes markup."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec import Raw

from treering import Session, SessionHost, image, thinking, tool_result, tool_use
from treering.events.kinds import Kind
from treering.projections.documents.document import BranchBegins, BranchEnds, Show, Step, reading_order
from treering.projections.documents.html import NESTED_MAX
from treering.projections.documents.texts import RichText, is_plain

from .conftest import DOT, append_everywhere

ViewFormat: TypeAlias = Literal["html", "markdown", "json"]

VOID = {"meta", "img", "br", "hr", "circle"}


class Page(HTMLParser):
    """Collects all tags with their attributes and the text, and checks that tags are closed in the right order."""

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


async def test_the_page_shows_all_entries_including_those_of_other_branches(full_session: Session) -> None:
    page = await page_of(full_session)
    for expected in (
        *("Old trees", "Be brief.", "oldest", "I count.", "112 rings\nand bark", "Felling it?", "the question"),
        *("Felling was considered.", "The oak has 112 rings.", "Thinking level: high", "Thanks.", "no such tree"),
    ):
        assert expected in page.text
    kinds = [str(each["class"]) for each in page.all("details")]
    assert kinds.count("branch") == 1
    assert {"thinking", "call", "result", "result error", "data", "system"} <= set(kinds)
    assert all("open" not in each for each in page.all("details"))


async def test_each_entry_has_an_anchor_and_the_table_of_contents_links_to_anchors(full_session: Session) -> None:
    page = await page_of(full_session)
    ids = [each["id"] for _, each in page.tags if "id" in each]
    assert len(ids) == len(set(ids))
    assert {f"e{entry.seq}" for entry in await full_session.entries()} <= set(ids)
    linked = {str(each["href"])[1:] for each in page.all("a") if str(each["href"]).startswith("#")}
    assert linked <= set(ids)
    [nav] = page.all("nav")
    assert nav["aria-label"] == "Contents"


async def test_the_table_of_contents_shows_no_marks_of_markdown(session: Session) -> None:
    await session.append_message("user", "## The **old** `importer`, [see here](https://example.com/a) #1")
    page = (await session.export("html")).decode()
    contents = page.partition("<nav")[2].partition("</nav>")[0]
    assert ">The old importer, see here #1</a>" in contents


async def test_the_page_loads_nothing_from_elsewhere(full_session: Session) -> None:
    page = await page_of(full_session)
    [policy] = [each["content"] for each in page.all("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not {"link", "iframe", "object", "embed", "form", "base", "video"} & {name for name, _ in page.tags}
    assert all(str(each["src"]).startswith("data:image/png;base64,") for each in page.all("img"))
    assert not any("src" in each for each in page.all("script"))
    assert [each["src"] for each in page.all("img")] == [f"data:image/png;base64,{DOT}"]


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


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_no_content_becomes_markup(session: Session, hostile: str) -> None:
    content = hostile.replace("\ud800", "?")
    first = await append_everywhere(session, content)
    for kind in ("image/png", "image/svg+xml", "text/html", content):
        await session.append_message("user", [image(content, kind), image(content, kind, kind="url")])
        for url in ("javascript:alert(1)", f"https://example.org/{content}"):
            await session.append_message("user", image(url, kind, kind="url"))
    await session.branch(first)
    page = await page_of(session)
    assert [name for name, _ in page.tags].count("script") == 1
    assert not {"svg", "iframe", "object"} & {name for name, each in page.tags if each.get("class") != "mark"}
    used = {name for _, attributes in page.tags for name in attributes}
    assert used <= ATTRIBUTES, used - ATTRIBUTES
    assert list(page.all("img")) == []
    for link in page.all("a"):
        assert str(link["href"]).lower().startswith(("#", "http://", "https://", "mailto:"))


async def test_only_complete_images_of_known_types_are_shown(session: Session) -> None:
    for data, kind in [(DOT, "image/png"), (DOT, "image/svg+xml"), ('x" onerror="y', "image/png"), ("", "image/gif")]:
        await session.append_message("user", image(data, kind))
    assert len(list((await page_of(session)).all("img"))) == 1


async def test_deeply_nested_branches_are_shown(session: Session) -> None:
    below = None
    for number in range(NESTED_MAX + 10):
        below = await session.append_message("user", f"{number} deep", below=below)
        await session.append_message("assistant", f"{number} late", below=below)
    await session.branch(await session.append_message("user", "root", below=None))
    page = await page_of(session)
    assert all(f"{number} deep" in page.text and f"{number} late" in page.text for number in range(NESTED_MAX + 10))


async def test_a_call_with_numbers_beyond_64_bits_is_shown(session: Session) -> None:
    await session.append_message("assistant", tool_use("c", "f", Raw(b'{"n": 1e999, "m": 100000000000000000000000}')))
    assert "100000000000000000000000" in (await page_of(session)).text


PLAIN = st.text(st.sampled_from(" ab\"'.,:;()-+=1\n"), max_size=30)


@given(PLAIN, st.booleans())
def test_plain_text_renders_as_a_markdown_parser_would_render_it(content: str, typed: bool) -> None:
    rich = RichText()
    parsed = MarkdownIt("commonmark", {"breaks": typed}).render(content).replace("<br />", "<br>")
    if is_plain(content):
        assert unescape(rich.html(content, typed=typed)).split() == unescape(parsed).split()


@pytest.mark.parametrize("format", ["html", "markdown", "json"])
async def test_lines_without_an_id_are_not_exported(session: Session, host: SessionHost, format: ViewFormat) -> None:
    """Nothing can refer to them, so they do not begin branches either."""
    first = await session.append_message("user", "Hello")
    assert session.file_path is not None
    await host.flush()
    with open(session.file_path, "ab") as file:  # noqa: ASYNC230  # blocking is harmless in a test
        file.write(b'{"type":"nameless","parent_id":"%s"}\n{"type":"nameless"}\n' % first.encode())
    await session.append_message("assistant", "Hi!")
    document = (await session.export(format)).decode()
    assert "nameless" not in document
    assert document.index("Hello") < document.index("Hi!")


PROBE = """
<script>
localStorage.setItem("treering.details", "closed");
addEventListener("load", () => {
  const report = [];
  const page = document.getElementById("page");
  const record = (what) => {
    const all = [...page.contentDocument.querySelectorAll("main details")];
    const button = page.contentDocument.getElementById("toggle");
    report.push(`${what}: ${all.filter((each) => each.open).length}/${all.length} ${button.textContent}`);
  };
  const steps = [
    () => {
      record("closed");
      page.contentDocument.getElementById("toggle").click();
      record("opened");
      page.contentWindow.location.reload();
    },
    () => {
      record("remembered");
      page.contentDocument.getElementById("toggle").click();
      record("closed again");
      page.src = page.src + "#e2";
      page.contentWindow.location.reload();
    },
    () => {
      record("led to");
      report.push(`ran: ${page.contentWindow.canary ?? "nothing"}`);
      document.getElementById("report").textContent = report.join("; ");
    },
  ];
  page.addEventListener("load", () => steps.shift()?.());
  page.src = "page.html";
});
</script>
<p id="report">nothing</p><iframe id="page"></iframe>
"""


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    return found


def dom_after_scripts(chromium: str, page: Path, profile: Path) -> str:
    """Return the page's DOM after its scripts have run."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--allow-file-access-from-files"]
    options = [f"--user-data-dir={profile}", "--virtual-time-budget=8000", "--dump-dom"]
    command = [chromium, *flags, *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


async def test_the_page_folds_keeps_its_state_and_runs_nothing(session: Session, tmp_path: Path, chromium: str) -> None:
    attack = "window.canary = 'a script'; top.document.title = 'taken'"
    hostile = [content.replace("\ud800", "").replace("alert(1)", attack) for content in HOSTILE]
    first = await session.append_message("user", hostile)
    await session.append_message(
        "assistant", [thinking("inside"), *(tool_use(content, content, {content: content}) for content in hostile)]
    )
    await session.append_message("tool", [tool_result(content, content) for content in hostile])
    await session.branch(first)
    await session.append_message("user", "another way")
    (tmp_path / "probe.html").write_text(PROBE)
    await session.export("html", tmp_path / "page.html")
    shown = dom_after_scripts(chromium, tmp_path / "probe.html", tmp_path / "profile")
    report = re.findall(r'<p id="report">(.*?)</p>', shown)
    count = 1 + 1 + 2 * len(hostile)
    assert [each.split("; ") for each in report] == [
        [
            f"closed: 0/{count} Expand all",
            f"opened: {count}/{count} Collapse all",
            f"remembered: {count}/{count} Collapse all",
            f"closed again: 0/{count} Expand all",
            f"led to: 1/{count} Expand all",
            "ran: nothing",
        ]
    ]
    assert "<title>taken" not in shown


USER = Kind.USER


def notation(step: Step) -> str:
    match step:
        case Show(seq):
            return str(seq)
        case BranchBegins(seq, count):
            return f"<{seq}:{count}"
        case BranchEnds():
            return ">"


def order_of(parents: list[int], leaf: int, kinds: list[int] | None = None) -> str:
    return " ".join(map(notation, reading_order([0, *parents], [0, *(kinds or [USER] * len(parents))], leaf)))


def test_a_session_without_branches_is_read_from_its_root() -> None:
    assert order_of([0, 1, 2], 3) == "1 2 3"
    assert order_of([], 0) == ""


def test_branches_are_inserted_where_they_leave_the_path() -> None:
    #  1 - 2 - 3 - 4
    #       \- 5 - 6
    #           \- 7
    parents = [0, 1, 2, 3, 2, 5, 5]
    assert order_of(parents, 4) == "1 2 <5:3 5 <6:1 6 > 7 > 3 4"
    assert order_of(parents, 6) == "1 2 <3:2 3 4 > 5 <7:1 7 > 6"
    assert order_of(parents, 2) == "1 2 <3:2 3 4 > 5 <6:1 6 > 7", (
        "below the leaf, the path continues with the newest child"
    )


def test_another_root_is_a_branch_before_the_path() -> None:
    assert order_of([0, 1, 0, 3], 2) == "<3:2 3 4 > 1 2"
    assert order_of([0, 1, 0, 3], 0) == "<1:2 1 2 > 3 4"


def test_hidden_entries_are_left_out_and_their_children_are_kept() -> None:
    kinds = [USER, Kind.ABORTED, USER, Kind.DAMAGED, USER]
    assert order_of([0, 1, 2, 0, 3], 5, kinds) == "1 3 5"


def test_a_branch_is_named_by_its_first_message() -> None:
    kinds = [USER, USER, Kind.LABEL, Kind.MODEL_CHANGE, USER]
    assert order_of([0, 1, 1, 3, 4], 2, kinds) == "1 <5:3 3 4 5 > 2"
    assert order_of([0, 1, 1], 2, [USER, USER, Kind.LABEL]) == "1 <3:1 3 > 2"


def test_every_entry_of_a_random_tree_appears_once_and_every_branch_ends() -> None:
    chance = random.Random(7)
    parents = [chance.randrange(max(0, seq - 5), seq + 1) for seq in range(20_000)]
    steps = reading_order([0, *parents], [0, *[USER] * len(parents)], len(parents))
    assert sorted(step.seq for step in steps if isinstance(step, Show)) == list(range(1, len(parents) + 1))
    depth = 0
    for step in steps:
        depth += isinstance(step, BranchBegins) - isinstance(step, BranchEnds)
        assert depth >= 0
    assert depth == 0
