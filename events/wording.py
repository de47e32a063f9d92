"""Counts in words, so that all messages for people write them alike."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def entries_counted(count: int) -> str:
    """Return a count of entries in words."""
    return "1 entry" if count == 1 else f"{count:,} entries"
