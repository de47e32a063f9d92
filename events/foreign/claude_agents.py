"""The transcripts of Claude Code's sub-agents: where they are, and which call started each.

Since 2.1 they stand in `<session>/subagents/agent-<id>.jsonl` beside the transcript, before that in `agent-<id>.jsonl` next
to it, and at first among its own lines. A file `agent-<id>.meta.json` may say more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct, field

from ..entries import EPOCH
from .claude_entries import time_of
from .claude_lines import outline_of
from .claude_scan import STARTS_AGENT, Scan
from .claude_tree import Answer, Conversation, Step

PREFIX = "agent-"
"""How the names of their files begin."""


class Meta(Struct, gc=False):
    """What stands beside a sub-agent's transcript."""

    agent_type: str | None = field(name="agentType", default=None)
    description: str | None = None
    call: str | None = field(name="toolUseId", default=None)


def meta_of(path: Path) -> Meta:
    """Read what stands beside a transcript; nothing where it is not there, or is damaged, for it only helps."""
    try:
        return msgspec.json.decode(path.with_suffix(".meta.json").read_bytes(), type=Meta)
    except (OSError, ValueError, RecursionError):
        return Meta()


class AgentFiles:
    """The transcripts of sub-agents that stand next to the transcripts of a folder, each looked into once.

    Args:
        folder: The folder.

    Attributes:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sessions: dict[Path, str | None] = {}

    def of(self, scan: Scan, sessions: set[str]) -> Iterator[Path]:
        """Yield the transcripts of the sub-agents of a transcript, those in its own folder first.

        Args:
            scan: The transcript.
            sessions: The sessions that its lines name.
        """
        yield from sorted((scan.path.with_suffix("") / "subagents").rglob(f"{PREFIX}*.jsonl"))
        for path in self._paths:
            if path != scan.path and self._is_of(path, scan, sessions):
                yield path

    def _is_of(self, path: Path, scan: Scan, sessions: set[str]) -> bool:
        """Tell whether a sub-agent's transcript belongs to a transcript: its own word outranks the others'."""
        named = self._session_of(path)
        started = path.stem.removeprefix(PREFIX) in scan.agents
        if not named or named == path.stem:
            return started or len(self._transcripts) == 1
        return named in sessions or (started and named not in self._transcripts)

    @cached_property
    def _paths(self) -> list[Path]:
        return sorted(path for path in self.folder.glob(f"{PREFIX}*.jsonl") if path.is_file())

    @cached_property
    def _transcripts(self) -> set[str]:
        """The transcripts whose sub-agents these can be, by the names of their files, which are those of their sessions."""
        return {path.stem for path in self.folder.glob("*.jsonl") if not path.name.startswith(PREFIX)}

    def _session_of(self, path: Path) -> str | None:
        """Return the session that a transcript's first line names; None where it names none, or cannot be read."""
        if path not in self._sessions:
            try:
                with path.open("rb") as file:
                    outline = outline_of(file.readline())
            except OSError:  # on its own, it is told of
                outline = None
            self._sessions[path] = None if outline is None else outline.session
        return self._sessions[path]


class Callers:
    """The answers that start sub-agents.

    Args:
        scan: The transcript that they stand in.
        talks: Its conversations, without those of sub-agents.
    """

    def __init__(self, scan: Scan, talks: list[Conversation]) -> None:
        self._scan = scan
        self._talks = talks
        self._starts = [
            (time_of(step.nodes[0]) or EPOCH, talk, step)
            for talk in talks
            for step in talk.in_order()
            if isinstance(step, Answer) and not STARTS_AGENT.isdisjoint(step.calls.values())
        ]

    def of(self, talk: Conversation, meta: Meta) -> tuple[Conversation, Step] | None:
        """Find who started a sub-agent: by the call's id, by what it asks, or else the last who starts one before it."""
        call = meta.call or self._scan.agents.get(talk.agent)
        said = talk.first.said
        if call is None and said:
            call = next((each for each, prompt in self._scan.prompts.items() if prompt.startswith(said)), None)
        for parent in self._talks:
            if call is not None and call in parent.callers:
                return parent, parent.callers[call]
        began = time_of(talk.first) or EPOCH
        before = [(parent, step) for time, parent, step in self._starts if time <= began]
        return before[-1] if before else None
