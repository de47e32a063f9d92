"""The table of all routes of the interface."""

from __future__ import annotations

from ..routing import RouteTable
from . import (
    ag_ui,
    contexts,
    conversations,
    entries,
    finding,
    gathering,
    list_streams,
    mcp,
    operations,
    outlines,
    sessions,
    states,
    streams,
    transfer,
    tree,
    usage,
    viewer,
)

ROUTES = RouteTable(
    [
        *operations.routes.all,
        *sessions.routes.all,
        *states.routes.all,
        *entries.routes.all,
        *outlines.routes.all,
        *tree.routes.all,
        *contexts.routes.all,
        *finding.routes.all,
        *usage.routes.all,
        *transfer.routes.all,
        *streams.routes.all,
        *list_streams.routes.all,
        *gathering.routes.all,
        *conversations.routes.all,
        *mcp.routes.all,
        *ag_ui.routes.all,
        *viewer.routes.all,
    ]
)
"""All routes, in the order in which the description lists them."""
