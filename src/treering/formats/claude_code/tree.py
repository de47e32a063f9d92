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

from collections.abc import Iterator

from .scan import Node, Scan
from .steps import Answer, Conversation, Step, StepKind, last_message


class Tree:
    """The conversations of a transcript.

    Attributes:
        conversations: The conversations with at least one message, in the order in which they begin.
        alone: The attachments in conversations that have no message.
        lost: The lines whose parents are not in the file.
        cyclic: The lines at which cycles of parents were cut, one per cycle.
    """

    def __init__(self, scan: Scan) -> None:
        self.alone: list[Node] = []
        self.lost: list[Node] = []
        self.cyclic: list[Node] = []
        self._scan = scan
        self._conversations: dict[tuple[str, str], Conversation] = {}
        self._earlier: dict[int, Node] = {}  # by a line's index, the earlier line with the same id
        self._parents = self._resolve_parents()
        self._places: dict[int, tuple[Conversation, Step | None]] = {}
        self._kept: dict[str, tuple[Conversation, Step] | None] = {  # places of the lines that a compaction kept
            uuid: None for node in scan.nodes if node.facts is not None for uuid in node.facts.kept
        }
        for node in self._parents_first():
            self._place(node)
        self.conversations: list[Conversation] = []
        for conversation in self._conversations.values():
            steps = list(conversation.in_order())
            if any(step.kind != "attached" for step in steps):
                self.conversations.append(conversation)
            else:
                self.alone += (step.nodes[0] for step in steps)

    # -- parents of lines

    def _resolve_parents(self) -> list[Node | None]:
        """Return the parent of each line: the nearest earlier line with the parent's id, or else the last later one."""
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
        """Yield the lines in the order of the file, but each after its parent."""
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
        """Return a line and its ancestors that are not done, the topmost first; cut cycles.

        If the last message before a compaction is written only below the summary, the boundary's parent is one of its
        own descendants. That is not damage: the cycle is cut at the boundary, and the compaction follows the message
        before it.
        """
        waiting = [node]
        indexes = {node.index}
        while (above := self._parents[waiting[-1].index]) is not None and not done[above.index]:
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
        self._places[node.index] = conversation, place
        if node.uuid in self._kept and step is not None and not is_repeat:
            self._kept[node.uuid] = conversation, step

    def _repeats_kept(self, node: Node, conversation: Conversation, above: Step | None) -> bool:
        """Return whether a line below a compaction repeats a message that the compaction kept."""
        earlier = self._earlier.get(node.index)
        if earlier is None or above is None or above.boundary is None or above.kept is None:
            return False
        where = self._places.get(earlier.index)
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
        if (
            parent is not None
            and parent.sidechain == node.sidechain
            and (parent.agent == node.agent or not node.sidechain)
        ):
            return self._places[parent.index]
        session = node.session or self._scan.session
        key = (session, (node.agent or node.uuid) if node.sidechain else "")
        conversation = self._conversations.get(key)
        if conversation is None:
            conversation = self._conversations[key] = Conversation(session, key[1], node)
            return conversation, None
        # A prompt without a parent starts a new root; everything else follows the last step.
        is_root = (
            node.parent is None
            and node.kind in ("user", "queued", "attached", "command", "link")
            and not self._scan.flat
        )
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
        places = (self._kept[uuid] for uuid in boundary.facts.kept) if boundary.facts is not None else ()
        kept = [place[1] for place in places if place is not None and place[0] is conversation and place[1].nodes]
        if kept:
            compaction.kept = kept[0]
            conversation.compacted[kept[-1].answer or kept[-1]] = compaction

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
