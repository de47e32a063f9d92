"""The reader of a transcript that may grow: lines are added as they come, and cost the same however many there are.

An import adds all lines of a file, and an adapter each batch that a program sends.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .scan import Scan
from .steps import Conversation, Step
from .tree import Tree


class Reader:
    """The lines of a transcript so far, and the tree that they make.

    Args:
        path: The file, which findings name.

    Attributes:
        scan: The lines.
        tree: The tree.
        lines_placed: How many lines were placed in the tree so far, those that were placed again included.
    """

    def __init__(self, path: Path) -> None:
        self.scan = Scan(path)
        self.tree = Tree(self.scan)
        self.lines_placed = 0

    def add(self, lines: Iterable[bytes]) -> None:
        """Take the next lines, each with its newline if it has one."""
        placed = len(self.scan.nodes)
        for line in lines:
            self.scan.feed(line)
        if not self.tree.extend():  # seldom: a line that came late says where an earlier one belongs
            self.tree = Tree(self.scan)
            self.tree.extend()
            placed = 0
        self.lines_placed += len(self.scan.nodes) - placed

    @property
    def conversation(self) -> Conversation | None:
        """The conversation that the transcript is about: the user's own, or else that of a sub-agent."""
        own = (each for each in self.tree.conversations if not each.agent)
        return next(own, None) or next(self.tree.conversations, None)

    def changed(self) -> list[Step]:
        """Return the steps of this conversation that got lines since this was called; see `Conversation.changed`."""
        conversation = self.conversation
        return [] if conversation is None else conversation.changed()

    @property
    def title(self) -> str | None:
        """The title of this conversation: the last one of the user, or what Claude Code calls it."""
        conversation = self.conversation
        if conversation is None:
            return None
        own = None if conversation.agent else self.scan.title_of(conversation.session)
        return own or self.scan.meta.title or self.tree.automatic_title(conversation)
