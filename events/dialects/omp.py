"""oh-my-pi's dialect: pi's version 3 with some lines of its own, and a slot for the title in front.

The slot is the first line of the file and always takes 256 bytes, so that the title can be overwritten in place::

    {"type":"title","v":1,"title":"Parser","source":"user","updatedAt":"2026-01-01T10:00:00.000Z","pad":"     "}
    {"type":"session","version":3,"id":"01a1ffee-...","timestamp":"2026-01-01T10:00:00.000Z","cwd":"/work/project"}
    {"type":"model_change","id":"137fc4a5","parentId":null,"timestamp":"2026-01-01T10:00:01.000Z","model":"anthropic/claude-x","resolvedModelIsFallback":false}
    {"type":"title_change","id":"bfefcd9b","parentId":"137fc4a5","timestamp":"2026-01-01T10:00:02.000Z","title":"Parser","source":"user"}

Files without the slot are read as well. So are pi's forms of the same lines, which oh-my-pi leaves in its files. A line
for which treering has no type stays an opaque entry of its own type.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from msgspec import Raw
from msgspec.structs import replace

from ..content import NonEmpty
from ..entries import Header, ModelChangeEntry, Payload, SessionInfo, SessionInfoEntry, Usage, UsageEntry, UsageRecord
from ..errors import DialectCannot, Where
from .base import as_string, attempt, object_of, well_formed
from .header import TitleSlot, read_slot, write_slot
from .pi.camel import CamelDialect, HeaderMark, line_decoder, read_header, types_of
from .pi.lines import (
    PI_LINES,
    PI_WRITERS,
    Line,
    ThinkingLevelLine,
    Writer,
    Written,
    write_branch_summary,
    write_compaction,
    write_own,
)
from .pi.messages import UNKNOWN
from .pi.values import ABSENT, iso, name_on_one_line, read_usage, write_usage

# -- lines


class OmpThinkingLevelLine(ThinkingLevelLine, tag="thinking_level_change", kw_only=True):
    """A change of the thinking level; null turns thinking off, and so does a line without a level."""

    thinking_level: str | None = None


class TitleChangeLine(Line, tag="title_change", kw_only=True):
    """A change of the title."""

    title: str | None = None

    def _payload(self) -> Payload:
        return SessionInfo((self.title or "").strip())


class ModelUsageLine(Line, tag="model_usage", kw_only=True):
    """Usage that belongs to no message."""

    purpose: NonEmpty
    provider: str | None = None
    model: str | None = None
    usage: Raw = ABSENT

    def _payload(self) -> Payload:
        return UsageRecord(self.purpose, read_usage(self.usage)[0] or Usage(), self.provider, self.model)


OMP_LINES: tuple[type[Line], ...] = (
    *(line for line in PI_LINES if line is not ThinkingLevelLine),
    OmpThinkingLevelLine,
    TitleChangeLine,
    ModelUsageLine,
)
"""The lines of oh-my-pi for which treering has a type, and those of pi."""


def _write_model_change(entry: ModelChangeEntry) -> Written:
    change = entry.model_change
    if "/" in change.provider:
        raise DialectCannot(
            f"oh-my-pi writes provider/model: the provider {change.provider!r} must not contain a slash"
        )
    return "model_change", {"model": f"{change.provider}/{change.model_id}", "resolvedModelIsFallback": False}


def _write_title_change(entry: SessionInfoEntry) -> Written:
    if entry.session_info.name is None:
        return write_own(entry)
    return "title_change", {"title": name_on_one_line(entry.session_info.name), "source": "user"}


def _write_model_usage(entry: UsageEntry) -> Written:
    payload = entry.usage
    keys: dict[str, object] = {
        "purpose": payload.kind,
        "api": UNKNOWN,
        "provider": UNKNOWN if payload.provider is None else payload.provider,
        "model": UNKNOWN if payload.model is None else payload.model,
        "usage": write_usage(payload.usage),
        "stopReason": "stop",
    }
    return "model_usage", keys


class OmpDialect(CamelDialect):
    """Reads and writes oh-my-pi's version 3."""

    name = "omp"
    model_changes_win = True
    types = types_of(OMP_LINES)
    writers: ClassVar[Mapping[str, Writer]] = {
        **PI_WRITERS,
        "model_change": _write_model_change,
        "session_info": _write_title_change,
        "compaction": partial(write_compaction, hook_key="fromExtension"),
        "branch_summary": partial(write_branch_summary, hook_key="fromExtension"),
        "usage": _write_model_usage,
    }
    _read = staticmethod(line_decoder(OMP_LINES))

    @classmethod
    def opened(cls, line: bytes, where: Where, slot: TitleSlot | None) -> tuple[Header, OmpDialect]:
        """Decode a header line, and make the dialect of its log; see `DialectClass.opened`."""
        return cls.decode_header(line, where, slot), cls()

    @staticmethod
    def decode_header(line: bytes, where: Where, slot: TitleSlot | None = None) -> Header:
        """Decode a header line; the title in a slot before it, if there is one, takes precedence over its own."""
        header = read_header(line, where)
        own = attempt(as_string, (object_of(well_formed(line)) or {}).get("title"))
        title = own or header.title
        if slot is not None and slot.title:
            title = title if slot.is_cut_of(title) else slot.title
        return replace(header, title=title)

    def encode_header(self, header: Header) -> bytes:
        """Return the title slot and the header line, newlines included; a title too long for the slot is in both."""
        slot = write_slot(header.title or "", iso(header.timestamp))
        read_back = read_slot(slot)
        is_cut = read_back is not None and (read_back.title or None) != header.title
        mark = HeaderMark(header.parent_entry, header.key, header.title if is_cut else None)
        return slot + self._header_line(header, mark)
