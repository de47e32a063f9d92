"""The read side: folds over entries, their views, and the changes by which a view is followed.

A projection is a fold: an initial value, and `apply(value, entry)`. `Session.view` computes its value, and
`Session.subscribe` follows it, if it also says what an entry changes::

    from treering.projections import UsageProjection

    usage = await session.view(UsageProjection())
    tokens = usage.total.total_tokens

Folds and the values built from them are pure: they name the seqs that they need, and the caller supplies the entries.
Subscriptions and shared views are async, and read through a `Source`. Nothing here opens a log.
"""

from .base import Projection, Valued
from .state import WorkProjection, WorkState
from .tree import Tree, TreeColumns, TreeNode
from .usage import ModelUsage, UsageProjection, UsageTotals

__all__ = [
    "ModelUsage",
    "Projection",
    "Tree",
    "TreeColumns",
    "TreeNode",
    "UsageProjection",
    "UsageTotals",
    "Valued",
    "WorkProjection",
    "WorkState",
]
