"""Turning the lines of a Claude Code transcript into the steps of conversations.

The tree of lines in the file differs from the tree of the conversation. An answer takes several lines, one per part,
that share the message's id; the result of each parallel call is a child of the line of its call; progress reports come
in between. A fork in the file is therefore rarely a fork in the conversation. The rules are:

- The lines of an answer become one step.
- The results of an answer's calls follow it one after another, and every child of the answer or of one of the results
  follows the last result. Exception: children of a late result, one below later messages, follow those messages.
- The words of the user in a line of results become a step of their own, which follows all results of the answer. What
  follows the answer or one of its results follows these words.
- A child of a link becomes a child of the link's parent.
- A boundary and its summary become one compaction, which follows the messages that it replaces.
- A line that comes after a compaction in the file, as a child of the last message that it kept, follows the compaction.
- A message that a compaction kept and that is written again below its summary becomes one step, not two.
- A line whose parent is not in the file follows the message before it.
- A conversation belongs to the session of its root, whichever session its later lines name. The lines of a sub-agent
  are a conversation of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from .scan import Node, Scan
from .steps import Answer, Conversation, Step, StepKind, last_message

_Place: TypeAlias = tuple[Conversation, Step | None, Step | None]
"""Where a line is: its conversation, the step that its children are below, and the step that it is a part of."""


class Tree:
    """The conversations that the lines of a transcript make so far.

    Attributes:
        lost: The lines whose parents are not in the file.
        cyclic: The lines at which cycles of parents were cut, one per cycle.
    """

    def __init__(self, scan: Scan) -> None:
        self.lost: list[Node] = []
        self.cyclic: list[Node] = []
        self._scan = scan
        self._relies_on: tuple[str | None, bool] = None, False  # the session and the flatness that lines were placed by
        self._conversations: dict[tuple[str, str], Conversation] = {}
        self._seen: dict[str, Node] = {}  # the last line with each id
        self._earlier: dict[int, Node] = {}  # by a line's index, the earlier line with the same id
        self._awaiting: dict[str, list[Node]] = {}  # the lines whose parent was not before them, by its id
        self._parents: list[Node | None] = []
        self._places: list[_Place | None] = []

    @property
    def conversations(self) -> Iterator[Conversation]:
        """The conversations with at least one message, in the order in which they begin."""
        return (each for each in self._conversations.values() if each.says_something)

    @property
    def alone(self) -> list[Node]:
        """The attachments in conversations that have no message."""
        mute = (each for each in self._conversations.values() if not each.says_something)
        return [step.nodes[0] for conversation in mute for step in conversation.in_order()]

    def automatic_title(self, conversation: Conversation) -> str | None:
        """Return the title that Claude Code made for a conversation, by its session or one of its lines."""
        automatic = self._scan.automatic
        if conversation.session in automatic:
            return automatic[conversation.session]
        nodes = ((self._seen.get(uuid), title) for uuid, title in automatic.items())
        places = ((self._places[node.index], title) for node, title in nodes if node is not None)
        return next((title for place, title in places if place is not None and place[0] is conversation), None)

    def extend(self) -> bool:
        """Place the lines that were scanned since.

        Returns:
            Whether each line that was placed before is where it would be if all lines had been there at once. If not,
            a tree has to be made anew.
        """
        nodes = self._scan.nodes[len(self._parents) :]
        session, flat = self._relies_on
        stands = self._resolve_parents(nodes) and session in (None, self._scan.session) and flat <= self._scan.flat
        if stands:
            for node in self._parents_first(nodes):
                self._place(node)
        return stands

    # -- parents of lines

    def _resolve_parents(self, nodes: Sequence[Node]) -> bool:
        """Find the parent of each line: the nearest earlier line with the parent's id, or else the last later one.

        Return whether the lines that were placed before have the parents by which they were placed.
        """
        later: list[Node] = []
        moving: list[tuple[Node, Node]] = []
        for node in nodes:
            parent = self._seen.get(node.parent) if node.parent is not None else None
            if parent is None and node.parent is not None:
                later.append(node)
            self._parents.append(parent)
            self._places.append(None)
            if node.uuid in self._seen:
                self._earlier[node.index] = self._seen[node.uuid]
            self._seen[node.uuid] = node
            moving += ((each, node) for each in self._awaiting.get(node.uuid, ()))
        for node in later:
            parent = self._seen.get(node.parent or "")
            if parent is None or parent is node:
                self.lost.append(node)
            else:
                self._parents[node.index] = parent
            self._awaiting.setdefault(node.parent or "", []).append(node)
        return all(each.kind == "boundary" and self._is_below(node, each) for each, node in moving)

    def _is_below(self, node: Node, boundary: Node) -> bool:
        """Return whether the parent of a boundary is below it: then the boundary stays where it is; see `_upwards`."""
        passed: set[int] = set()
        above: Node | None = node
        while above is not None and above is not boundary and above.index not in passed:
            passed.add(above.index)
            above = self._parents[above.index]
        return above is boundary

    def _parents_first(self, nodes: Sequence[Node]) -> Iterator[Node]:
        """Yield lines in the order of the file, but each after its parent."""
        for node in nodes:
            parent = self._parents[node.index]
            if self._places[node.index] is None:
                if parent is not None and self._places[parent.index] is None:
                    yield from self._upwards(node)
                else:
                    yield node

    def _upwards(self, node: Node) -> list[Node]:
        """Return a line and its ancestors that are not placed, the topmost first; cut cycles.

        If the last message before a compaction is written only below the summary, the boundary's parent is one of its
        own descendants. That is not damage: the cycle is cut at the boundary, and the compaction follows the message
        before it.
        """
        waiting = [node]
        indexes = {node.index}
        while (above := self._parents[waiting[-1].index]) is not None and self._places[above.index] is None:
            if above.index in indexes:
                cycle = range(waiting.index(above), len(waiting))
                cut = next((at for at in cycle if waiting[at].kind == "boundary"), None)
                if cut is None:
                    self.cyclic.append(waiting[-1])
                else:
                    del waiting[cut + 1 :]  # these are below the boundary, and are yielded later
                self._parents[waiting[-1].index] = None
                break
            waiting.append(above)
            indexes.add(above.index)
        waiting.reverse()
        return waiting

    # -- placing lines in conversations

    def _place(self, node: Node) -> None:
        parent = self._parents[node.index]
        conversation, above = self._conversation(node, parent)
        above = _moved_below_compaction(node, conversation, above)
        is_repeat = self._repeats_kept(node, conversation, above)
        step = above if is_repeat or node.kind == "link" else self._step(node, conversation, above)
        place = above if step is not above and _is_late_result(step) else step
        if node.words and step is not None and step is not above:
            place = self._words(node, conversation, place, step.answer if place is step else None)
        self._places[node.index] = conversation, place, None if is_repeat else step
        if step is not None and node.kind != "link" and not is_repeat:
            conversation.touched.append(step)

    def _repeats_kept(self, node: Node, conversation: Conversation, above: Step | None) -> bool:
        """Return whether a line below a compaction repeats a message that the compaction kept."""
        earlier = self._earlier.get(node.index)
        if earlier is None or above is None or above.boundary is None or above.kept is None:
            return False
        where = self._places[earlier.index]
        if (
            where is None
            or where[0] is not conversation
            or earlier.kind != node.kind
            or earlier.message != node.message
        ):
            return False
        first = (above.kept.boundary or above.kept.nodes[0]).index
        return first <= earlier.index < above.boundary.index

    def _conversation(self, node: Node, parent: Node | None) -> tuple[Conversation, Step | None]:
        """Return the conversation of a line, and the step there that it is below."""
        place = self._places[parent.index] if parent is not None else None
        if (
            parent is not None
            and place is not None
            and parent.sidechain == node.sidechain
            and (parent.agent == node.agent or not node.sidechain)
        ):
            return place[:2]
        session = node.session or self._scan.session
        if not node.session:
            self._relies_on = session, self._relies_on[1]
        key = (session, (node.agent or node.uuid) if node.sidechain else "")
        conversation = self._conversations.get(key)
        if conversation is None:
            conversation = self._conversations[key] = Conversation(session, key[1], node)
            return conversation, None
        # A prompt without a parent starts a new root; everything else follows the last step.
        is_root = node.parent is None and node.kind in ("user", "queued", "attached", "command", "link")
        if is_root and self._scan.flat:
            self._relies_on = self._relies_on[0], True
            is_root = False
        return conversation, None if is_root else self._before(conversation)

    @staticmethod
    def _before(conversation: Conversation) -> Step | None:
        return conversation.steps[-1] if conversation.steps else None

    def _step(self, node: Node, conversation: Conversation, above: Step | None) -> Step:
        if node.kind == "results":
            return self._results(node, conversation, above)
        before = last_message(above)
        if node.kind == "attached":
            return self._attached(node, conversation, above, before)
        step = self._new_step(node, conversation, above)
        if isinstance(before, Answer) and step is not before:
            before.attached = None
        return step

    def _attached(self, node: Node, conversation: Conversation, above: Step | None, before: Step | None) -> Step:
        """Add an attachment; several to the calls of one answer follow each other, after all results."""
        answer = before if isinstance(before, Answer) else None
        last = answer.attached if answer is not None else None
        step = self._add_step("attached", node, conversation, last or above)
        step.before = before
        if answer is not None:
            answer.attached = step
        return step

    def _new_step(self, node: Node, conversation: Conversation, above: Step | None) -> Step:
        if node.kind == "assistant":
            return self._answer(node, conversation, above)
        if node.kind == "boundary":
            step = self._add_step("compaction", node, conversation, above)
            step.nodes, step.boundary = [], node
            conversation.pending_compaction = step
            self._note_kept(node, conversation, step)
            return step
        if node.kind == "summary":
            return self._summary(node, conversation, above)
        kind: StepKind = "user" if node.kind == "link" else node.kind
        return self._add_step(kind, node, conversation, above)

    def _note_kept(self, boundary: Node, conversation: Conversation, compaction: Step) -> None:
        """Record the messages before a compaction that it kept; the others are written below its summary."""
        places = [self._own_place(uuid) for uuid in boundary.facts.kept] if boundary.facts is not None else []
        kept = [step for where, step in places if where is conversation and step is not None and step.nodes]
        if kept:
            compaction.kept = kept[0]
            conversation.compacted[kept[-1].answer or kept[-1]] = compaction

    def _own_place(self, uuid: str) -> tuple[Conversation | None, Step | None]:
        """Return the conversation and step of the last line with an id that is placed, and repeats no other."""
        node = self._seen.get(uuid)
        while node is not None:
            place = self._places[node.index]
            if place is not None and place[2] is not None:
                return place[0], place[2]
            node = self._earlier.get(node.index)
        return None, None

    @staticmethod
    def _add_step(kind: StepKind, node: Node, conversation: Conversation, above: Step | None) -> Step:
        step = Step(kind, node, above)
        conversation.add(step)
        return step

    @staticmethod
    def _answer(node: Node, conversation: Conversation, above: Step | None) -> Step:
        step = conversation.answers.get(node.message) if node.message else None
        near = last_message(above)  # attachments to a call come before the next line
        if step is not None and (near is step or above is step.above):
            step.nodes.append(node)
        else:
            step = Answer(node, above)
            conversation.add(step)
            if node.message:
                conversation.answers[node.message] = step
        for call, name in node.calls:
            step.calls[call] = name
            conversation.callers[call] = step
        return step

    def _results(self, node: Node, conversation: Conversation, above: Step | None) -> Step:
        answer = self._answered_by(node, conversation, above)
        step = self._add_step("results", node, conversation, above)
        if answer is not None:
            answer.add_results(step)
        return step

    def _words(self, node: Node, conversation: Conversation, above: Step | None, answer: Answer | None) -> Step:
        """Add the words in a line of results; those of a late result follow the messages before them."""
        step = self._add_step("words", node, conversation, above)
        conversation.touched.append(step)
        if answer is not None:
            answer.add_words(step)
        return step

    @staticmethod
    def _answered_by(node: Node, conversation: Conversation, above: Step | None) -> Answer | None:
        """Return the answer whose calls a line of results answers; None if unknown, or answered already."""
        candidate = above.answer or above if above is not None else None
        answer = candidate if isinstance(candidate, Answer) else None
        named = [call for call in node.results if call]
        if answer is None or (named and not answer.calls.keys() & named):
            answer = next((conversation.callers[call] for call in named if call in conversation.callers), None)
        if answer is None:
            return None
        return None if answer.answered.intersection(named) else answer

    def _summary(self, node: Node, conversation: Conversation, above: Step | None) -> Step:
        is_pending = above is not None and above.boundary is not None and not above.nodes
        step = above if is_pending else conversation.pending_compaction
        if step is None:
            return self._add_step("compaction", node, conversation, above)
        step.nodes.append(node)
        conversation.pending_compaction = None
        return step


def _is_late_result(step: Step | None) -> bool:
    """Return whether a step holds results that are below a message later than the answer whose calls they answer."""
    if step is None or step.answer is None or step.above is None:
        return False
    above: Step | None = step.above.answer or step.above
    if above is step.answer:
        return False
    while above is not None and above is not step.answer:
        above = above.above
        above = above.answer or above if above is not None else None
    return above is not None


def _moved_below_compaction(node: Node, conversation: Conversation, above: Step | None) -> Step | None:
    """Return the step that a line is below: the compaction, if `above` is the last message that it kept.

    After a compaction, Claude Code continues below the summary or below the last message that was kept.
    """
    last = above.answer or above if above is not None else None
    compaction = conversation.compacted.get(last) if last is not None else None
    if compaction is None or compaction.boundary is None or node.index < compaction.boundary.index:
        return above
    continues_answer = node.kind == "assistant" and node.message and conversation.answers.get(node.message) is last
    return above if continues_answer else compaction
