"""The transcripts of Claude Code's sub-agents: where they are, and which call started each.

Since version 2.1 they are files `<session>/subagents/agent-<id>.jsonl` beside the transcript. Earlier versions wrote
`agent-<id>.jsonl` next to the transcript, and the first ones wrote the lines of sub-agents into the transcript itself.
A file `agent-<id>.meta.json` may hold more information.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path

from ...events.entries import EPOCH
from .entries import time_of
from .lines import Meta, meta_in, outline_of
from .scan import STARTS_AGENT, Scan
from .steps import Answer, Conversation, Step

PREFIX = "agent-"
"""The prefix of their file names."""


def meta_of(scan: Scan) -> Meta:
    """Return what the file beside a transcript says, or else a line in it; nothing if there is neither."""
    try:
        return meta_in(scan.path.with_suffix(".meta.json").read_bytes())
    except OSError:
        return scan.meta


class AgentFiles:
    """The sub-agent transcripts that lie next to the transcripts of a folder, each of which is opened once.

    Args:
        folder: The folder.

    Attributes:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sessions: dict[Path, str | None] = {}

    def of(self, scan: Scan, sessions: set[str]) -> Iterator[Path]:
        """Yield the paths of a transcript's sub-agent transcripts, those in its own subfolder first.

        Args:
            scan: The transcript.
            sessions: The sessions that its lines name.
        """
        yield from sorted((scan.path.with_suffix("") / "subagents").rglob(f"{PREFIX}*.jsonl"))
        for path in self._paths:
            if path != scan.path and self._is_of(path, scan, sessions):
                yield path

    def _is_of(self, path: Path, scan: Scan, sessions: set[str]) -> bool:
        """Return whether a sub-agent's transcript belongs to a transcript.

        The session that the sub-agent's own first line names outweighs what other transcripts say.
        """
        session = self._session_of(path)
        is_started_here = path.stem.removeprefix(PREFIX) in scan.agents
        if not session or session == path.stem:
            return is_started_here or len(self._transcripts) == 1
        return session in sessions or (is_started_here and session not in self._transcripts)

    @cached_property
    def _paths(self) -> list[Path]:
        return sorted(path for path in self.folder.glob(f"{PREFIX}*.jsonl") if path.is_file())

    @cached_property
    def _transcripts(self) -> set[str]:
        """The possible parent transcripts, by file stem, which is the session's id."""
        return {path.stem for path in self.folder.glob("*.jsonl") if not path.name.startswith(PREFIX)}

    def _session_of(self, path: Path) -> str | None:
        """Return the session that a transcript's first line names; None if it names none or cannot be read."""
        if path not in self._sessions:
            try:
                with path.open("rb") as file:
                    outline = outline_of(file.readline())
            except OSError:  # reported when the file is read on its own
                outline = None
            self._sessions[path] = None if outline is None else outline.session
        return self._sessions[path]


class Callers:
    """The answers in a transcript that start sub-agents.

    Args:
        scan: The transcript.
        conversations: Its conversations, without those of sub-agents.
    """

    def __init__(self, scan: Scan, conversations: Sequence[Conversation]) -> None:
        self._scan = scan
        self._conversations = conversations

    @cached_property
    def _starts(self) -> list[tuple[datetime, Conversation, Step]]:
        return [
            (time_of(step.nodes[0]) or EPOCH, conversation, step)
            for conversation in self._conversations
            for step in conversation.in_order()
            if isinstance(step, Answer) and not STARTS_AGENT.isdisjoint(step.calls.values())
        ]

    def of(self, conversation: Conversation, meta: Meta) -> tuple[Conversation, Step] | None:
        """Return the conversation and the answer that started a sub-agent, or None.

        They are found by the call's id, by the call's prompt, or else as the last answer that started any sub-agent
        before this one began.
        """
        call = meta.call or self._scan.agents.get(conversation.agent)
        prompt_start = conversation.first.prompt_start
        if call is None and prompt_start:
            call = next((each for each, prompt in self._scan.prompts.items() if prompt.startswith(prompt_start)), None)
        for parent in self._conversations:
            if call is not None and call in parent.callers:
                return parent, parent.callers[call]
        started = time_of(conversation.first) or EPOCH
        earlier_starts = [(parent, step) for time, parent, step in self._starts if time <= started]
        return earlier_starts[-1] if earlier_starts else None
