"""Render the Markdown of messages as safe HTML.

Raw HTML becomes text, images are named but never loaded, links other than to the web or a mailbox become text, and
headings are smaller than the page's own. The only attributes in the output that a message controls are the address of a
link and the language of a code block, both escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ..documents.texts import is_plain

PARSED_CHARS_MAX = 200_000
"""Longer texts are shown without parsing: they are not written as Markdown, and parsing them is slow."""

_SAFE_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_HEADINGS_BELOW = 3
_BLANK = re.compile(r"\n[ \n]*\n")


class _SafeMarkdown(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        """Return whether a link or an image may have this address; otherwise it stays text."""
        return bool(_SAFE_LINK.match(url.strip()))


def _parser(*, breaks: bool) -> MarkdownIt:
    options = {"html": False, "linkify": False, "typographer": False, "breaks": breaks}
    return _SafeMarkdown("commonmark", options).enable(["table", "strikethrough"])


class RichText:
    """Renders the Markdown of messages as HTML."""

    def __init__(self) -> None:
        self._written = _parser(breaks=False)
        self._typed = _parser(breaks=True)

    def html(self, text: str, *, typed: bool = False) -> str:
        """Return a text as HTML.

        Args:
            text: The text, which is not trusted.
            typed: Whether a user typed it, so that its line breaks are intended.
        """
        if len(text) > PARSED_CHARS_MAX:
            return f"<pre>{escape(text)}</pre>\n"
        if is_plain(text):
            return "".join(_paragraph(each, typed=typed) for each in _BLANK.split(text.strip(" \n")) if each)
        parser = self._typed if typed else self._written
        tokens = parser.parse(text)
        _sanitize(tokens)
        return str(parser.renderer.render(tokens, parser.options, {}))


def _paragraph(text: str, *, typed: bool) -> str:
    lines = [escape(line.strip(" ")) for line in text.split("\n")]
    return "<p>" + ("<br>\n" if typed else "\n").join(lines) + "</p>\n"


def _sanitize(tokens: Sequence[Token]) -> None:
    """Remove from the tokens everything that could load or style from outside, or disturb the page's outline."""
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
            _replace_image(token)
        if token.children:
            _sanitize(token.children)


def _replace_image(token: Token) -> None:
    """Replace an image with a text: its name, and the address from which it would be loaded."""
    name = f"[Image: {token.content}]" if token.content else "[Image]"
    token.type, token.tag, token.content = "text", "", f"{name}({token.attrs.get('src', '')})"
    token.children = None
