"""A session as one self-contained HTML page: it loads nothing, and works without its script.

All content of a session is escaped before it is inserted. A content security policy in the page's head allows only the
page's own style and script, identified by their hashes, and embedded images. Tools and thinking are collapsed; the
script expands or collapses all of them in one click and remembers the choice.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from html import escape
from importlib.resources import files

import msgspec
from msgspec import Raw

from ...events.content import (
    Content,
    ImagePart,
    ImageSource,
    TextPart,
    ThinkingPart,
    ToolResult,
    ToolResultPart,
    ToolUsePart,
    plain_text,
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
from ...events.json_values import UNDECODABLE, json_value
from ...events.texts import counted, entries_counted, one_line
from .document import About
from .texts import (
    RichText,
    arguments_line,
    describe_compaction,
    describe_event,
    describe_image,
    describe_result,
    json_text,
    moment,
    speaker,
)

SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The media types of images that are embedded in the page; others are only named."""

MARK = (
    '<svg class="mark" width="20" height="20" viewBox="0 0 20 20" aria-hidden="true" fill="none" stroke="currentColor">'
    '<circle cx="10" cy="10" r="8.5"/><circle cx="10" cy="10" r="5.5"/><circle cx="10" cy="10" r="2.5"/></svg>'
)

_ROOM = __name__.rpartition(".")[0]
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_MARKS = re.compile(r"\*\*|`+|^#{1,6} |!?\[([^\]]*)\]\([^)\s]*\)")
_DEPTH_SHOWN = 3


def clean(text: str) -> str:
    """Remove terminal colour codes, and replace control characters, which HTML does not allow, with U+FFFD."""
    return _CONTROLS.sub("\ufffd", _COLOURS.sub("", text))


def escaped(text: str) -> str:
    """Return a text escaped for use in the page, between tags and in attributes."""
    return escape(clean(text))


@cache
def part(name: str) -> str:
    """Return the page's style or script."""
    return (files(_ROOM) / name).read_text(encoding="utf-8")


def policy() -> str:
    """Return the content security policy: only the page's own style and script, and embedded images."""
    style, script = (
        "sha256-" + base64.b64encode(hashlib.sha256(part(name).encode()).digest()).decode()
        for name in ("page.css", "page.js")
    )
    return (
        f"default-src 'none'; img-src data:; style-src '{style}'; script-src '{script}'; base-uri 'none'; "
        "form-action 'none'"
    )


def about_list(about: About) -> str:
    """Return the list of information about a session."""
    rows = {
        "Session": f"<code>{escaped(about.session_id)}</code>",
        "Created": time_tag(about.created),
        "Last entry": time_tag(about.modified),
        "Messages": f"{about.message_count:,}",
        "Directory": f"<code>{escaped(about.cwd)}</code>" if about.cwd else "",
        "Forked from": f"<code>{escaped(about.parent_session)}</code>" if about.parent_session else "",
        "Not shown": f"{about.left_out:,} entries of other branches" if about.left_out else "",
    }
    items = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows.items() if value)
    notice = "Secrets were taken out of this export; it cannot be imported." if about.redacted else ""
    return f'<dl class="about">{items}</dl>\n' + (f'<p class="notice">{notice}</p>\n' if notice else "")


def time_tag(time: datetime) -> str:
    """Return a time as a `<time>` element."""
    return f'<time datetime="{time.isoformat()}">{moment(time)}</time>'


def anchor(entry: Entry) -> str:
    """Return the permalink of an entry."""
    return f'<a class="anchor" href="#e{entry.seq}" title="Entry {escaped(entry.id or "")}">#{entry.seq}</a>'


def fold(kind: str, summary: str, body: str) -> str:
    """Return a collapsed `<details>` element; `summary` and `body` are HTML."""
    return f'<details class="{kind}"><summary>{summary}</summary><div class="inside">{body}</div></details>\n'


def summary_line(name: str, preview: str, size: str = "") -> str:
    """Return the visible line of a collapsed element, from plain texts."""
    line = f'<span class="tool">{escaped(name)}</span> <span class="preview">{escaped(preview)}</span>'
    return line + (f' <span class="size">{escaped(size)}</span>' if size else "")


def contents_item(kind: str, depth: int, seq: int, title: str, label: str = "") -> str:
    """Return an item of the table of contents, without the marks of Markdown in the title; `label` is HTML."""
    inside = f" in-{min(depth, _DEPTH_SHOWN)}" if depth else ""
    unmarked = _MARKS.sub(r"\1", title)
    return f'<li class="{kind}{inside}"><a href="#e{seq}">{label}{escaped(unmarked)}</a></li>\n'


