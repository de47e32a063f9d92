"""Markdown of messages as HTML that can do no harm.

Raw HTML is text, images are named and never loaded, links lead to the web or a mailbox or are text, headings are smaller
than the page's own. What comes out holds no attribute that a message could name, but for the address of a link and the
language of a block of code, both escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from .telling import is_plain

PARSED_CHARS_MAX = 200_000
"""Longer texts are shown as they are: nobody writes them as Markdown, and parsing them takes long."""

_SAFE_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_HEADINGS_BELOW = 3
_BLANK = re.compile(r"\n[ \n]*\n")


class _SafeMarkdown(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        """Tell whether a link or an image may lead there; what may not stays text."""
        return bool(_SAFE_LINK.match(url.strip()))


def _parser(*, breaks: bool) -> MarkdownIt:
    options = {"html": False, "linkify": False, "typographer": False, "breaks": breaks}
    return _SafeMarkdown("commonmark", options).enable(["table", "strikethrough"])


class RichText:
    """Turns the Markdown of messages into HTML."""

    def __init__(self) -> None:
        self._written = _parser(breaks=False)
        self._typed = _parser(breaks=True)

    def html(self, text: str, *, typed: bool = False) -> str:
        """Return a text as HTML.

        Args:
            text: The text, in which anything may stand.
            typed: A person typed it, and meant its line breaks.
        """
        if len(text) > PARSED_CHARS_MAX:
            return f"<pre>{escape(text)}</pre>\n"
        if is_plain(text):
            return "".join(_paragraph(each, typed=typed) for each in _BLANK.split(text.strip(" \n")) if each)
        parser = self._typed if typed else self._written
        tokens = parser.parse(text)
        _tame(tokens)
        return str(parser.renderer.render(tokens, parser.options, {}))


def _paragraph(text: str, *, typed: bool) -> str:
    lines = [escape(line.strip(" ")) for line in text.split("\n")]
    return "<p>" + ("<br>\n" if typed else "\n").join(lines) + "</p>\n"


def _tame(tokens: Sequence[Token]) -> None:
    """Take from the tokens what could be loaded or styled from outside, and what would disturb the page's outline."""
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + _HEADINGS_BELOW)}"
        elif token.type in ("th_open", "td_open"):
            side = str(token.attrs.pop("style", "")).removeprefix("text-align:")
            if side in ("center", "right"):
                token.attrs["class"] = side
        elif token.type == "link_open":
            token.attrs = {"href": token.attrs.get("href", ""), "rel": "noopener noreferrer nofollow"}
        elif token.type == "image":
            _name_only(token)
        if token.children:
            _tame(token.children)


def _name_only(token: Token) -> None:
    """Make a text of an image: what it is called, and where it would have been loaded from."""
    told = f"[Image: {token.content}]" if token.content else "[Image]"
    token.type, token.tag, token.content = "text", "", f"{told}({token.attrs.get('src', '')})"
    token.children = None
