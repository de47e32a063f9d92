"""What is in a transcript of Claude Code: its lines by what they are, and its lines that are no part of a conversation.

Lines that carry a uuid are nodes of a tree, messages or not: the chain of parents runs through progress reports and
attachments. Bookkeeping is counted, one finding a kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from hashlib import blake2b
from pathlib import Path
from sys import intern
from typing import Literal, TypeAlias

from msgspec import Struct

from ..errors import ForeignFormatError, Where
from ..findings import Finding
from ..wording import counted
from .chain import derived_id
from .claude_lines import CompactionFacts, Outline, agent_of_result, behind, outline_of, prompts_of

Kind: TypeAlias = Literal["user", "results", "assistant", "boundary", "summary", "queued", "link"]
"""What a node is: a prompt, results of tools, (a part of) an answer, the two lines of a compaction, a prompt that was said
while the model was at work, or a mere link between others."""

STARTS_AGENT = frozenset({"Task", "Agent"})
"""The tools that start a sub-agent."""

BUFFER = 1024 * 1024
"""How many bytes of a transcript are read at once."""

_SAID_MAX = 4096
_BOM = b"\xef\xbb\xbf"


class Node(Struct, gc=False, eq=False):
    """A line that hangs in the tree.

    Attributes:
        number: Its number, from 1.
        index: Its ordinal among the nodes, from 0.
        byte: The offset at which it begins.
        size: Its bytes, newline included.
        kind: What it is.
        uuid: Its id; one that follows from the line where it has none.
        parent: The id of the line that it hangs from; for a boundary the one that its summary stands for, too.
        session: The session that it names, or "".
        agent: The sub-agent that it names, or "".
        sidechain: Whether it is said by or to a sub-agent.
        time: When it was written, as it says.
        cwd: The folder at that time.
        message: The id of the answer that it is a part of, or "".
        calls: The calls of tools that it holds, as (id, name).
        results: The calls that it answers.
        said: How the prompt begins.
        facts: What a boundary says of its compaction.
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
    said: str = ""
    facts: CompactionFacts | None = None

    def like(self, other: Node) -> bool:
        """Tell whether two lines of one id are the same line."""
        return (
            self.size == other.size
            and self.kind == other.kind
            and self.parent == other.parent
            and self.time == other.time
            and self.message == other.message
            and self.calls == other.calls
            and self.results == other.results
            and self.said == other.said
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
    if kind == "boundary":
        node.facts = outline.facts
    elif outline.message is not None and kind != "link":
        content = outline.message.content
        if kind == "assistant":
            node.message = intern(outline.message.id or "")
        if isinstance(content, str):
            node.said = content[:_SAID_MAX]
        elif kind == "assistant":
            for at, part in enumerate(content or ()):
                if part.type == "tool_use":
                    node.calls += ((part.id or missing_id(uuid, at), intern(part.name or "")),)
        elif content is not None:
            node.results = tuple([part.tool_use_id or "" for part in content if part.type == "tool_result"])
    return node


def missing_id(uuid: str, at: int) -> str:
    """Return the id of a call that has none: it follows from the line's and the part's place in it."""
    return f"{uuid}:{at}"


class Scan:
    """A transcript, looked through once.

    Attributes:
        path: The file.
        nodes: The lines that hang in the tree, in the order of the file.
        session: The session that lines belong to which do not name one.
        flat: Whether no line names a parent, as in transcripts that were made by other tools: each follows the one before.
        automatic: The titles that Claude Code made: by the session, or by an entry of it.
        agents: The calls that started sub-agents, by the agent, as far as results and reports tell.
        prompts: What calls ask of sub-agents, by the call.
        findings: What was damaged or left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes: list[Node] = []
        self.session = ""
        self.flat = True
        self.automatic: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self.prompts: dict[str, str] = {}
        self.findings: list[Finding] = []
        self._titles: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        self._left_out: Counter[str] = Counter()
        self._by_uuid: dict[str, Node] = {}

    def run(self) -> None:
        """Look through the file.

        Raises:
            ForeignFormatError: No line of it is a message.
            OSError: It cannot be read.
        """
        first, byte = b"", 0
        with self.path.open("rb", buffering=BUFFER) as file:
            for number, line in enumerate(file, 1):
                if number == 1 and line.startswith(_BOM):
                    line, byte = line[len(_BOM) :], len(_BOM)
                if not line.isspace():
                    first = first or line
                    self._take(line, number, byte)
                byte += len(line)
        self._by_uuid.clear()
        if not any(node.kind != "link" for node in self.nodes):
            raise ForeignFormatError("no line of it is a message", where=Where(str(self.path)))
        if not self.session:
            self.session = derived_id("claude-code", blake2b(first, digest_size=16).hexdigest())
        for kind, count in sorted(self._left_out.items()):
            what = f"{counted(count, 'line')} of kind {kind} left out: no part of the conversation"
            self._find("skipped", "note", what)

    def titles_of(self, session: str) -> list[str]:
        """Return what a person called a session, one title after the other."""
        nameless = self._titles.get("", []) if session == self.session else []
        return [title for _, title in sorted([*self._titles.get(session, []), *nameless])]

    def _take(self, line: bytes, number: int, byte: int) -> None:
        outline = outline_of(line)
        if outline is None:
            cut = not line.endswith(b"\n")
            whole = None if cut else behind(line)
            rest = "a whole line that stands behind it is taken" if whole else "it is left out"
            what, code = ("cut off", "truncated") if cut else ("no JSON object", "damaged")
            self.findings.append(Finding(str(self.path), number, byte, code, "error", f"the line is {what}; {rest}"))
            if whole is not None:
                self._take(whole, number, byte + len(line) - len(whole))
            return
        kind = _kind_of(outline)
        if kind is None or (kind == "link" and outline.uuid is None):
            self._note(outline, number)
            return
        uuid = outline.uuid or derived_id("claude-code", blake2b(line.strip(), digest_size=16).hexdigest())
        node = _node_of(kind, outline, uuid, number, byte, len(line))
        same = self._by_uuid.get(uuid)
        if same is not None and same.like(node):  # resuming a session may write it again
            self._left_out["the same line once more"] += 1
            return
        above = self._by_uuid.get(node.parent) if node.parent is not None else None
        if above is not None:
            node.parent = above.uuid  # one string for both
        self._by_uuid[uuid] = node
        node.index = len(self.nodes)
        self.nodes.append(node)
        self.session = self.session or node.session
        if kind == "link":
            self._left_out[_name_of(outline)] += 1
            if outline.data is not None and outline.data.agent and outline.parent_call:
                self.agents.setdefault(outline.data.agent, outline.parent_call)
        else:
            self.flat = self.flat and node.parent is None
            self._look_for_agents(line, node)

    def _look_for_agents(self, line: bytes, node: Node) -> None:
        if node.calls:
            if any(name in STARTS_AGENT for _, name in node.calls):
                self.prompts.update(prompts_of(line))
        elif len(node.results) == 1 and node.results[0]:
            agent = agent_of_result(line)
            if agent is not None:
                self.agents[agent] = node.results[0]

    def _note(self, outline: Outline, number: int) -> None:
        """Take what a line says of a whole session."""
        name, session = outline.type, outline.session or ""
        if name == "custom-title" and outline.custom_title is not None:
            self._titles[session].append((number, outline.custom_title))
        elif name == "ai-title" and outline.ai_title:
            self.automatic[session] = outline.ai_title
        elif name == "summary" and outline.summary and outline.leaf:
            self.automatic[outline.leaf] = outline.summary
        else:
            self._left_out[_name_of(outline)] += 1

    def _find(self, code: str, severity: Literal["note", "warning"], message: str) -> None:
        self.findings.append(Finding(str(self.path), None, None, code, severity, message))


def _kind_of(outline: Outline) -> Kind | None:
    """Tell what a line is; None where it hangs in no tree."""
    name = outline.type
    if name in ("user", "assistant") and outline.message is not None:
        if name == "assistant":
            return "assistant"
        if outline.is_summary:
            return "summary"
        content = outline.message.content
        if not isinstance(content, list) or not content or content[0].type != "tool_result":
            return "user"
        return "results" if len(content) == 1 or all(part.type == "tool_result" for part in content) else "user"
    if name == "system" and outline.subtype == "compact_boundary":
        return "boundary"
    if name == "attachment" and outline.attachment is not None and outline.attachment.type == "queued_command":
        return "queued"
    return "link" if outline.uuid is not None else None


def _name_of(outline: Outline) -> str:
    of = outline.subtype or (outline.attachment.type if outline.attachment is not None else "")
    return f"{outline.type or 'unknown'}{'/' if of else ''}{of}"
