"""How the lines of a transcript of Claude Code hang together, as steps of conversations.

The tree of the file is not yet the tree of the conversation. An answer stands in several lines, one a part, that share the
id of the message; the results of parallel calls hang each from the line of its call; progress reports stand between. So a
fork of the file is hardly ever one of the conversation. Here

- the lines of an answer become one step;
- the results of an answer's calls follow it one after the other, and whatever hangs from the answer or from one of them
  follows the last; but what hangs from a result that came late, below what was said meanwhile, follows that;
- what hangs from a mere link hangs from what that hangs from;
- a boundary and its summary become one compaction, which follows what it stands for;
- what follows a compaction in the file, and hangs from the last message that it kept, follows the compaction;
- a message that a compaction kept, and that is written again below its summary, is said once;
- a line whose parent is not in the file follows the message before it;
- a conversation is the session of its root, whatever the lines further on call themselves; the lines of a sub-agent are
  one of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from .claude_scan import Node, Scan

StepKind: TypeAlias = Literal["user", "results", "assistant", "compaction", "queued"]
"""What a step says."""


class Step:
    """What becomes one entry.

    Attributes:
        kind: What it says.
        id: The entry's id: that of its first line.
        nodes: Its lines.
        above: What it hangs from; None for a root.
        answer: The answer whose calls a step of results answers.
        before: The step that results follow.
        unnamed: The calls that those results answer which name none, in order.
        boundary: The line that tells of a compaction.
        kept: The first step that a compaction kept.
    """

    __slots__ = ("above", "answer", "before", "boundary", "id", "kept", "kind", "nodes", "unnamed")

    def __init__(self, kind: StepKind, node: Node, above: Step | None) -> None:
        self.kind = kind
        self.id = node.uuid
        self.nodes = [node]
        self.above = above
        self.answer: Answer | None = None
        self.before: Step | None = None
        self.unnamed: list[str] = []
        self.boundary: Node | None = None
        self.kept: Step | None = None

    @property
    def end(self) -> Step | None:
        """What goes on from here hangs from, once all lines have their place: the last of an answer's results.

        A compaction that never came is no step.
        """
        step: Step | None = self.answer or self
        passed: list[Step] = []
        while step is not None and not step.nodes:
            passed.append(step)
            step = step.above
            step = step.answer or step if step is not None else None
        for each in passed:
            each.above = step  # there may be a chain of them, and many that hang from its end
        return step.results[-1] if isinstance(step, Answer) and step.results else step

    @property
    def parent(self) -> Step | None:
        """What its entry follows."""
        if self.answer is not None:
            return self.before
        return self.above.end if self.above is not None else None


class Answer(Step):
    """A step that an assistant says.

    Attributes:
        calls: The tools that it calls, by the calls' ids.
        results: The steps that answer these calls, in order.
        answered: The calls that have results.
    """

    __slots__ = ("answered", "calls", "results")

    def __init__(self, node: Node, above: Step | None) -> None:
        super().__init__("assistant", node, above)
        self.calls: dict[str, str] = {}
        self.results: list[Step] = []
        self.answered: set[str] = set()

    def answered_by(self, step: Step) -> None:
        """Take results of its calls."""
        step.answer = self
        step.before = self.results[-1] if self.results else self
        self.results.append(step)
        for named in step.nodes[0].results:
            call = named or next((each for each in self.calls if each not in self.answered), "")
            self.answered.add(call)
            if not named:
                step.unnamed.append(call)


class Conversation:
    """The steps that become one session.

    Attributes:
        session: The session that its root names.
        agent: The sub-agent whose it is; its root where that has no name; "" for a person's own.
        first: Its first line.
        steps: Its steps, parents first.
        answers: Its answers, by the ids of their messages.
        callers: Its answers, by the calls that they hold.
        unsaid: A compaction whose summary did not come yet.
        compacted: The compactions that kept messages, by the last step that each kept.
    """

    __slots__ = ("agent", "answers", "callers", "compacted", "first", "session", "steps", "unsaid")

    def __init__(self, session: str, agent: str, first: Node) -> None:
        self.session = session
        self.agent = agent
        self.first = first
        self.steps: list[Step] = []
        self.answers: dict[str, Answer] = {}
        self.callers: dict[str, Answer] = {}
        self.unsaid: Step | None = None
        self.compacted: dict[Step, Step] = {}

    def in_order(self) -> Iterator[Step]:
        """Yield its steps, each after the one that it follows: results right after the answer that asked for them.

        The conversation stands at the last of them.
        """
        for step in self.steps:
            if step.answer is None and step.nodes:
                yield step
                if isinstance(step, Answer):
                    yield from step.results


class Tree:
    """The conversations of a transcript.

    Attributes:
        conversations: Each with at least one step, in the order in which they begin.
        lost: The lines whose parents are not in the file.
        cyclic: The lines that are their own ancestors.
    """

    def __init__(self, scan: Scan) -> None:
        self.lost: list[Node] = []
        self.cyclic: list[Node] = []
        self._scan = scan
        self._found: dict[tuple[str, str], Conversation] = {}
        self._earlier: dict[int, Node] = {}  # the line that had the id of a line before it
        self._parents = self._resolved()
        self._at: dict[int, tuple[Conversation, Step | None]] = {}
        self._kept: dict[str, tuple[Conversation, Step] | None] = {  # where that is what any compaction kept
            uuid: None for node in scan.nodes if node.facts is not None for uuid in node.facts.kept
        }
        for node in self._parents_first():
            self._place(node)
        self.conversations = [talk for talk in self._found.values() if any(True for _ in talk.in_order())]

    # -- which line hangs from which

    def _resolved(self) -> list[Node | None]:
        """Find the parent of each line: the latest of its id before it, or else the last after it."""
        parents: list[Node | None] = []
        seen: dict[str, Node] = {}
        later: list[Node] = []
        for node in self._scan.nodes:
            parent = seen.get(node.parent) if node.parent is not None else None
            if parent is None and node.parent is not None:
                later.append(node)
            parents.append(parent)
            if node.uuid in seen:
                self._earlier[node.index] = seen[node.uuid]
            seen[node.uuid] = node
        for node in later:
            parent = seen.get(node.parent or "")
            if parent is None or parent is node:
                self.lost.append(node)
            else:
                parents[node.index] = parent
        return parents

    def _parents_first(self) -> Iterator[Node]:
        """Yield the lines in the order of the file, but none before the one that it hangs from."""
        done = bytearray(len(self._parents))
        for node in self._scan.nodes:
            parent = self._parents[node.index]
            if parent is not None and not done[parent.index] and not done[node.index]:
                for each in self._upwards(node, done):
                    done[each.index] = 1
                    yield each
            elif not done[node.index]:
                done[node.index] = 1
                yield node

    def _upwards(self, node: Node, done: bytearray) -> list[Node]:
        """Return the lines above one that were not met yet, the highest first, and the line; cycles are cut.

        Where the last message before a compaction is only written below its summary, the boundary stands for a line
        below itself. That is no damage: it is cut there, and the compaction follows what was said before it.
        """
        waiting = [node]
        under = {node.index}
        while (above := self._parents[waiting[-1].index]) is not None and not done[above.index]:
            if above.index in under:
                circle = range(waiting.index(above), len(waiting))
                cut = next((at for at in circle if waiting[at].kind == "boundary"), None)
                if cut is None:
                    self.cyclic.append(waiting[-1])
                else:
                    del waiting[cut + 1 :]  # they hang from the boundary, and come in their own turn
                self._parents[waiting[-1].index] = None
                break
            waiting.append(above)
            under.add(above.index)
        waiting.reverse()
        return waiting

    # -- what it becomes

    def _place(self, node: Node) -> None:
        parent = self._parents[node.index]
        talk, above = self._conversation(node, parent)
        above = _behind_what_kept(node, talk, above)
        again = self._was_kept(node, talk, above)
        step = above if again or node.kind == "link" else self._step(node, talk, above)
        self._at[node.index] = talk, above if step is not above and _came_late(step) else step
        if node.uuid in self._kept and step is not None and not again:
            self._kept[node.uuid] = talk, step

    def _was_kept(self, node: Node, talk: Conversation, above: Step | None) -> bool:
        """Tell whether a line says again what the compaction kept that it hangs from."""
        earlier = self._earlier.get(node.index)
        if earlier is None or above is None or above.boundary is None or above.kept is None:
            return False
        where = self._at.get(earlier.index)
        if where is None or where[0] is not talk or earlier.kind != node.kind or earlier.message != node.message:
            return False
        first = (above.kept.boundary or above.kept.nodes[0]).index
        return first <= earlier.index < above.boundary.index

    def _conversation(self, node: Node, parent: Node | None) -> tuple[Conversation, Step | None]:
        """Return the conversation of a line, and what it hangs from there."""
        if (
            parent is not None
            and parent.sidechain == node.sidechain
            and (parent.agent == node.agent or not node.sidechain)
        ):
            return self._at[parent.index]
        session = node.session or self._scan.session
        key = (session, (node.agent or node.uuid) if node.sidechain else "")
        talk = self._found.get(key)
        if talk is None:
            talk = self._found[key] = Conversation(session, key[1], node)
            return talk, None
        # A prompt without a parent begins anew; everything else goes on from what was said before it.
        begins = node.parent is None and node.kind in ("user", "queued", "link") and not self._scan.flat
        return talk, None if begins else self._before(talk)

    @staticmethod
    def _before(talk: Conversation) -> Step | None:
        return talk.steps[-1] if talk.steps else None

    def _step(self, node: Node, talk: Conversation, above: Step | None) -> Step:
        if node.kind == "assistant":
            return self._answer(node, talk, above)
        if node.kind == "results":
            return self._results(node, talk, above)
        if node.kind == "boundary":
            step = self._new("compaction", node, talk, above)
            step.nodes, step.boundary = [], node
            talk.unsaid = step
            self._keep(node, talk, step)
            return step
        if node.kind == "summary":
            return self._summary(node, talk, above)
        return self._new("queued" if node.kind == "queued" else "user", node, talk, above)

    def _keep(self, boundary: Node, talk: Conversation, compaction: Step) -> None:
        """Find what a compaction kept among what was said before it; the rest stands below its summary."""
        places = (self._kept[uuid] for uuid in boundary.facts.kept) if boundary.facts is not None else ()
        kept = [place[1] for place in places if place is not None and place[0] is talk and place[1].nodes]
        if kept:
            compaction.kept = kept[0]
            talk.compacted[kept[-1].answer or kept[-1]] = compaction

    @staticmethod
    def _new(kind: StepKind, node: Node, talk: Conversation, above: Step | None) -> Step:
        step = Step(kind, node, above)
        talk.steps.append(step)
        return step

    @staticmethod
    def _answer(node: Node, talk: Conversation, above: Step | None) -> Step:
        step = talk.answers.get(node.message) if node.message else None
        near = above.answer or above if above is not None else None
        if step is not None and (near is step or above is step.above):
            step.nodes.append(node)
        else:
            step = Answer(node, above)
            talk.steps.append(step)
            if node.message:
                talk.answers[node.message] = step
        for call, name in node.calls:
            step.calls[call] = name
            talk.callers[call] = step
        return step

    def _results(self, node: Node, talk: Conversation, above: Step | None) -> Step:
        answer = self._asked(node, talk, above)
        step = self._new("results", node, talk, above)
        if answer is not None:
            answer.answered_by(step)
        return step

    @staticmethod
    def _asked(node: Node, talk: Conversation, above: Step | None) -> Answer | None:
        """Return the answer whose calls results answer, as long as they were not answered before."""
        asked = above.answer or above if above is not None else None
        near = asked if isinstance(asked, Answer) else None
        named = [call for call in node.results if call]
        if near is None or (named and not near.calls.keys() & named):
            near = next((talk.callers[call] for call in named if call in talk.callers), None)
        if near is None:
            return None
        return None if near.answered.intersection(named) else near

    def _summary(self, node: Node, talk: Conversation, above: Step | None) -> Step:
        step = above if above is not None and above.boundary is not None and not above.nodes else talk.unsaid
        if step is None:
            return self._new("compaction", node, talk, above)
        step.nodes.append(node)
        talk.unsaid = None
        return step


def _came_late(step: Step | None) -> bool:
    """Tell whether a step is results that hang below what was said after the answer whose calls they answer."""
    if step is None or step.answer is None or step.above is None:
        return False
    above: Step | None = step.above.answer or step.above
    if above is step.answer:
        return False
    while above is not None and above is not step.answer:
        above = above.above
        above = above.answer or above if above is not None else None
    return above is not None


def _behind_what_kept(node: Node, talk: Conversation, above: Step | None) -> Step | None:
    """Return what a line hangs from: the compaction, where that is the last message which an earlier compaction kept.

    After a compaction, Claude Code goes on below its summary or below the last message that was kept.
    """
    last = above.answer or above if above is not None else None
    compaction = talk.compacted.get(last) if last is not None else None
    if compaction is None or compaction.boundary is None or node.index < compaction.boundary.index:
        return above
    more = node.kind == "assistant" and node.message and talk.answers.get(node.message) is last
    return above if more else compaction
