"""Qwen Code: what it writes itself into messages of the user."""

from __future__ import annotations

from ...events.content import TextPart
from ...events.entries import Message
from ..messages import Preambles, marks_of, opened, tagged
from ..values import Object

_TAGS = ("system-reminder", "qwen:user-prompt-submit-context", "task-notification")
_PREAMBLES = Preambles(
    tagged(*_TAGS), rf"{opened(*_TAGS)}|This is the Qwen Code\.\s+We are setting up the context for our chat"
)
_FILES_BEGIN = "--- Content from referenced files ---"
_FILES_END = "--- End of content ---"


def marks_of_user(message: Message) -> Object:
    """Return the metadata that tells what of a user's message the program wrote; see `marks_of`.

    The contents of files that the user named stand in parts of their own between two lines.
    """
    in_files: set[int] = set()
    is_open = False
    for at, part in enumerate(message.content):
        words = part.text.content.strip() if isinstance(part, TextPart) else ""
        is_open = is_open or (at > 0 and words == _FILES_BEGIN)
        if is_open:
            in_files.add(at)
        is_open = is_open and words != _FILES_END

    def length(at: int, part: TextPart) -> int:
        return len(part.text.content) if at in in_files else _PREAMBLES.length(part.text.content)

    return marks_of(message.content, length)
