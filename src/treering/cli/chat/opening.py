"""The session in which a chat begins: a new one, the latest of the project, or one that is named or chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from ...events.content import ThinkingPart, plain_text, shown_text
from ...events.texts import counted, preview
from ...projections.context import Context
from ..home import Home
from ..output import clean, run
from ..picking import Picked
from ..table import table_of
from .reader import PROMPT

_SHOWN_MAX = 20
_SHOWN_CHARS = 2000


class Opening(Struct, frozen=True):
    """How a chat begins.

    Attributes:
        how: A new session, the latest of the project, or a named one.
        session: The id, a unique prefix of it, the name or the path of the named session.
    """

    how: Literal["new", "latest", "named"] = "new"
    session: str = ""


def choose(home: Home) -> Picked:
    """Let a person choose a session with the picker; call it in the main thread, which gets the signals."""
    return run(_choose, home)


async def _choose(home: Home) -> Picked:
    from ..picker import pick

    async with home.opened() as host:
        return await pick(host, project=home.project)


def listed(home: Home) -> list[str]:
    """Return a line for each session of the project, when there is no terminal to choose on."""
    return run(_listed, home)


async def _listed(home: Home) -> list[str]:
    async with home.opened() as host:
        rows = await host.list_sessions(project=home.project)
        among = await host.list_sessions(status="any")
        current = await host.current_session(home.project)
    return list(table_of(rows, among=among, places=False, current=None if current is None else current.ref))


def recent_lines(context: Context) -> Iterator[str]:
    """Yield the latest part of a conversation, as the chat showed it."""
    messages = context.messages
    if len(messages) > _SHOWN_MAX:
        yield f"({counted(len(messages) - _SHOWN_MAX, 'earlier message')}: /tree shows all)"
    for each in messages[-_SHOWN_MAX:]:
        if each.role == "user":
            text = PROMPT + plain_text(each.content)
        elif each.role == "assistant":
            text = "\n".join(shown_text(part) for part in each.content if not isinstance(part, ThinkingPart))
        else:
            text = f"({each.role}) {preview(' '.join(map(shown_text, each.content)))}"
        yield clean(text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…")
        if each.role == "assistant":
            yield ""
