"""The read side: folds over entries, their views, and the changes by which a view is followed.

Folds and the values built from them are pure: they name the seqs that they need, and the caller supplies the entries.
Subscriptions and shared views are async, and read through a `Source`. Nothing here opens a log.
"""

from .base import Projection, Valued
from .state import WorkProjection, WorkState
from .tree import Tree, TreeNode
from .usage import ModelUsage, UsageProjection, UsageTotals

__all__ = [
    "ModelUsage",
    "Projection",
    "Tree",
    "TreeNode",
    "UsageProjection",
    "UsageTotals",
    "Valued",
    "WorkProjection",
    "WorkState",
]
