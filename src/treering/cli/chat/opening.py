"""Which session a chat begins in: a new one, the latest of the project, or one that is named or chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from ...events.content import ThinkingPart, plain_text
from ...events.previews import preview
from ...events.wording import counted
from ...projections.context import Context
from ..home import Home
from ..output import clean, run
from ..picking import Picked
from ..table import table_of
from ..telling import part_text
from .reader import PROMPT

_SHOWN_MAX = 20
_SHOWN_CHARS = 2000


class Opening(Struct, frozen=True):
    """How a chat begins.

    Attributes:
        how: In a new session, in the latest of the project, or in one that is named.
        session: The id, the beginning of one, the name or the path of the session that is named.
    """

    how: Literal["new", "latest", "named"] = "new"
    session: str = ""


def choose(home: Home) -> Picked:
    """Let a person choose a session on the whole screen; in the main thread, which gets the terminal's signals."""
    return run(_choose, home)


async def _choose(home: Home) -> Picked:
    from ..picker import pick

    async with home.opened() as host:
        return await pick(host, project=home.project)


def listed(home: Home) -> list[str]:
    """Return a line for each session of the project, for a person who has no terminal to choose on."""
    return run(_listed, home)


async def _listed(home: Home) -> list[str]:
    async with home.opened() as host:
        rows = await host.list_sessions(project=home.project)
        among = await host.list_sessions(status="any")
        current = await host.current_session(home.project)
    return list(table_of(rows, among=among, places=False, current=None if current is None else current.ref))


def earlier(context: Context) -> Iterator[str]:
    """Tell the latest part of a conversation, as it looked when it was held."""
    messages = context.messages
    if len(messages) > _SHOWN_MAX:
        yield f"({counted(len(messages) - _SHOWN_MAX, 'earlier message')}: /tree tells of them)"
    for each in messages[-_SHOWN_MAX:]:
        if each.role == "user":
            told = PROMPT + plain_text(each.content)
        elif each.role == "assistant":
            told = "\n".join(part_text(part) for part in each.content if not isinstance(part, ThinkingPart))
        else:
            told = f"({each.role}) {preview(' '.join(map(part_text, each.content)))}"
        yield clean(told if len(told) <= _SHOWN_CHARS else told[: _SHOWN_CHARS - 1] + "…")
        if each.role == "assistant":
            yield ""
