"""The errors that a JSON decoder raises for bad input: three types without a common base."""

from __future__ import annotations

from msgspec import MsgspecError

UNDECODABLE = (MsgspecError, UnicodeDecodeError, RecursionError)
"""Not JSON, or of another shape; a key or a string that is not UTF-8; nested too deeply."""
