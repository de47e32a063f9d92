"""The building blocks of the HTML page. All content of a session passes through `escaped` before it is inserted."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import datetime
from functools import cache
from html import escape
from importlib.resources import files

import msgspec
from msgspec import Raw

from ...events.content import ImageSource
from ...events.entries import Entry
from ...events.json_values import UNDECODABLE, json_value
from ..documents.document import About
from ..documents.texts import describe_image, json_text, moment

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
