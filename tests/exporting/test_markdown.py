"""The Markdown text: readable, and no content of the session can break its structure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from treering import Session, image, text, thinking, tool_result, tool_use
from treering.projections.documents.markdown import code_span, fenced, passage, plain


def headings(document: str) -> list[str]:
    tokens = MarkdownIt("commonmark").enable("table").parse(document)
    return [
        tokens[place + 1].content
        for place, token in enumerate(tokens)
        if token.type == "heading_open" and not token.level
    ]


@pytest.mark.feature("N-57")
async def test_a_conversation_reads_from_top_to_bottom(full_session: Session) -> None:
    document = (await full_session.export("markdown")).decode()
    assert [heading.split(" `")[0] for heading in headings(document)] == [
        *("Old trees", "System", "User", "Assistant", "Assistant", "Summary of another branch", "Command", "ext"),
        *("User", "What came before was compacted (4,321 tokens)", "User"),
    ]
    for expected in (
        "- Session: `main`",
        "- Created: 2026-01-01 10:00:01 UTC",
        "- Directory: `/work/orchard`",
        "- Not shown: 1 entry of other branches",
        "*Model: maker/m-1*",
        "## User `the question`",
        "Which tree is the *oldest*?",
        "*Image (image/png, 7",
        "<details><summary>Thinking</summary>\n\nCount the rings.\n\n</details>",
        '**Call of** `count`\n\n```json\n{\n  "tree": "oak"\n}\n```',
        "<details><summary>Result of count (2 lines)</summary>\n\n```\n112 rings\nand bark\n```\n\n</details>",
        "*Tool run: count · 1.5 s*",
        "Felling was considered.",
        "```console\n$ ls\n```",
        "Output (exit code 2)",
        "The oak has 112 rings.",
    ):
        assert document.count(expected) == 1, expected
    assert "Felling it?" not in document


async def test_another_path_can_be_exported(full_session: Session) -> None:
    [abandoned] = [entry.id for entry in await full_session.entries() if "Felling it?" in repr(entry)]
    assert abandoned is not None
    document = (await full_session.export("markdown", leaf_id=abandoned)).decode()
    assert "Felling it?" in document
    assert "And the pine?" not in document


HOSTILE = [
    "## Assistant",
    "```\nnever closed",
    "~~~~\nnever closed",
    "</details>",
    "<details>",
    "<!-- hidden",
    "<script>alert(1)</script>",
    "a\n===",
    "---",
    "> quoted\n# heading",
    "- list\n\n  # heading",
    "[x]: https://example.org",
    "\\`<b>\\`",
    "| a |\n|---|\n| <img src=x> |",
    "1. a\n\n       ```\n",
    "\r# carriage\r\n## returns",
    "```\n</details>\n```\n\n<b>",
]


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_no_content_becomes_structure(session: Session, hostile: str) -> None:
    await session.append_message("user", hostile)
    await session.append_message(
        "assistant", [thinking(hostile), text(hostile), tool_use("c", hostile, {hostile: hostile})]
    )
    await session.append_message("tool", tool_result("c", hostile), tool_name=hostile)
    await session.append_compaction(hostile, None, 1)
    await session.append_message("user", image(hostile, hostile, kind="url"))
    await session.append_session_info(hostile)
    document = (await session.export("markdown")).decode()
    assert headings(document)[1:] == ["User", "Assistant", "What came before was compacted (1 token)", "User"]
    html = [token.content for token in MarkdownIt("commonmark").parse(document) if token.type == "html_block"]
    assert sum(block.count("<details>") for block in html) == sum(block.count("</details>") for block in html) == 2


LINES = [
    *("#", "```", "~~~", "<b>", "</details>", "- a", "    b", "> c", "", "`", "[d]: e", "|f|", "|-|", "\t", "***"),
    *("<!--", "&lt;", "\\"),
]


@given(st.lists(st.sampled_from(LINES), max_size=8))
def test_a_passage_does_not_change_how_the_text_after_it_is_parsed(lines: list[str]) -> None:
    document = (
        f"# before\n\n{passage(chr(10).join(lines))}## after\n\n<details><summary>x</summary>\n\ny\n\n</details>\n"
    )
    assert headings(document) == ["before", "after"]
    blocks = [token.content for token in MarkdownIt("commonmark").parse(document) if token.type == "html_block"]
    assert blocks == ["<details><summary>x</summary>\n", "</details>\n"]


def test_a_safe_passage_is_unchanged_and_an_unsafe_one_is_quoted() -> None:
    assert passage("Use `Vec<T>` and *care*.\n\n- one\n- two") == "Use `Vec<T>` and *care*.\n\n- one\n- two\n\n"
    assert passage("# Title\n\n`Vec<T>`") == "> # Title\n>\n> `Vec<T>`\n\n"
    assert passage("<b>") == "> &lt;b>\n\n"
    assert passage(" \n") == ""


def test_fences_and_code_spans_have_more_backticks_than_their_content() -> None:
    assert fenced("a\n````\nb", "json") == "`````json\na\n````\nb\n`````\n\n"
    assert code_span("a`b``c") == "``` a`b``c ```"
    assert plain("*a* <b> [c](d)\n# e") == r"\*a\* \<b\> \[c\](d) \# e"
