"""What becomes of a command for a session that another host owns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from ...events.arguments import check_word
from ...events.errors import InvalidInput
from ...events.stores.base import Store
from ...events.stores.inbox import Inbox
from .core import HostCore

if TYPE_CHECKING:
    from .elsewhere import Elsewhere

Placement: TypeAlias = Literal["local", "inbox"]
"""Refuse it, with `SessionLocked`; or send it to that host through the store, and return its reply."""


def checked_placement(placement: Placement, store: Store) -> Placement:
    """Return a placement, refusing one that there is not, or that a store does not serve.

    Raises:
        InvalidInput: It is none, or the store has no inbox.
    """
    check_word("placement", placement, get_args(Placement))
    if placement == "inbox" and store.capability(Inbox) is None:
        raise InvalidInput(
            f"a `{type(store).__name__}` has no inbox for the commands of other hosts: leave out `placement`, or give "
            f"the address of a store that has one, such as 'postgresql://host/database'"
        )
    return placement


def place(core: HostCore, placement: Placement) -> Elsewhere | None:
    """Let a host send commands to other hosts, and return what does that; None if it shall not."""
    runtime = core.runtime
    inbox = runtime.store.capability(Inbox) if placement == "inbox" else None
    if inbox is None:
        return None
    from .elsewhere import Elsewhere  # deferred to keep the import of the package small

    core.registry.sends = True
    core.elsewhere = Elsewhere(runtime, core.registry, inbox, runtime.leases)
    return core.elsewhere
