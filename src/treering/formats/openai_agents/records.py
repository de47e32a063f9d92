"""What a session of the Agents SDK holds beside its items: marks of its branches, and the usage of its turns.

    {"type":"custom","custom":{"custom_type":"openai_agents.branch","data":{"branch":"other"}},...}

What comes below such a mark is of that branch, up to the next mark; what has no mark above it is of "main".
"""

from __future__ import annotations

from collections.abc import Mapping

from ...events.entries import Custom, Usage, UsageRecord
from ...events.json_values import JSON, raw_object

MAIN = "main"
"""The branch on which every session begins."""

MARK = "openai_agents.branch"
RUN = "openai_agents.run"
"""The type of the custom entry of a mark, and the kind of the record of what a turn used."""


def mark(branch: str, *, deleted: str | None = None, cleared: bool = False) -> Custom:
    """Return the mark from which on entries are of a branch.

    Args:
        branch: The branch.
        deleted: A branch that ends with it.
        cleared: Whether all branches end with it.
    """
    data: dict[str, object] = {"branch": branch}
    if deleted is not None:
        data["deleted"] = deleted
    if cleared:
        data["cleared"] = True
    return Custom(MARK, raw_object(data, "the branch"))


def usage_record(turn: str, data: Mapping[str, JSON], before: Usage | None = None) -> UsageRecord:
    """Return the record of what a turn used.

    Args:
        turn: The entry at which the turn begins.
        data: What the SDK says of it.
        before: What an earlier record of the same turn says, which counts already.
    """
    usage = usage_of(data).beyond(Usage() if before is None else before)
    return UsageRecord(RUN, usage, raw_metadata=raw_object({"turn": turn, **data}, "the usage"))


def usage_of(data: Mapping[str, JSON]) -> Usage:
    """Return usage in treering's fields, which tell cached tokens from others."""
    details = data.get("input_tokens_details")
    known = details if isinstance(details, dict) else {}
    read, written = usage_count(known, "cached_tokens"), usage_count(known, "cache_write_tokens")
    return Usage(
        max(usage_count(data, "input_tokens") - read - written, 0),
        usage_count(data, "output_tokens"),
        read,
        written,
        usage_count(data, "total_tokens"),
    )


def usage_count(usage: Mapping[str, JSON], name: str) -> int:
    """Return a count of the SDK's usage; 0 if there is none."""
    value = usage.get(name)
    return value if isinstance(value, int) else 0
