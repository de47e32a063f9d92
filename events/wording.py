"""How many there are of something, in words: what messages for people say in one way everywhere."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Say how many there are of something."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def entries_counted(count: int) -> str:
    """Say how many entries there are."""
    return "1 entry" if count == 1 else f"{count:,} entries"
