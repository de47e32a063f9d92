"""A session as one Markdown text: the path to one entry, from its beginning.

The text of a message cannot break the document around it: a text that would (a heading, raw HTML, an unclosed code
block) is quoted, with its raw HTML escaped. This is decided by parsing the text. Calls are shown with their arguments,
results are collapsed in `<details>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape

from markdown_it import MarkdownIt

from ...events.content import (
    Content,
    ImagePart,
    ImageSource,
    TextPart,
    ThinkingPart,
    ToolResult,
    ToolResultPart,
    ToolUsePart,
)
from ...events.entries import (
    BashExecution,
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    Entry,
    Message,
    MessageEntry,
    usage_in_words,
)
from ...events.texts import entries_counted, one_line
from .document import About
from .texts import (
    describe_compaction,
    describe_event,
    describe_image,
    describe_result,
    is_plain,
    json_text,
    moment,
    speaker,
)

PARSED_CHARS_MAX = 200_000
"""Longer texts are put into a code block without being parsed."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&!])")
_BREAKS = re.compile(r"\r\n?")
_TICKS = re.compile(r"`+")
_UNSAFE = frozenset({"heading_open", "hr", "html_block", "html_inline"})
_AFTER = "after-the-text"


class MarkdownText:
    """Writes a Markdown document; see `View`."""

    def __init__(self) -> None:
        self._labels: Mapping[str, str] = {}
        self._calls: dict[str, str] = {}

    def head(self, about: About) -> str:
        """Return the title and the information about the session."""
        self._labels = about.labels
        rows = {
            "Session": code_span(about.session_id),
            "Created": moment(about.created),
            "Last entry": moment(about.modified),
            "Directory": code_span(about.cwd) if about.cwd else "",
            "Forked from": code_span(about.parent_session) if about.parent_session else "",
            "Messages": f"{about.message_count:,}",
            "Not shown": f"{entries_counted(about.left_out)} of other branches" if about.left_out else "",
        }
        items = "".join(f"- {name}: {value}\n" for name, value in rows.items() if value)
        notice = "\n*Secrets were taken out of this export.*\n" if about.redacted else ""
        return f"# {plain(about.title)}\n\n{items}{notice}\n"

    def entry(self, entry: Entry) -> str:
        """Return the Markdown of an entry."""
        match entry:
            case MessageEntry(message=message):
                return self._message(entry, message)
            case CustomMessageEntry(custom_message=custom):
                return self._heading(entry, custom.custom_type) + self._parts(custom.content)
            case CompactionEntry(compaction=compaction):
                title = describe_compaction(compaction)
                return f"---\n\n{self._heading(entry, title)}{passage(compaction.summary)}"
            case BranchSummaryEntry(branch_summary=summary):
                return f"---\n\n{self._heading(entry, 'Summary of another branch')}{passage(summary.summary)}"
            case _:
                description, raw = describe_event(entry)
                line = f"*{plain(description)}*{self._label(entry)}\n\n"
                return line if raw is None else line + folded("Data", fenced(json_text(raw), "json"))

    def branch_begins(self, entry: Entry, count: int) -> str:
        """Return the line that a branch begins with."""
        return f"---\n\n*Another branch: {entries_counted(count)}.*\n\n"

    def branch_ends(self) -> str:
        """Return the line that a branch ends with."""
        return "*The branch ends here.*\n\n---\n\n"

    def tail(self) -> str:
        """Return nothing: the text ends with its last entry."""
        return ""

    def _message(self, entry: MessageEntry, message: Message) -> str:
        if message.bash is not None:
            return self._heading(entry, speaker(message)) + _command(message.bash)
        body = self._parts(message.content, message)
        if message.content and all(isinstance(each, ToolResultPart) for each in message.content):
            return body
        notes = [f"{message.provider}/{message.model}" if message.provider else message.model] if message.model else []
        notes += [usage_in_words(message.usage)] if message.usage is not None else []
        failed = f"*Failed: {plain(one_line(message.error, 500))}*\n\n" if message.error is not None else ""
        return self._heading(entry, speaker(message), notes) + body + failed

    def _heading(self, entry: Entry, title: str, notes: Sequence[str] = ()) -> str:
        details = " · ".join([moment(entry.timestamp), *map(plain, notes)])
        return f"## {plain(title)}{self._label(entry)}\n\n<sub>{details}</sub>\n\n"

    def _label(self, entry: Entry) -> str:
        label = self._labels.get(entry.id or "")
        return f" {code_span(label)}" if label else ""

    def _parts(self, content: Sequence[Content], message: Message | None = None) -> str:
        return "".join(self._part(each, message) for each in content)

    def _part(self, content: Content, message: Message | None) -> str:
        match content:
            case TextPart(text=text):
                return passage(text.content)
            case ThinkingPart(thinking=thinking):
                return folded("Thinking", passage(thinking.content)) if thinking.content.strip() else ""
            case ImagePart(image=image):
                return _image(image.source)
            case ToolUsePart(tool_use=call):
                self._calls[call.id] = call.name
                return f"**Call of** {code_span(call.name)}\n\n{fenced(json_text(call.raw_input), 'json')}"
            case ToolResultPart(tool_result=result):
                name = message.tool_name if message is not None else None
                return _result(result, name or self._calls.get(result.tool_use_id, "a tool"))


