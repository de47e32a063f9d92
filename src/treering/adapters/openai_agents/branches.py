"""The named branches of a session of the Agents SDK, which its entries tell.

    {"type":"custom","custom":{"custom_type":"openai_agents.branch","data":{"branch":"other"}},...}

What comes below such a mark is of that branch, up to the next mark; what has no mark above it is of "main". A branch
goes on at its last entry, so a mark takes back what was said, too. The entries above a mark are shared: a branch costs
one line, however long the conversation is.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from ...actors.session.session import Session
from ...events.entries import CustomEntry, Entry, MessageEntry, UsageEntry
from ...events.json_values import JSON
from ...events.providers.responses import Item, items_of
from ...formats.openai_agents.records import MAIN, MARK, RUN
from ..session_index import SessionIndex


class Node(Struct, frozen=True, gc=False):
    """What is known of an entry.

    Attributes:
        id: Its id.
        parent: The entry above it.
        branch: The branch that it is of.
        era: How often the session had been cleared.
        at: When it was appended.
        items: The type and the tool of each of its items.
    """

    id: str
    parent: str | None
    branch: str
    era: int
    at: datetime
    items: tuple[tuple[str, str | None], ...] = ()

    @property
    def is_prompt(self) -> bool:
        """Whether a user's turn begins here."""
        return any(kind == "user" for kind, _ in self.items)


class Branches(SessionIndex):
    """The branches of one session.

    Attributes:
        era: How often the session was cleared; each time all branches end.
        names: All names that were ever used.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.era = 0
        self.names = {MAIN}
        self._nodes: dict[str, Node] = {}
        self._last: dict[str, str] = {}  # of this era, by branch
        self._begun: dict[str, datetime] = {}
        self._runs: list[tuple[str, str, dict[str, JSON]]] = []  # branch, where its turn begins, usage

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the branches that hold an item, the oldest first."""
        return filter(self.count, sorted(self._begun, key=self._begun.__getitem__))

    def __contains__(self, branch: object) -> bool:
        return branch == MAIN or (isinstance(branch, str) and self.count(branch) > 0)

    def has_begun(self, branch: str) -> bool:
        """Return whether a branch was begun, and neither deleted nor cleared since."""
        return branch == MAIN or branch in self._begun

    def count(self, branch: str) -> int:
        """Return how many items a branch holds."""
        return sum(len(node.items) for node in self.path(branch))

    def begun(self, branch: str) -> datetime:
        """Return when a branch began."""
        return self._begun[branch]

    def tip(self, branch: str) -> str | None:
        """Return the entry at which a branch goes on: the leaf if it is on it, or else its last entry."""
        leaf = self.session.leaf_id
        node = self._nodes.get(leaf) if leaf is not None else None
        if node is not None and (node.branch, node.era) == (branch, self.era):
            return node.id
        if leaf is None and branch == MAIN:  # cleared by something that knows no branches
            return None
        return self._last.get(branch)

    def path(self, branch: str) -> list[Node]:
        """Return the entries of a branch, from its root on."""
        found: list[Node] = []
        at = self.tip(branch)
        seen = set[str]()
        while at is not None and at not in seen and (node := self._nodes.get(at)) is not None:
            seen.add(at)
            found.append(node)
            at = node.parent
        found.reverse()
        return found

    def turns(self, branch: str) -> list[tuple[int, Node]]:
        """Return the entries of a branch with the numbers of their turns; 0 is before the first prompt."""
        turn = 0
        found: list[tuple[int, Node]] = []
        for node in self.path(branch):
            turn += node.is_prompt
            found.append((turn, node))
        return found

    def runs(self, branch: str) -> dict[int, dict[str, JSON]]:
        """Return the usage that was stored on a branch, by turn."""
        turns = {anchor: turn for turn, anchor in self.anchors(branch).items()}
        found = {turns[anchor]: usage for of, anchor, usage in self._runs if of == branch and anchor in turns}
        return dict(sorted(found.items()))

    def anchors(self, branch: str) -> dict[int, str]:
        """Return the entries at which the turns of a branch begin."""
        found: dict[int, str] = {}
        for turn, node in self.turns(branch):
            if node.items:
                found.setdefault(turn, node.id)
        return found

    def _see(self, entry: Entry) -> None:
        if entry.id is None or entry.aside:
            return
        mark = _mark(entry)
        above = self._nodes.get(entry.parent_id or "")
        branch, era = (MAIN, self.era) if above is None else (above.branch, above.era)
        if mark is not None:
            branch, era = str(mark.get("branch")), self.era
            self.names.add(branch)
            deleted = mark.get("deleted")
            if isinstance(deleted, str):
                self._last.pop(deleted, None)
                self._begun.pop(deleted, None)
            if mark.get("cleared") is True:
                self.era = era = self.era + 1
                self._last.clear()
                self._begun.clear()
                self._runs.clear()
        items = tuple(map(kind_of, items_of(entry.message))) if isinstance(entry, MessageEntry) else ()
        self._nodes[entry.id] = Node(entry.id, entry.parent_id, branch, era, entry.timestamp, items)
        if era != self.era:
            return
        self._last[branch] = entry.id
        self._begun.setdefault(branch, entry.timestamp)
        if isinstance(entry, UsageEntry) and entry.usage.kind == RUN:
            data = entry.usage.metadata
            self._runs.append((branch, str(data.pop("turn", "")), data))


def _mark(entry: Entry) -> dict[str, JSON] | None:
    if isinstance(entry, CustomEntry) and entry.custom.custom_type == MARK:
        data = entry.custom.data
        return data if isinstance(data, dict) and isinstance(data.get("branch"), str) else None
    return None


_NAMED_BY_TYPE = frozenset(
    ("computer_call", "file_search_call", "web_search_call", "code_interpreter_call", "shell_call", "apply_patch_call")
)
_OF_SERVERS = frozenset({"mcp_call", "mcp_approval_request"})
_SEARCHES = frozenset({"tool_search_call", "tool_search_output"})


def kind_of(item: Item) -> tuple[str, str | None]:
    """Return what an item is, in the words of the SDK's AdvancedSQLiteSession, and the tool that it names."""
    role, kind = item.get("role"), item.get("type")
    return str(role) if role in ("user", "assistant") else str(kind or "other"), _tool_of(item)


def _tool_of(item: Item) -> str | None:
    kind, name = item.get("type"), item.get("name")
    if kind in _OF_SERVERS and "server_label" in item:
        return ".".join(str(each) for each in (item["server_label"], name) if each) or None
    if kind in _SEARCHES:
        return "tool_search"
    if kind in _NAMED_BY_TYPE:
        return str(kind)
    if name is None:
        return None
    space = item.get("namespace")
    return str(name) if not space or space == name else f"{space}.{name}"
