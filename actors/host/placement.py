"""What becomes of a command for a session that another host owns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from ...events.arguments import check_word
from ...events.errors import InvalidInput
from ...events.stores.base import Store
from ...events.stores.hosts import Hosts, Inbox
from .core import HostCore

if TYPE_CHECKING:
    from .elsewhere import Elsewhere

Placement: TypeAlias = Literal["local", "inbox", "forward"]
"""Refuse it, with `SessionLocked`; or send it to that host through the store, and return its reply; or refuse it at
once, for a server that forwards the whole request to the address that the error tells."""

_NEEDED = {"inbox": (Inbox, "no inbox for the commands of other hosts"), "forward": (Hosts, "no other hosts")}


def checked_placement(placement: Placement, store: Store) -> Placement:
    """Return a placement, refusing one that there is not, or that a store does not serve.

    Raises:
        InvalidInput: It is none, or the store lacks what it takes.
    """
    check_word("placement", placement, get_args(Placement))
    capability, lacks = _NEEDED.get(placement, (None, ""))
    if capability is not None and store.capability(capability) is None:
        raise InvalidInput(
            f"a `{type(store).__name__}` has {lacks}: leave out `placement`, or give the address of a store that hosts "
            f"can share, such as 'postgresql://host/database'"
        )
    return placement


def place(core: HostCore, placement: Placement, address: str | None) -> Elsewhere | None:
    """Make a host one of several, if it shall be, and return what sends commands to the others, if it shall."""
    runtime, registry = core.runtime, core.registry
    if placement == "local":
        return None
    hosts, inbox = runtime.store.capability(Hosts), runtime.store.capability(Inbox)
    registry.sends, registry.forwards = True, placement == "forward"
    if hosts is not None:
        hosts.announce(address)
        registry.hosts = hosts
    if placement == "inbox" and inbox is not None:
        from .elsewhere import Elsewhere  # deferred to keep the import of the package small

        core.elsewhere = Elsewhere(runtime, registry, inbox, runtime.leases)
    return core.elsewhere
