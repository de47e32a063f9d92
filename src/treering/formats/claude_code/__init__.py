"""Claude Code's transcripts, as Claude Code 1.x and 2.x write them: `~/.claude/projects/<folder>/<session>.jsonl`.

There is one line for each prompt, each part of an answer, the results of each call, and much else::

    {"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"Hello"},...}
    {"type":"assistant","uuid":"a1","parentUuid":"u1","message":{"id":"m","content":[{"type":"thinking",...}]},...}
    {"type":"assistant","uuid":"a2","parentUuid":"a1","message":{"id":"m","content":[{"type":"tool_use",...}]},...}
    {"type":"progress","uuid":"p1","parentUuid":"a2","data":{...},...}
    {"type":"user","uuid":"u2","parentUuid":"a2","message":{"content":[{"type":"tool_result",...}]},"toolUseResult":...}

The file is read in two passes: the first determines the tree of lines (`reader`, `scan`, `tree`), the second reads
the content line by line (`entries`), so a transcript of any size needs little memory. Sub-agents become separate
sessions (`agents`), and so do lines of another session that ended up in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from ...events.entries import EPOCH, NATIVE_VERSION, Header
from ...events.errors import ForeignFormatError
from ...events.texts import counted
from ..base import ForeignSession, Format
from ..glances import Excerpt
from ..json_lines import Notes, beginning
from ..opening import unreadable
from .agents import PREFIX, AgentFiles, Callers, meta_of
from .entries import Entries, time_of
from .lines import outline_of
from .reader import Reader
from .scan import BUFFER, Scan
from .steps import Conversation

_LINES_CHECKED = 50
_LONG_LINE = re.compile(rb'\{("parentUuid":(null|"[^"]*"),"|"type":"queue-operation",")')
_BOOKKEEPING = frozenset({"summary", "file-history-snapshot"})


class ClaudeCodeFormat(Format):
    """Transcripts `<session>.jsonl` of the versions 1 and 2, with those of sub-agents."""

    name = "claude-code"
    title = "Claude Code"
    home = "~/.claude/projects"
    checked = "the program, 2.1.197"
    moved_by = ("CLAUDE_CONFIG_DIR", "~/.claude")
    read_last = PREFIX

    def __init__(self) -> None:
        self._beside: AgentFiles | None = None  # of the folder that was read last

    def detects(self, path: Path, head: bytes) -> bool:
        """Return whether one of the first lines is a line of Claude Code; see `Format.detects`."""
        start = beginning(head)
        names_session = b'"sessionId":"' in start
        return any(_is_claude_line(line, names_session) for line in start.splitlines()[:_LINES_CHECKED])

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a transcript and those of its sub-agents; see `Format.read`."""
        if self._beside is None or self._beside.folder != path.parent:
            self._beside = AgentFiles(path.parent)
        yield from _Transcript(path, self._beside).sessions()


