"""What a JSON decoder raises when bytes are not what was wanted: three kinds of errors that have nothing in common."""

from __future__ import annotations

from msgspec import MsgspecError

UNDECODABLE = (MsgspecError, UnicodeDecodeError, RecursionError)
"""No JSON, or of another shape; a key or a string that is no UTF-8; nested too deeply."""