def passage(text: str) -> str:
    """Return a message's text in a form that does not affect the Markdown after it.

    A text that does not affect what follows is returned unchanged. Any other text is quoted; if raw HTML would escape
    even from the quotation, it is put into a code block.
    """
    text = text.strip("\n")
    if not text.strip():
        return ""
    text = _BREAKS.sub("\n", text)
    if len(text) <= PARSED_CHARS_MAX:
        if is_plain(text) or _is_contained(text, _UNSAFE):
            return f"{text}\n\n"
        for quoted in (text, text.replace("<", "&lt;")):
            shown = "\n".join(f"> {line}" if line else ">" for line in quoted.split("\n"))
            if _is_contained(shown, frozenset({"html_block", "html_inline"})):
                return f"{shown}\n\n"
    return fenced(text)


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def _is_contained(text: str, unsafe: frozenset[str]) -> bool:
    """Return whether a heading after the text is still parsed as one, and the text has no tokens of unsafe types."""
    references: dict[str, object] = {}
    tokens = _parser().parse(f"{text}\n\n# {_AFTER}\n", references)
    opening, inline, _ = tokens[-3:] if len(tokens) >= 3 else (None, None, None)
    if opening is None or inline is None or opening.type != "heading_open" or opening.level or inline.content != _AFTER:
        return False
    types = {token.type for token in tokens[:-3]}
    types.update(child.type for token in tokens for child in token.children or ())
    return not references.get("references") and types.isdisjoint(unsafe)


def plain(text: str) -> str:
    """Return a text on one line, with Markdown escaped."""
    return _SPECIAL.sub(r"\\\1", one_line(text, 200))


def code_span(text: str) -> str:
    """Return a text as inline code."""
    flat = one_line(text, 200) or " "
    ticks = "`" * (max(map(len, _TICKS.findall(flat)), default=0) + 1)
    return f"{ticks} {flat} {ticks}" if "`" in flat else f"{ticks}{flat}{ticks}"


def fenced(text: str, language: str = "") -> str:
    """Return a code block, with a fence longer than any in the text."""
    text = _BREAKS.sub("\n", text)
    fence = "`" * max(3, max(map(len, _TICKS.findall(text)), default=0) + 1)
    return f"{fence}{language}\n{text}\n{fence}\n\n"


def folded(summary: str, body: str) -> str:
    """Return Markdown that is collapsed when rendered as HTML; `summary` is plain text."""
    return f"<details><summary>{escape(one_line(summary, 200))}</summary>\n\n{body}</details>\n\n"


def _image(source: ImageSource) -> str:
    address = f": {code_span(source.data)}" if source.type == "url" else ""
    return f"*{plain(describe_image(source))}*{address}\n\n"


def _result(result: ToolResult, name: str) -> str:
    text = result.text
    size = describe_result(text, is_error=result.is_error)
    body = fenced(text) if text else ""
    if not isinstance(result.content, str):
        body += "".join(_image(each.image.source) for each in result.content if isinstance(each, ImagePart))
    return folded(f"Result of {name} ({size})", body)


def _command(bash: BashExecution) -> str:
    ended = " (cancelled)" if bash.cancelled else f" (exit code {bash.exit_code})" if bash.exit_code else ""
    return fenced(f"$ {bash.command}", "console") + folded(f"Output{ended}", fenced(bash.output))
