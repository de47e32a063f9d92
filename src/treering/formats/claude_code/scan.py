"""The first look at the lines of a transcript, as they come: classify them, and set aside those outside a conversation.

Every line with a uuid is a node of the tree, even if it is not a message: chains of parents run through progress
reports and attachments. Only titles are not, whose uuids nothing refers to. Bookkeeping lines are counted, with one
finding per kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from hashlib import blake2b
from pathlib import Path
from sys import intern
from typing import Literal, TypeAlias

from msgspec import Struct

from ...events.errors import ForeignFormatError, Where
from ...events.texts import counted
from ..chain import derived_id
from ..json_lines import Notes
from .attachments import has_content, is_known
from .lines import CompactionFacts, Meta, Outline, agent_of_result, meta_in, outline_of, prompts_of, whole_line_in

Kind: TypeAlias = Literal[
    "user", "results", "assistant", "boundary", "summary", "queued", "attached", "command", "link"
]
"""What a node is: a prompt, tool results, perhaps with words of the user beside them, (part of) an answer, the boundary
line or the summary of a compaction, a prompt sent while the model was working, an attachment that the model sees, a
command of Claude Code itself with its output, or only a link between other nodes."""

ASIDE: frozenset[Kind] = frozenset({"attached", "link"})
"""The kinds of nodes that are no conversation by themselves."""

STARTS_AGENT = frozenset({"Task", "Agent"})
"""The tools that start a sub-agent."""

RESULT = "tool_result"
"""The type of the parts that answer calls."""

BUFFER = 1024 * 1024
"""The size in bytes of the buffer through which a transcript is read."""

_AGENT_PROMPT_MAX = 4096  # of which the start tells what called the sub-agent
_PROMPT_START_MAX = 64
_TITLES = frozenset({"custom-title", "ai-title"})
_META = "agent_metadata"
_BOM = b"\xef\xbb\xbf"


class Node(Struct, gc=False, eq=False):
    """A line in the tree.

    Attributes:
        number: Its line number, from 1.
        index: Its position among the nodes, from 0.
        byte: The offset at which it begins.
        size: Its length in bytes, including the newline.
        kind: What it is.
        uuid: Its id; derived from the line if it has none.
        parent: The id of its parent line; for a boundary without a parent, the last line that its summary replaces.
        session: The session that it names, or "".
        agent: The sub-agent that it names, or "".
        sidechain: Whether it is to or from a sub-agent.
        time: When it was written, as it says.
        cwd: The folder at that time.
        message: The id of the answer that it is a part of, or "".
        calls: The tool calls in it, as (id, name).
        results: The ids of the calls that it answers.
        words: Whether it holds more than results, such as a text of the user.
        prompt_start: How its prompt begins.
        facts: What a boundary says about its compaction.
        forked_from: The session that it was copied from when its own was forked, or "".
    """

    kind: Kind
    uuid: str
    parent: str | None
    number: int
    byte: int
    size: int
    session: str
    agent: str
    sidechain: bool
    time: str | None
    cwd: str | None
    index: int = 0
    message: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    results: tuple[str, ...] = ()
    words: bool = False
    prompt_start: str = ""
    facts: CompactionFacts | None = None
    forked_from: str = ""

    def is_repeat_of(self, other: Node) -> bool:
        """Return whether this line repeats another line with the same id."""
        return (
            self.size == other.size
            and self.kind == other.kind
            and self.parent == other.parent
            and self.time == other.time
            and self.message == other.message
            and self.calls == other.calls
            and self.results == other.results
            and self.prompt_start == other.prompt_start
        )


def _node_of(kind: Kind, outline: Outline, uuid: str, number: int, byte: int, size: int) -> Node:
    cwd = outline.cwd
    node = Node(
        kind,
        uuid,
        outline.parent or (outline.logical if kind == "boundary" else None),
        number,
        byte,
        size,
        intern(outline.session or ""),
        intern(outline.agent or ""),
        outline.sidechain,
        outline.timestamp,
        None if cwd is None else intern(cwd),
    )
    if outline.forked_from is not None:
        node.forked_from = intern(outline.forked_from.session or "")
    if kind == "boundary":
        node.facts = outline.facts
    elif outline.message is not None and kind != "link":
        content = outline.message.content
        if kind == "assistant":
            node.message = intern(outline.message.id or "")
        if isinstance(content, str):
            node.prompt_start = content[: _AGENT_PROMPT_MAX if outline.sidechain else _PROMPT_START_MAX]
        elif kind == "assistant":
            for position, part in enumerate(content or ()):
                if part.type == "tool_use":
                    node.calls += ((part.id or missing_id(uuid, position), intern(part.name or "")),)
        elif content is not None:
            node.results = tuple([part.tool_use_id or "" for part in content if part.type == RESULT])
            node.words = 0 < len(node.results) < len(content)
    return node


def missing_id(uuid: str, position: int) -> str:
    """Return an id for a call without one, derived from the line's id and the part's position in the line."""
    return f"{uuid}:{position}"


class Scan:
    """The lines of a transcript so far.

    Args:
        path: The file, which findings name.

    Attributes:
        path: The file.
        nodes: The lines in the tree, in the order of the file.
        session: The session of lines that do not name one.
        flat: Whether no line names a parent, as in transcripts from other tools: each message then follows the
            previous one.
        says_something: Whether there is a message.
        meta: What its lines say about the sub-agent whose transcript it is.
        automatic: The titles that Claude Code made, by session or by the id of a line in the session.
        agents: The calls that started sub-agents, by sub-agent, as far as results and progress reports name them.
        prompts: The prompts that calls give to sub-agents, by call.
        notes: What was damaged or left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes: list[Node] = []
        self.session = ""
        self.flat = True
        self.says_something = False
        self.meta = Meta()
        self.automatic: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self.prompts: dict[str, str] = {}
        self._titles: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        self._left_out: Counter[str] = Counter()
        self.notes = Notes(path)
        self._by_uuid: dict[str, Node] = {}
        self._number = self._byte = 0
        self._names_session = False

    def feed(self, line: bytes) -> None:
        """Take the next line, with its newline if it has one."""
        self._number += 1
        if self._number == 1 and line.startswith(_BOM):
            line, self._byte = line[len(_BOM) :], len(_BOM)
        if not line.isspace():
            if not self.session:
                self.session = derived_id("claude-code", blake2b(line, digest_size=16).hexdigest())
            self._read_line(line, self._number, self._byte)
        self._byte += len(line)

    def close(self) -> None:
        """Report what was left out: there are no more lines.

        Raises:
            ForeignFormatError: There is no message.
        """
        self._by_uuid.clear()
        if not self.says_something:
            raise ForeignFormatError("the file contains no messages of Claude Code", where=Where(str(self.path)))
        for kind, count in sorted(self._left_out.items()):
            message = f"{counted(count, 'line')} of kind {kind} left out: not part of the conversation"
            self.notes.add("skipped", "note", message)
        self.notes.close()

    def titles_of(self, session: str) -> list[str]:
        """Return the titles that the user gave a session, in order."""
        nameless = self._titles.get("", []) if session == self.session else []
        return [title for _, title in sorted([*self._titles.get(session, []), *nameless])]

    def title_of(self, session: str) -> str | None:
        """Return the last title that the user gave a session; None if there is none."""
        nameless = self._titles.get("", []) if session == self.session else []
        last = max([*self._titles.get(session, [])[-1:], *nameless[-1:]], default=None)
        return None if last is None else last[1]

    def _read_line(self, line: bytes, number: int, byte: int) -> None:
        outline = outline_of(line)
        if outline is None:
            is_cut_off = not line.endswith(b"\n")
            whole = None if is_cut_off else whole_line_in(line)
            outcome = "the whole line at its end was read" if whole else "it was left out"
            problem, code = ("cut off", "truncated") if is_cut_off else ("not a JSON object", "damaged")
            message = f"the line is {problem}; {outcome}"
            self.notes.add(code, "error", message, line=number, byte=byte)
            if whole is not None:
                self._read_line(whole, number, byte + len(line) - len(whole))
            return
        kind = _kind_of(outline)
        if kind is None or (kind == "link" and outline.uuid is None):
            self._note_session_fact(outline, line, number, byte)
            return
        uuid = outline.uuid or derived_id("claude-code", blake2b(line.strip(), digest_size=16).hexdigest())
        node = _node_of(kind, outline, uuid, number, byte, len(line))
        previous = self._by_uuid.get(uuid)
        if previous is not None and previous.is_repeat_of(node):  # resuming a session may write lines again
            self._left_out["duplicate"] += 1
            return
        parent = self._by_uuid.get(node.parent) if node.parent is not None else None
        if parent is not None:
            node.parent = parent.uuid  # share one string
        self._by_uuid[uuid] = node
        node.index = len(self.nodes)
        self.nodes.append(node)
        if node.session and not self._names_session:
            self.session, self._names_session = node.session, True
        self.says_something = self.says_something or kind not in ASIDE
        self.flat = self.flat and node.parent is None
        if kind == "link":
            self._leave_out(outline, line, number, byte)
            if outline.data is not None and outline.data.agent and outline.parent_call:
                self.agents.setdefault(outline.data.agent, outline.parent_call)
        else:
            self._note_agents(line, node)

    def _note_agents(self, line: bytes, node: Node) -> None:
        if node.calls:
            if any(name in STARTS_AGENT for _, name in node.calls):
                self.prompts.update(prompts_of(line))
        elif len(node.results) == 1 and node.results[0]:
            agent = agent_of_result(line)
            if agent is not None:
                self.agents[agent] = node.results[0]

    def _leave_out(self, outline: Outline, line: bytes, number: int, byte: int) -> None:
        name = _name_of(outline)
        if is_known(outline):
            self._left_out[name] += 1
        else:
            self.notes.leave_out(f"line of kind {name}", line.decode(errors="replace"), line=number, byte=byte)

    def _note_session_fact(self, outline: Outline, line: bytes, number: int, byte: int) -> None:
        """Record what a line says about a session as a whole."""
        name, session = outline.type, outline.session or ""
        if name == "custom-title" and outline.custom_title is not None:
            self._titles[session].append((number, outline.custom_title))
        elif name == "ai-title" and outline.ai_title:
            self.automatic[session] = outline.ai_title
        elif name == "summary" and outline.summary and outline.leaf:
            self.automatic[outline.leaf] = outline.summary
        elif name == _META:
            self.meta = meta_in(line)
        else:
            self._leave_out(outline, line, number, byte)


def _kind_of(outline: Outline) -> Kind | None:
    """Return the kind of a line; None if it is not in the tree."""
    name = outline.type
    if name in ("user", "assistant") and outline.message is not None:
        if name == "assistant":
            return "assistant"
        if outline.is_summary:
            return "summary"
        content = outline.message.content
        has_results = isinstance(content, list) and any(part.type == RESULT for part in content)
        return "results" if has_results else "user"
    if name == "system" and outline.subtype == "compact_boundary":
        return "boundary"
    if name == "system" and outline.subtype == "local_command":
        return "command"
    if name == "attachment" and outline.attachment is not None:
        if outline.attachment.type == "queued_command":
            return "queued"
        if outline.uuid is not None and has_content(outline.attachment):
            return "attached"
    # The Claude Agent SDK gives titles ids, too, though they are not in the tree.
    return "link" if outline.uuid is not None and name not in _TITLES else None


def _name_of(outline: Outline) -> str:
    subtype = outline.subtype or (outline.attachment.type if outline.attachment is not None else "")
    return f"{outline.type or 'unknown'}{'/' if subtype else ''}{subtype}"
