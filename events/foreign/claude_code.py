"""Claude Code's transcripts, as Claude Code 1.x and 2.x write them: `~/.claude/projects/<folder>/<session>.jsonl`.

A line each for a prompt, for each part of an answer, for the results of a call, and for much else::

    {"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"Hello"},...}
    {"type":"assistant","uuid":"a1","parentUuid":"u1","message":{"id":"m","content":[{"type":"thinking",...}]},...}
    {"type":"assistant","uuid":"a2","parentUuid":"a1","message":{"id":"m","content":[{"type":"tool_use",...}]},...}
    {"type":"progress","uuid":"p1","parentUuid":"a2","data":{...},...}
    {"type":"user","uuid":"u2","parentUuid":"a2","message":{"content":[{"type":"tool_result",...}]},"toolUseResult":...}

The file is looked through once for what hangs from what (`claude_scan`, `claude_tree`), and once more, line by line, for
what is said (`claude_entries`): a transcript of any size is read in little memory. Sub-agents become sessions of their own
(`claude_agents`), and so do the lines of another session that got into the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from ..entries import EPOCH, NATIVE_VERSION, Header
from ..errors import ForeignFormatError
from ..findings import Finding
from ..wording import counted
from .base import ForeignSession
from .claude_agents import PREFIX, AgentFiles, Callers, meta_of
from .claude_entries import Entries, time_of
from .claude_lines import Outline, outline_of
from .claude_scan import Scan
from .claude_tree import Conversation, Tree
from .several import unreadable

_LOOKED_AT = 50
_LONG = b'{"parentUuid":'  # a first line that goes on beyond what is looked at
_BOOKKEEPING = frozenset({"summary", "file-history-snapshot"})


class ClaudeCodeFormat:
    """Transcripts of Claude Code."""

    name = "claude-code"
    title = "Claude Code"

    def __init__(self) -> None:
        self._beside: AgentFiles | None = None  # of the folder that was read from last

    def recognizes(self, path: Path, head: bytes) -> bool:
        """Tell whether one of the first lines is a message of Claude Code's; see `Format.recognizes`."""
        if b"\n" not in head and head.startswith(_LONG):
            return True
        return any(_is_ours(outline) for line in head.splitlines()[:_LOOKED_AT] if (outline := outline_of(line)))

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a transcript, with those of its sub-agents; see `Format.read`."""
        if self._beside is None or self._beside.folder != path.parent:
            self._beside = AgentFiles(path.parent)
        yield from _Transcript(path, self._beside).sessions()


class _Transcript:
    """One file, with the files of its sub-agents.

    Args:
        path: The file.
        beside: The files of sub-agents that stand next to it.
    """

    def __init__(self, path: Path, beside: AgentFiles) -> None:
        self._scan, self._talks = _looked_through(path)
        self._own = [talk for talk in self._talks if not talk.agent]
        self._callers = Callers(self._scan, self._own)
        self._agents: list[tuple[Scan, list[Conversation]]] = []
        self._others: list[Path] = []
        self._named = {node.session for node in self._scan.nodes if not node.sidechain}
        self._named.update(talk.session for talk in self._own)
        for each in beside.of(self._scan, self._named) if self._own else ():
            self._others += (each, each.with_suffix(".meta.json"))
            try:
                self._agents.append(_looked_through(each))
            except (ForeignFormatError, OSError) as error:
                self._scan.findings.append(unreadable(error, each))

    def sessions(self) -> Iterator[ForeignSession]:
        """Yield its sessions, those of sub-agents last."""
        findings = self._scan.findings
        for talk in self._own:
            header = Header(id=talk.session, version=NATIVE_VERSION, timestamp=EPOCH)
            yield self._session(self._scan, talk, header, findings)
            findings = []
        for scan, talks in [(self._scan, self._talks), *self._agents]:
            findings = findings if scan is self._scan else scan.findings
            for talk in talks:
                if talk.agent:
                    yield self._session(scan, talk, self._agent_header(scan, talk), findings)
                    findings = []

    def _session(self, scan: Scan, talk: Conversation, header: Header, findings: list[Finding]) -> ForeignSession:
        return replace(_session(scan, talk, header, findings), beside=tuple(self._others))

    def _agent_header(self, scan: Scan, talk: Conversation) -> Header:
        """Say whose a sub-agent is. Its lines name the session that started it, or itself.

        Where they name one that this transcript knows nothing of, that is the parent all the same, unless the file stands in
        this transcript's own folder: which transcript is there beside it, or is read first, does not matter.
        """
        meta = meta_of(scan.path)
        itself = talk.session == PREFIX + talk.agent
        told = not itself and talk.first.session != ""
        inside = self._scan.path.with_suffix("") in scan.path.parents
        known = bool(self._own) and (inside or not told or talk.first.session in self._named)
        caller = self._callers.of(talk, meta) if known else None
        parent = caller[0].session if caller is not None else self._own[0].session if known else None
        return Header(
            id=talk.session if itself else f"{talk.session}.{PREFIX}{talk.agent}",
            version=NATIVE_VERSION,
            timestamp=EPOCH,
            parent_session=parent if itself else parent or talk.session,
            parent_entry=caller[1].id if caller is not None else None,
            title=meta.description or meta.agent_type,
        )


def _session(scan: Scan, talk: Conversation, header: Header, findings: list[Finding]) -> ForeignSession:
    """Make a session of a conversation; `header` says what it is called and where it belongs."""
    steps = list(talk.in_order())
    times = (time_of(step.boundary or step.nodes[0]) for step in steps)
    started = time_of(talk.first) or next((time for time in times if time is not None), EPOCH)
    lines = {node.uuid for step in steps for node in step.nodes}
    made = [scan.automatic[key] for key in (talk.session, *(lines & scan.automatic.keys())) if key in scan.automatic]
    header = replace(header, timestamp=started, cwd=talk.first.cwd, title=header.title or (made[0] if made else None))
    titles = [] if talk.agent else scan.titles_of(talk.session)
    return ForeignSession(
        header=header,
        entries=iter(Entries(scan, talk, header.id, started, titles, findings)),
        findings=findings,
    )


def _looked_through(path: Path) -> tuple[Scan, list[Conversation]]:
    scan = Scan(path)
    scan.run()
    tree = Tree(scan)
    for code, nodes, what in (
        ("parent_missing", tree.lost, "whose parent is not in the file: each follows the message before it"),
        ("cycle", tree.cyclic, "of its own ancestors: it begins anew"),
    ):
        if nodes:
            message = f"{counted(len(nodes), 'line')} {what}"
            scan.findings.append(Finding(str(path), nodes[0].number, nodes[0].byte, code, "warning", message))
    return scan, tree.conversations


def _is_ours(outline: Outline) -> bool:
    if outline.type in ("user", "assistant"):
        return outline.message is not None
    return outline.type in _BOOKKEEPING and (outline.leaf is not None or outline.type != "summary")
