"""The texts of documents: short descriptions, as plain text that the caller must escape, and messages as safe HTML.

In the HTML, raw HTML of a message becomes text, images are named but never loaded, links other than to the web or a
mailbox become text, and headings are smaller than the page's own. The only attributes that a message controls are the
address of a link and the language of a code block, both escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from html import escape

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Raw

from ...events.content import ImageSource
from ...events.dialects.base import in_utc
from ...events.entries import Compaction, Description, Entry, Message, OpaqueEntry, payload_of
from ...events.json_values import JSON, UNDECODABLE, json_value
from ...events.texts import counted, one_line

_MARKDOWN = re.compile(r"[*_`#<\[\]|~\\&!\r\t\f\v]|^ *(?:[-+>=]|[0-9]+[.)])|^ {4}", re.MULTILINE)
_NAMES = {
    "user": "User",
    "assistant": "Assistant",
    "tool": "Tool",
    "system": "System",
    "bashExecution": "Command",
    "branchSummary": "Summary of another branch",
    "compactionSummary": "Summary of what came before",
}


def speaker(message: Message) -> str:
    """Return the display name of a message's author."""
    if message.role == "custom" and message.custom_type:
        return message.custom_type
    return _NAMES.get(message.role, message.role)


def is_plain(text: str) -> bool:
    """Return whether a text has no Markdown, which is true of most messages and saves them the slow parsing."""
    return _MARKDOWN.search(text) is None


def moment(time: datetime) -> str:
    """Return a time in readable form, to the second, in UTC."""
    return f"{in_utc(time):%Y-%m-%d %H:%M:%S} UTC"


def json_text(raw: Raw) -> str:
    """Return JSON indented, or the original text if it cannot be parsed."""
    try:
        return msgspec.json.format(bytes(raw), indent=2).decode(errors="replace")
    except UNDECODABLE:
        return bytes(raw).decode(errors="replace")


def arguments_line(raw: Raw) -> str:
    """Return a call's arguments on one line: only the value of a single argument, `name: value` of several."""
    value = json_value(raw)
    if not isinstance(value, dict):
        return one_line(_plain(value))
    if len(value) == 1:
        return one_line(_plain(next(iter(value.values()))))
    return one_line(", ".join(f"{key}: {one_line(_plain(each), 60)}" for key, each in value.items()))


def _plain(value: JSON) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def describe_image(source: ImageSource) -> str:
    """Return a description of an image."""
    if source.type == "url":
        return f"Image ({source.media_type})"
    return f"Image ({source.media_type}, {counted(len(source.data) * 3 // 4, 'byte')})"


def describe_compaction(compaction: Compaction) -> str:
    """Return the title of a compaction's summary."""
    return f"What came before was compacted ({counted(compaction.tokens_before, 'token')})"


def describe_result(text: str, *, is_error: bool) -> str:
    """Return that a tool failed, or else the size of its result."""
    if is_error:
        return "failed"
    return counted(text.count("\n") + 1, "line") if text else "empty"


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


def describe_event(entry: Entry) -> Description:
    """Return a description of an entry that is neither a message nor a summary."""
    if isinstance(entry, OpaqueEntry):
        return f"Unknown entry: {entry.type} ({one_line(entry.reason)})", entry.raw
    words, data = payload_of(entry).described()
    return words or entry.type, data
