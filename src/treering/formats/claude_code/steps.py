"""The steps of a conversation of Claude Code, each of which becomes one entry; `tree` makes them of lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from ..chain import derived_id
from .scan import Node

StepKind: TypeAlias = Literal["user", "results", "assistant", "compaction", "queued", "attached", "command", "words"]
"""The kind of a step; `words` are those of the user in a line of results."""


class Step:
    """The lines that become one entry.

    Attributes:
        kind: What it is.
        id: The entry's id, which is the id of its first line; derived from it for words, and where another step of the
            conversation has that id.
        nodes: Its lines.
        above: The step that it is below in the file; None for a root.
        answer: For results, and words beside them: the answer whose calls the results answer.
        before: For these: the step that they follow. For an attachment: the last message before it.
        unnamed: For results: the calls answered by the results that do not name a call, in order.
        boundary: For a compaction: its boundary line.
        kept: For a compaction: the first step that it kept.
        position: Its position in the conversation, from 0.
    """

    __slots__ = ("above", "answer", "before", "boundary", "id", "kept", "kind", "nodes", "position", "unnamed")

    def __init__(self, kind: StepKind, node: Node, above: Step | None) -> None:
        self.kind = kind
        self.id = node.uuid if kind != "words" else derived_id("claude-code", node.uuid, kind)
        self.nodes = [node]
        self.above = above
        self.answer: Answer | None = None
        self.before: Step | None = None
        self.unnamed: list[str] = []
        self.boundary: Node | None = None
        self.kept: Step | None = None
        self.position = 0

    @property
    def end(self) -> Step | None:
        """The step that children of this step follow, once all lines are placed: the last words or result of an answer.

        A compaction without a summary is not a step; it is skipped.
        """
        step: Step | None = self.answer or self
        skipped: list[Step] = []
        while step is not None and not step.nodes:
            skipped.append(step)
            step = step.above
            step = step.answer or step if step is not None else None
        for each in skipped:
            each.above = step  # shorten the path: chains may be long and have many children
        return step.last if isinstance(step, Answer) else step

    @property
    def parent(self) -> Step | None:
        """The step whose entry is the parent of this one's."""
        if self.answer is not None:
            return self.before or self.answer.last_result
        return self.above.end if self.above is not None else None


class Answer(Step):
    """A message of the assistant.

    Attributes:
        calls: The names of the tools that it calls, by call id.
        attached: The last attachment to it or its results, as long as nothing else follows them.
        results: The steps that answer these calls, in order.
        words: The steps with the words beside these results, in order.
        answered: The ids of the calls that have results.
    """

    __slots__ = ("answered", "attached", "calls", "results", "words")

    def __init__(self, node: Node, above: Step | None) -> None:
        super().__init__("assistant", node, above)
        self.attached: Step | None = None
        self.calls: dict[str, str] = {}
        self.results: list[Step] = []
        self.words: list[Step] = []
        self.answered: set[str] = set()

    @property
    def last_result(self) -> Step:
        """The last step that answers a call, or this one."""
        return self.results[-1] if self.results else self

    @property
    def last(self) -> Step:
        """The last step of the answer, its results, and the words beside them."""
        return self.words[-1] if self.words else self.last_result

    def add_words(self, step: Step) -> None:
        """Add a step with words beside results of its calls."""
        step.answer = self
        step.before = self.words[-1] if self.words else None  # the last result, which may be still to come
        self.words.append(step)

    def add_results(self, step: Step) -> None:
        """Add a step with results of its calls."""
        step.answer = self
        step.before = self.last_result
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
        agent: The id of its sub-agent, or of its root if the sub-agent has no id; "" for the user's own conversation.
        first: Its first line.
        steps: Its steps, parents first.
        answers: Its answers, by message id.
        callers: Its answers, by the ids of their calls.
        pending_compaction: A compaction whose summary has not been seen yet.
        compacted: The compactions that kept messages, by the last step that each kept.
        renamed: The first lines of the steps whose id another step had.
        touched: The steps that got lines since `changed` was called, in the order of the lines.
    """

    __slots__ = (
        "_uses",
        "agent",
        "answers",
        "callers",
        "compacted",
        "first",
        "pending_compaction",
        "renamed",
        "session",
        "steps",
        "touched",
    )

    def __init__(self, session: str, agent: str, first: Node) -> None:
        self.session = session
        self.agent = agent
        self.first = first
        self.steps: list[Step] = []
        self.answers: dict[str, Answer] = {}
        self.callers: dict[str, Answer] = {}
        self.pending_compaction: Step | None = None
        self.compacted: dict[Step, Step] = {}
        self.renamed: list[Node] = []
        self.touched: list[Step] = []
        self._uses: dict[str, int] = {}  # how often each id was asked for

    def add(self, step: Step) -> None:
        """Add a step, under an id that no other step has."""
        wanted = step.id
        while step.id in self._uses:
            self._uses[wanted] += 1
            step.id = derived_id("claude-code", wanted, "again", str(self._uses[wanted]))
        if step.id != wanted:
            self.renamed.append(step.nodes[0])
        self._uses[step.id] = 1
        step.position = len(self.steps)
        self.steps.append(step)

    def in_order(self) -> Iterator[Step]:
        """Yield its steps, each after its parent, and results directly after their answer.

        The last step is the leaf of the conversation.
        """
        return _in_order(self.steps)

    @property
    def says_something(self) -> bool:
        """Whether it has a message."""
        return any(step.kind != "attached" for step in self.in_order())

    def changed(self) -> list[Step]:
        """Return the steps that got lines since this was asked last, in order, without early ones, which come later."""
        touched = set(self.touched)
        early = touched.intersection(self.early())
        self.touched = [*early]
        changed = touched - early
        owners = {step.answer or step for step in changed}
        return [step for step in _in_order(sorted(owners, key=lambda each: each.position)) if step in changed]

    def early(self) -> list[Step]:
        """Return the attachments and words at its end that a result will precede, which is not in the file so far."""
        early: list[Step] = []
        for step in reversed(self.steps):
            if step.kind not in ("attached", "results", "words"):
                break
            answer = last_message(step)
            if step.kind != "results" and isinstance(answer, Answer) and not answer.answered.issuperset(answer.calls):
                early.append(step)
        return early


def _in_order(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        if step.answer is None and step.nodes:
            yield step
            if isinstance(step, Answer):
                yield from step.results
                yield from step.words


def last_message(step: Step | None) -> Step | None:
    """Return the last step up to this one that is no attachment; for results, the answer whose calls they answer."""
    if step is not None and step.kind == "attached":
        return step.before
    return step.answer or step if step is not None else None