def arguments(raw: Raw) -> str:
    """Return a call's arguments as a list, strings without quotes."""
    try:
        fields = msgspec.json.decode(raw, type=dict[str, Raw])
    except UNDECODABLE:
        return f"<pre>{escaped(json_text(raw))}</pre>"
    rows = [
        f'<dt>{escaped(key)}</dt><dd><pre dir="auto">{escaped(_value_text(each))}</pre></dd>'
        for key, each in fields.items()
    ]
    return f"<dl>{''.join(rows)}</dl>" if rows else "<p>No arguments.</p>"


def _value_text(raw: Raw) -> str:
    value = json_value(raw)
    return value if isinstance(value, str) else json_text(raw)


def image_tag(source: ImageSource) -> str:
    """Return an embedded image, or the description of an image that is not embedded and never loaded."""
    description = escaped(describe_image(source))
    if source.type == "base64" and source.media_type in SHOWN_IMAGES and _BASE64.fullmatch(source.data):
        data = "".join(source.data.split())
        shown = f'<img src="data:{source.media_type};base64,{data}" alt="{description}" loading="lazy">'
        return f"<figure>{shown}</figure>\n"
    if source.type == "url" and _WEB.match(source.data):
        address = escaped(source.data)
        description += f': <a href="{address}" rel="noopener noreferrer nofollow">{address}</a>'
    elif source.type == "url":
        description += f": <code>{escaped(source.data[:200])}</code>"
    else:
        description += ", not shown"
    return f"<figure><figcaption>{description}</figcaption></figure>\n"


NESTED_MAX = 24
"""The maximum nesting of branches on the page; deeper ones follow without being collapsed."""

_ENDED_WELL = frozenset({None, "stop", "end_turn", "tool_use", "toolUse"})
_STYLED = frozenset({"user", "assistant", "system"})