class _Transcript:
    """One file, with the files of its sub-agents.

    Args:
        path: The file.
        beside: The sub-agent files that lie next to it.
    """

    def __init__(self, path: Path, beside: AgentFiles) -> None:
        self._reader = _read(path)
        self._scan = self._reader.scan
        self._conversations = [*self._reader.tree.conversations]
        self._own = [conversation for conversation in self._conversations if not conversation.agent]
        self._callers = Callers(self._scan, self._own)
        self._agents: list[Reader] = []
        self._agent_files: list[Path] = []
        self._sessions = {node.session for node in self._scan.nodes if not node.sidechain}
        self._sessions.update(conversation.session for conversation in self._own)
        alone = isinstance(path, Excerpt)  # what sub-agents said is not asked for
        for agent_path in beside.of(self._scan, self._sessions) if self._own and not alone else ():
            self._agent_files += (agent_path, agent_path.with_suffix(".meta.json"))
            try:
                self._agents.append(_read(agent_path))
            except (ForeignFormatError, OSError) as error:
                self._scan.notes.findings.append(unreadable(error, agent_path))

    def sessions(self) -> Iterator[ForeignSession]:
        """Yield the sessions of the file, those of sub-agents last."""
        notes = self._scan.notes  # those on a file are of its first session
        for conversation in self._own:
            origin = _forked_from(conversation)
            header = Header(id=conversation.session, version=NATIVE_VERSION, timestamp=EPOCH, parent_session=origin)
            yield self._session(self._reader, conversation, header, notes)
            notes = Notes(self._scan.path)
        for reader in [self._reader, *self._agents]:
            notes = notes if reader is self._reader else reader.scan.notes
            for conversation in reader.tree.conversations:
                if conversation.agent:
                    yield self._session(reader, conversation, self._agent_header(reader.scan, conversation), notes)
                    notes = Notes(reader.scan.path)

    def _session(self, reader: Reader, conversation: Conversation, header: Header, notes: Notes) -> ForeignSession:
        """Make a session from a conversation; `header` has its id, title and parent."""
        steps = list(conversation.in_order())
        times = (time_of(step.boundary or step.nodes[0]) for step in steps)
        started = time_of(conversation.first) or next((time for time in times if time is not None), EPOCH)
        title = header.title or reader.tree.automatic_title(conversation)
        titles = [] if conversation.agent else reader.scan.titles_of(conversation.session)
        return ForeignSession(
            header=replace(header, timestamp=started, cwd=conversation.first.cwd, title=title),
            entries=iter(Entries(reader.scan, conversation, header.id, started, titles, notes)),
            findings=notes.findings,
            beside=tuple(self._agent_files),
        )

    def _agent_header(self, scan: Scan, conversation: Conversation) -> Header:
        """Return the header of a sub-agent's session, with its parent.

        A sub-agent's lines name the session that started it, or the sub-agent's own. A named session is the parent even
        if this transcript does not know it, unless the sub-agent's file lies in this transcript's own folder. The
        parent therefore does not depend on which transcripts lie beside the file or on the order in which they are
        read.
        """
        meta = meta_of(scan)
        names_itself = conversation.session == PREFIX + conversation.agent
        names_parent = not names_itself and conversation.first.session != ""
        is_in_own_folder = self._scan.path.with_suffix("") in scan.path.parents
        knows_parent = bool(self._own) and (
            is_in_own_folder or not names_parent or conversation.first.session in self._sessions
        )
        caller = self._callers.of(conversation, meta) if knows_parent else None
        parent = caller[0].session if caller is not None else self._own[0].session if knows_parent else None
        return Header(
            id=conversation.session if names_itself else f"{conversation.session}.{PREFIX}{conversation.agent}",
            version=NATIVE_VERSION,
            timestamp=EPOCH,
            parent_session=parent if names_itself else parent or conversation.session,
            parent_entry=caller[1].id if caller is not None else None,
            title=meta.title,
        )


def _forked_from(conversation: Conversation) -> str | None:
    """Return the session from which this one was forked, as the lines that were copied from it say."""
    origins = (node.forked_from for step in conversation.in_order() for node in step.nodes)
    return next((origin for origin in origins if origin not in ("", conversation.session)), None)


def _read(path: Path) -> Reader:
    reader = Reader(path)
    with path.open("rb", buffering=BUFFER) as file:
        reader.add(file)
    scan, tree = reader.scan, reader.tree
    scan.close()
    renamed = sorted(
        (node for conversation in tree.conversations for node in conversation.renamed), key=lambda node: node.number
    )
    for code, nodes, what in (
        ("alone", tree.alone, "with an attachment in a session without messages: left out"),
        ("parent_missing", tree.lost, "with a parent that is not in the file: placed after the preceding message"),
        ("duplicate_id", renamed, "with the id of an earlier line: read under an id derived from it"),
        ("cycle", tree.cyclic, "whose parents form a cycle: the parent at which it closes is ignored"),
    ):
        if nodes:
            message = f"{counted(len(nodes), 'line')} {what}"
            scan.notes.add(code, "warning", message, line=nodes[0].number, byte=nodes[0].byte)
    return reader


def _is_claude_line(line: bytes, names_session: bool) -> bool:
    outline = outline_of(line)
    if outline is None:  # too long for the head, as one with a long prompt is, or damaged
        return names_session and _LONG_LINE.match(line) is not None
    if outline.type in ("user", "assistant"):
        # Content and session are what forks of other programs lack, whose lines are linked in the same way.
        has_content = outline.message is not None and outline.message.content is not None
        is_placed = outline.uuid or outline.session or (outline.timestamp and outline.cwd)
        return has_content and bool(is_placed)
    return outline.type in _BOOKKEEPING and (outline.leaf is not None or outline.type != "summary")
