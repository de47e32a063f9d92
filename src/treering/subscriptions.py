"""Following a session: its entries as they come, or a view and its changes.

`Session.subscribe` begins at a cursor, reads the log up to its end and goes on live, without a gap or a duplicate. If
the file was replaced or shortened from outside, it yields a `Reset`. Of a view, it yields a `Snapshot`, and then a
`Changed` for each change; after too many missed ones, another `Snapshot`. `SessionHost.subscribe_sessions` follows the
listing::

    from treering import Reset

    async with session.subscribe(after=3) as entries:
        async for entry in entries:
            what = "begin anew" if isinstance(entry, Reset) else entry.type
"""

from .actors.agents.events import RequestSubscription, SentContext
from .actors.host.listing import ListPosition, SessionChanged, SessionsSubscription
from .events.stores.base import Cursor
from .projections.context_changes import ContextChange
from .projections.feed_events import LeafMove, Reset, TextPiece, Transient
from .projections.labels import LabelChange
from .projections.subscriptions import EntrySubscription, EventSubscription, TransientSubscription, ViewSubscription
from .projections.tree import LabelChanged, LeafChanged, NodeAdded, TreeChange, TreeReplica
from .projections.views import Changed, Snapshot

__all__ = [
    "Changed",
    "ContextChange",
    "Cursor",
    "EntrySubscription",
    "EventSubscription",
    "LabelChange",
    "LabelChanged",
    "LeafChanged",
    "LeafMove",
    "ListPosition",
    "NodeAdded",
    "RequestSubscription",
    "Reset",
    "SentContext",
    "SessionChanged",
    "SessionsSubscription",
    "Snapshot",
    "TextPiece",
    "Transient",
    "TransientSubscription",
    "TreeChange",
    "TreeReplica",
    "ViewSubscription",
]