class HtmlPage:
    """Writes an HTML page; see `View`."""

    def __init__(self) -> None:
        self._rich = RichText()
        self._labels: Mapping[str, str] = {}
        self._calls: dict[str, str] = {}
        self._contents: list[str] = []
        self._branches: list[bool] = []

    def head(self, about: About) -> str:
        """Return the page's head and the information about the session."""
        self._labels = about.labels
        title = escaped(about.title)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n<meta name="generator" content="treering">\n'
            f"<title>{title}</title>\n<style>{part('page.css')}</style>\n</head>\n<body>\n"
            '<a class="skip" href="#conversation">To the conversation</a>\n'
            '<a class="skip" href="#contents">To the contents</a>\n'
            f'<header>{MARK}<p>{title}</p><button id="toggle" type="button" hidden>Expand all</button></header>\n'
            f'<main id="conversation">\n<h1>{title}</h1>\n{about_list(about)}'
        )

    def entry(self, entry: Entry) -> str:
        """Return the HTML of an entry."""
        match entry:
            case MessageEntry(message=message):
                return self._message(entry, message)
            case CustomMessageEntry(custom_message=custom):
                return self._article(entry, "other", custom.custom_type, self._parts(custom.content))
            case CompactionEntry(compaction=compaction):
                title = describe_compaction(compaction)
                return self._summary(entry, title, compaction.summary)
            case BranchSummaryEntry(branch_summary=summary):
                return self._summary(entry, "Summary of another branch", summary.summary)
            case _:
                return self._event(entry)

    def branch_begins(self, entry: Entry, count: int) -> str:
        """Return the beginning of a branch, which is collapsed."""
        size = entries_counted(count)
        self._contents.append(contents_item("fork", len(self._branches), entry.seq, f"Another branch: {size}"))
        collapsed = len(self._branches) < NESTED_MAX
        self._branches.append(collapsed)
        preview = plain_text(entry.message.content) if isinstance(entry, MessageEntry) else describe_event(entry)[0]
        line = summary_line("Another branch", one_line(preview), size)
        if collapsed:
            return f'<details class="branch"><summary>{line}</summary><div class="inside">\n'
        return f'<p class="event">{line}</p>\n'

    def branch_ends(self) -> str:
        """Return the end of a branch."""
        return "</div></details>\n" if self._branches.pop() else '<p class="event">The branch ends here.</p>\n'

    def tail(self) -> str:
        """Return the table of contents, which is complete now, and the end of the page."""
        return (
            '</main>\n<nav id="contents" aria-label="Contents">\n<h2>Contents</h2>\n<ol>\n'
            + "".join(self._contents)
            + "</ol>\n</nav>\n<footer>Exported by treering.</footer>\n"
            f"<script>{part('page.js')}</script>\n</body>\n</html>\n"
        )

    # -- messages

    def _message(self, entry: MessageEntry, message: Message) -> str:
        if message.bash is not None:
            return self._article(entry, "other", speaker(message), _command(message.bash))
        results = [each for each in message.content if isinstance(each, ToolResultPart)]
        if results and len(results) == len(message.content):
            body = self._parts(message.content, message)
            return f'<article class="results" id="e{entry.seq}" aria-label="Results of tools">\n{body}</article>\n'
        if message.role == "user" or entry.id in self._labels:
            self._add_to_contents(entry, "turn", one_line(plain_text(message.content)) or speaker(message))
        body = self._parts(message.content, message)
        if message.role == "system":
            body = fold("system", summary_line("Instructions", one_line(plain_text(message.content))), body)
        if message.error is not None:
            body += f'<p class="notice">{escaped(message.error)}</p>\n'
        kind = message.role if message.role in _STYLED else "other"
        return self._article(entry, kind, speaker(message), body, _notes(message))

    def _parts(self, content: Sequence[Content], message: Message | None = None) -> str:
        return "".join(self._part(each, message) for each in content)

    def _part(self, content: Content, message: Message | None) -> str:
        match content:
            case TextPart(text=text):
                return self._rich_text(text.content, typed=message is not None and message.role == "user")
            case ThinkingPart(thinking=thinking):
                preview = "redacted by its provider" if thinking.redacted else one_line(thinking.content)
                return fold("thinking", summary_line("Thinking", preview), self._rich_text(thinking.content))
            case ImagePart(image=image):
                return image_tag(image.source)
            case ToolUsePart(tool_use=call):
                self._calls[call.id] = call.name
                return fold("call", summary_line(call.name, arguments_line(call.raw_input)), arguments(call.raw_input))
            case ToolResultPart(tool_result=result):
                name = message.tool_name if message is not None else None
                return _result(result, name or self._calls.get(result.tool_use_id, "tool"))

    def _rich_text(self, text: str, *, typed: bool = False) -> str:
        if not text.strip():
            return ""
        return f'<div class="said" dir="auto">{self._rich.html(clean(text), typed=typed)}</div>\n'

    # -- everything else

    def _summary(self, entry: Entry, title: str, summary: str) -> str:
        self._add_to_contents(entry, "cut", title)
        return self._article(entry, "summary", title, self._rich_text(summary))

    def _event(self, entry: Entry) -> str:
        description, raw = describe_event(entry)
        if entry.id in self._labels:
            self._add_to_contents(entry, "cut", description)
        links = f"{self._label(entry)}{anchor(entry)}"
        if raw is None:
            return f'<p class="event" id="e{entry.seq}"><span>{escaped(description)}</span>{links}</p>\n'
        data = fold("data", f"<span>{escaped(description)}</span>", f"<pre>{escaped(json_text(raw))}</pre>")
        return f'<div class="event" id="e{entry.seq}">{data}{links}</div>\n'

    def _article(self, entry: Entry, kind: str, title: str, body: str, notes: Sequence[str] = ()) -> str:
        name, details = escaped(title), "".join(f"<span>{escaped(note)}</span>" for note in notes)
        return (
            f'<article class="{kind}" id="e{entry.seq}" aria-label="{name}">\n<div class="who"><h3>{name}</h3>'
            f"{time_tag(entry.timestamp)}{details}{self._label(entry)}{anchor(entry)}</div>\n{body}</article>\n"
        )

    def _label(self, entry: Entry) -> str:
        label = self._labels.get(entry.id or "")
        return f' <span class="label">{escaped(label)}</span>' if label else ""

    def _add_to_contents(self, entry: Entry, kind: str, title: str) -> None:
        self._contents.append(contents_item(kind, len(self._branches), entry.seq, title, self._label(entry)))


def _notes(message: Message) -> list[str]:
    """Return the model and the usage of an answer, and its stop reason if it is unusual."""
    notes: list[str] = []
    if message.model is not None:
        notes.append(f"{message.provider}/{message.model}" if message.provider else message.model)
    if message.usage is not None:
        notes.append(usage_in_words(message.usage))
    if message.stop_reason not in _ENDED_WELL:
        notes.append(f"stopped: {message.stop_reason}")
    return notes


def _result(result: ToolResult, name: str) -> str:
    text = clean(result.text)
    size = describe_result(text, is_error=result.is_error)
    body = f'<pre dir="auto">{escaped(text)}</pre>' if text else ""
    if not isinstance(result.content, str):
        body += "".join(image_tag(each.image.source) for each in result.content if isinstance(each, ImagePart))
    return fold("result error" if result.is_error else "result", summary_line(name, one_line(text), size), body)


def _command(bash: BashExecution) -> str:
    notes = ["cancelled"] if bash.cancelled else []
    notes += [f"exit code {bash.exit_code}"] if bash.exit_code else []
    notes += ["not shown to the model"] if bash.exclude_from_context else []
    lines = counted(bash.output.count("\n") + 1, "line") if bash.output else "no output"
    line = summary_line(f"$ {one_line(bash.command)}", "", ", ".join(notes) or lines)
    body = f'<pre dir="auto">$ {escaped(bash.command)}\n\n{escaped(bash.output)}</pre>'
    return fold("result error" if bash.exit_code else "result", line, body)
