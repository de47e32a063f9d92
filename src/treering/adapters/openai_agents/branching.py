"""A session of the Agents SDK that branches, with the interface of the SDK's AdvancedSQLiteSession."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio

from ...actors.commands import AppendOptions
from ...actors.host.host import SessionHost
from ...events.entries import MessageEntry, Payload
from ...events.errors import LeafMoved
from ...events.json_values import JSON
from ...events.providers.responses import items_of, message_of
from ...formats.openai_agents.records import MAIN, mark, usage_of, usage_record
from ..hosting import HostOrRoot, to_the_end
from ..session_index import SessionIndexes
from .branches import Branches, Node
from .session import TreeringSession, edits_of_others, latest
from .turns import PREVIEW_CHARS_MAX, by_turns, sum_of, texts_of, tool_usage, turn_row, usage_data, when

if TYPE_CHECKING:
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.result import RunResult

T = TypeVar("T")


class TreeringAdvancedSession(TreeringSession):
    """A conversation of the Agents SDK with named branches, and with the usage of its turns.

    A branch begins at a user's turn and costs one entry: what came before is shared, not copied. Each object is on one
    branch, at first on "main", and what it adds goes there; the session's leaf goes along. The branches are those of
    the session's tree: programs that use the host directly, the viewer and exports show them all.

    The calls are those of the SDK's AdvancedSQLiteSession, where a branch is listed, chosen and deleted as soon as it
    holds an item. Other than there, `store_run_usage` raises what goes wrong, and what is taken back, cleared or
    deleted stays readable in the tree.

    Args:
        session_id: Any name of up to 1 KiB, such as "user:42".
        host: An open host, or a root: a directory or a URL. Objects with the same root share one host.
        session_settings: The SDK's; see `TreeringSession`.

    Raises:
        InvalidInput: The host is none. An id that is no key is refused at first use, as `InvalidSessionId`.
    """

    def __init__(
        self, session_id: str, host: HostOrRoot, *, session_settings: SessionSettings | dict[str, Any] | None = None
    ) -> None:
        super().__init__(session_id, host, session_settings=session_settings)
        self._indexes = SessionIndexes(Branches)
        self._order = anyio.Lock(fast_acquire=True)
        self._current = MAIN, 0  # the branch, and how often the session had been cleared

    @property
    def current_branch_id(self) -> str:
        """The branch that this object is on."""
        return self._current[0]

    # -- items

    async def get_items(self, limit: int | None = None, branch_id: str | None = None) -> list[TResponseInputItem]:
        """Return the items that the context of a branch shows, oldest first.

        Args:
            limit: Return only so many of the last ones; None for what the session's settings say.
            branch_id: The branch, by default the one that this object is on; one that there is not has no items.

        Raises:
            TreeringError: The session cannot be read; see `SessionHost.get_or_create`.
        """
        most = self._most(limit)

        async def read(branches: Branches, branch: str) -> list[TResponseInputItem]:
            tip = branches.tip(branch)
            return [] if tip is None else latest((await branches.session.context(tip)).messages, most)

        return await self._reading(read, branch_id)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items to the branch that this object is on, all of them or none.

        Raises:
            InvalidEntry: An item is no JSON object; nothing was written.
            ValueError: The branch was deleted meanwhile.
            TreeringError: The write failed; see `Session.append`.
        """
        messages = [message_of(cast("dict[str, object]", item)) for item in items]  # the SDK types them by kind

        async def add(branches: Branches, branch: str) -> None:
            if messages:
                await _append(branches, messages, branches.tip(branch))

        await self._writing(add)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take back the last item of the branch and return it, or None if there is none.

        Raises:
            ValueError: The branch was deleted meanwhile.
            TreeringError: The session cannot be read or written.
        """

        async def pop(branches: Branches, branch: str) -> TResponseInputItem | None:
            tip, session = branches.tip(branch), branches.session
            shown = () if tip is None else (await session.context(tip)).messages
            if not shown:
                return None
            *kept, item = items_of(shown[-1].message)
            entry = await session.entry(shown[-1].entry_id)
            above = None if entry is None else entry.parent_id
            edits = await edits_of_others(session, shown[-1].entry_id, tip)
            await _append(branches, [mark(branch), *map(message_of, kept), *edits], above)
            return cast("TResponseInputItem", item)

        return await self._writing(pop)

    async def clear_session(self) -> None:
        """Begin anew on "main" with no items. All branches end, and their names cannot be used again.

        Raises:
            TreeringError: The write failed; see `Session.append`.
        """

        async def clear(branches: Branches, _: str) -> None:
            await _append(branches, [mark(MAIN, cleared=True)], None)
            await branches.refresh()
            self._current = MAIN, branches.era

        await self._writing(clear, MAIN)

    # -- branches

    async def create_branch_from_turn(self, turn_number: int, branch_name: str | None = None) -> str:
        """Begin a branch before a user's turn, go there, and return its name.

        Args:
            turn_number: The turn of the branch that this object is on, counted from 1.
            branch_name: A name that no branch of the session ever had; None for one that is made up.

        Raises:
            ValueError: There is no such turn, or the name is blank or was used before.
            TreeringError: The write failed; see `Session.append`.
        """
        if branch_name is not None and not branch_name.strip():
            raise ValueError("Branch name cannot be empty")

        async def create(branches: Branches, branch: str) -> str:
            prompt = next((node for turn, node in branches.turns(branch) if turn == turn_number), None)
            if prompt is None or not prompt.is_prompt:
                raise ValueError(f"Turn {turn_number} does not contain a user message in branch {branch!r}")
            if branch_name in branches.names:
                raise ValueError(f"Branch ID {branch_name!r} has already been used. Choose a new branch ID.")
            name = branch_name or _fresh_name(f"branch_from_turn_{turn_number}_{int(time.time())}", branches)
            await _append(branches, [mark(name)], prompt.parent)
            self._current = name, branches.era
            return name

        return await self._writing(create)

    async def create_branch_from_content(self, search_term: str, branch_name: str | None = None) -> str:
        """Begin a branch before the first turn of the user that holds a text; see `create_branch_from_turn`.

        Raises:
            ValueError: There is no such turn, or the name is blank or was used before.
        """
        found = await self.find_turns_by_content(search_term)
        if not found:
            raise ValueError(f"No user turns found containing {search_term!r}")
        return await self.create_branch_from_turn(found[0]["turn"], branch_name)

    async def switch_to_branch(self, branch_id: str) -> None:
        """Go to a branch: from now on this object reads it and adds to it, and the session's leaf is its end.

        Raises:
            ValueError: There is no such branch.
            TreeringError: The move could not be recorded.
        """

        async def switch(branches: Branches, branch: str) -> None:
            _check(branches, branch)
            tip = branches.tip(branch)
            if tip is not None and tip != branches.session.leaf_id:
                await branches.session.branch(tip)
            self._current = branch, branches.era

        await to_the_end(self._with_branches(switch, branch_id))

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:
        """End a branch, whose name cannot be used again; what was said on it stays readable in the tree.

        Args:
            branch_id: The branch; not "main".
            force: Whether to leave the branch for "main" if this object is on it.

        Raises:
            ValueError: There is no such branch, it is "main", or this object is on it.
            TreeringError: The write failed; see `Session.append`.
        """
        if not branch_id or not branch_id.strip():
            raise ValueError("Branch ID cannot be empty")
        if branch_id == MAIN:
            raise ValueError("Cannot delete the 'main' branch")

        async def delete(branches: Branches, current: str) -> None:
            if branch_id == current and not force:
                raise ValueError(f"Cannot delete current branch {branch_id!r}. Use force=True or switch branches first")
            _check(branches, branch_id)
            stays = MAIN if current == branch_id else current
            await _append(branches, [mark(stays, deleted=branch_id)], branches.tip(stays))
            self._current = stays, branches.era

        await self._writing(delete)

    async def list_branches(self) -> list[dict[str, Any]]:
        """Return all branches, the oldest first.

        Returns:
            For each its `branch_id`, `message_count`, `user_turns`, `is_current` and `created_at`.
        """

        async def read(branches: Branches, current: str) -> list[dict[str, Any]]:
            return [
                {
                    "branch_id": name,
                    "message_count": branches.count(name),
                    "user_turns": sum(node.is_prompt for node in branches.path(name)),
                    "is_current": name == current,
                    "created_at": when(branches.begun(name)),
                }
                for name in branches
            ]

        return await self._reading(read)

    # -- turns

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """Return the user's turns of a branch.

        Returns:
            For each its `turn`, the beginning of its `content`, its `full_content`, its `timestamp`, and `can_branch`.
        """
        return [turn_row(*each, PREVIEW_CHARS_MAX) for each in await self._prompts(branch_id)]

    async def find_turns_by_content(self, search_term: str, branch_id: str | None = None) -> list[dict[str, Any]]:
        """Return the user's turns of a branch that hold a text, whatever the case of its ASCII letters."""
        wanted = re.compile(re.escape(search_term), re.IGNORECASE | re.ASCII)
        found = await self._prompts(branch_id)
        return [turn_row(*each, None) for each in found if any(map(wanted.search, texts_of(each[2])))]

    async def get_conversation_by_turns(self, branch_id: str | None = None) -> dict[int, list[dict[str, str | None]]]:
        """Return the `type` and the `tool_name` of each item of a branch, by turn; 0 is before the first one."""

        async def read(branches: Branches, branch: str) -> dict[int, list[dict[str, str | None]]]:
            return by_turns(branches, branch)

        return await self._reading(read, branch_id)

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str, int, int]]:
        """Return which tool was called how often in which turn of a branch.

        A search for tools counts by its call, or by its result where the call is not there.
        """
        return tool_usage(await self.get_conversation_by_turns(branch_id))

    # -- usage

    async def store_run_usage(self, result: RunResult) -> None:
        """Store what a run used with the last turn of the branch; what was stored with that turn before is replaced.

        Raises:
            ValueError: The branch was deleted meanwhile.
            TreeringError: The write failed; see `Session.append`.
        """
        data = usage_data(result.context_wrapper.usage)

        async def store(branches: Branches, branch: str) -> None:
            anchors = branches.anchors(branch)
            if not anchors:
                return
            turn = max(anchors)
            before = branches.runs(branch).get(turn)
            record = usage_record(anchors[turn], data, None if before is None else usage_of(before))
            await _append(branches, [record], branches.tip(branch))

        await self._writing(store)

    async def get_session_usage(self, branch_id: str | None = None) -> dict[str, int] | None:
        """Return what the turns of a branch, or of all branches, used together; None if nothing was stored."""

        async def read(branches: Branches, _: str) -> dict[str, int] | None:
            names = [branch_id] if branch_id else list(branches)
            runs = [usage for name in names for usage in branches.runs(name).values()]
            return sum_of(runs) if runs else None

        return await self._reading(read)

    async def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """Return what one turn of a branch used, {} if nothing was stored; or all turns, each with its number."""

        async def read(branches: Branches, branch: str) -> list[dict[str, Any]] | dict[str, Any]:
            runs = branches.runs(branch)
            if user_turn_number is not None:
                return runs.get(user_turn_number, {})
            return [{"user_turn_number": turn, **usage} for turn, usage in runs.items()]

        return await self._reading(read, branch_id)

    # -- on the host's loop

    async def _prompts(self, branch_id: str | None) -> list[tuple[int, Node, JSON]]:
        """Return the user's items of a branch, with the numbers of their turns."""

        async def read(branches: Branches, branch: str) -> list[tuple[int, Node, JSON]]:
            found: list[tuple[int, Node, JSON]] = []
            for turn, node in branches.turns(branch):
                entry = await branches.session.entry(node.id) if node.is_prompt else None
                if isinstance(entry, MessageEntry):
                    (item, *_) = items_of(entry.message)
                    found.append((turn, node, item.get("content", "")))
            return found

        return await self._reading(read, branch_id)

    async def _reading(self, work: Callable[[Branches, str], Awaitable[T]], branch_id: str | None = None) -> T:
        """Read a branch, by default the one that this object is on when it is its turn."""

        async def read(branches: Branches, _: str) -> T:
            return await work(branches, self.current_branch_id if branch_id is None else branch_id)

        return await self._with_branches(read, self.current_branch_id)

    def _writing(
        self, work: Callable[[Branches, str], Awaitable[T]], branch_id: str | None = None
    ) -> Coroutine[Any, Any, T]:
        """Write to the branch that this object is on now, once more if somebody else wrote meanwhile; in order."""
        branch, era = self._current

        async def write(branches: Branches, _: str) -> T:
            while True:
                to = branch_id or (branch if branches.era == era else MAIN)
                if not branches.has_begun(to):
                    raise ValueError(f"Branch {to!r} does not exist")
                try:
                    return await work(branches, to)
                except LeafMoved:
                    await branches.refresh()

        return to_the_end(self._with_branches(write, branch))

    async def _with_branches(self, work: Callable[[Branches, str], Awaitable[T]], branch: str) -> T:
        async def run(host: SessionHost) -> T:
            async with self._order:
                branches = await self._indexes.made(host, self.session_id)
                if self._current[1] != branches.era:  # cleared through another object
                    self._current = MAIN, branches.era
                return await work(branches, branch)

        return await self._hosting.run(run)


async def _append(branches: Branches, payloads: Sequence[Payload], below: str | None) -> None:
    """Append to a place that was chosen by what is known of the session.

    Raises:
        LeafMoved: Something was appended meanwhile that is not known yet.
    """
    options: AppendOptions = {"below": below, "expected_seq": branches.read_to}
    await branches.session.append_many(payloads, **options)


def _check(branches: Branches, branch: str) -> None:
    if branch not in branches:
        raise ValueError(f"Branch {branch!r} does not exist")


def _fresh_name(stem: str, branches: Branches) -> str:
    number = 1
    while (name := stem if number == 1 else f"{stem}_{number}") in branches.names:
        number += 1
    return name
