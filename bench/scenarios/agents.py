"""What an agent sends in a long conversation that does not fit its model's window, by a model that follows a script.

Each turn, the user asks, the model calls a tool, and answers. Tokens are the estimate by bytes on all sides. What the full
history would have taken is added up beside it: no window of that size is needed for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import accumulate, pairwise
from random import Random

import anyio
import msgspec
from msgspec import Struct

from treering import (
    AgentOptions,
    AgentSession,
    ContextBuilder,
    ContextStrategy,
    Message,
    ModelRequest,
    SessionHost,
    Tool,
    plain_text,
    tool_use,
)
from treering.projections.building.full_history import FullHistory
from treering.projections.building.masking import MaskedTools
from treering.projections.building.minimal_state import MinimalState
from treering.projections.building.recent_plus_summary import RecentPlusSummary
from treering.projections.tokens import count_messages
from treering.testing.models import ScriptedModel, Step, answer

from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, value
from ..timing import Sample
from ..workspace import Workspace

WINDOW = 4_096
RESERVE = 1_024
TURNS = 1_000
WORDS = (
    "the",
    "reader",
    "opens",
    "a",
    "file",
    "and",
    "finds",
    "that",
    "nothing",
    "in",
    "it",
    "is",
    "as",
    "was",
    "said",
)
SUMMARY = "The user has small changes made to files, one after the other; each was read, changed and checked. " * 4


class Figures(Struct, frozen=True):
    """What came of one conversation.

    Attributes:
        turns: How many turns it had.
        requests: How many requests the turns took.
        sent: The tokens of all of them.
        summaries: How many requests were for summaries.
        summary_tokens: What those took.
        over: How many requests were larger than the window minus the reserve.
        lost: Of the bytes that a request repeats of the one before, the share that is no longer its beginning.
    """

    turns: int
    requests: int
    sent: int
    summaries: int
    summary_tokens: int
    over: int
    lost: float


def _words(random: Random, count: int) -> str:
    return " ".join(random.choices(WORDS, k=count))


def _is_summary(request: ModelRequest) -> bool:
    return bool(request.messages) and "You write the summary" in plain_text(request.messages[0].content)


def _body(messages: Sequence[Message]) -> bytes:
    return msgspec.json.encode([(each.role, each.content) for each in messages])


def _common(one: bytes, other: bytes) -> int:
    """Return how many bytes two requests have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


async def _converse(turns: int, strategies: Sequence[ContextStrategy]) -> tuple[Figures, int]:
    """Hold a conversation; return its figures, and what the full history would have taken."""
    random = Random(turns)

    async def read(arguments: object) -> str:
        return _words(random, random.choice((20, 60, 200)))

    def step(request: ModelRequest) -> Step:
        if _is_summary(request):
            return SUMMARY
        if request.messages[-1].role == "tool":
            return _words(random, 30)
        return answer(tool_use(f"call-{len(model.requests)}", "read", {"path": _words(random, 2)}))

    model = ScriptedModel(step, context_window=WINDOW, piece_chars=1_000)
    async with SessionHost() as host:
        session = await host.create()
        agent = AgentSession(
            model,
            session=session,
            tools=[Tool("read", "Read a file.", {"type": "object"}, read)],
            options=AgentOptions(reserve_for_response=RESERVE, builder=ContextBuilder(strategies=strategies)),
        )
        for _ in range(turns):
            await agent.respond(_words(random, 25))
        said = await session.all_messages()
    asked = [each for each in model.requests if not _is_summary(each)]
    summed = [each for each in model.requests if _is_summary(each)]
    sizes = [count_messages(each.messages) for each in asked]
    bodies = [_body(each.messages)[:-1] for each in asked]  # without the bracket that closes the list
    kept = sum(_common(one, other) for one, other in pairwise(bodies))
    before = list(accumulate((count_messages((each,)) for each in said), initial=0))
    full = sum(size for each, size in zip(said, before, strict=False) if each.role == "assistant")
    figures = Figures(
        turns,
        len(asked),
        sum(sizes),
        len(summed),
        sum(count_messages(each.messages) for each in summed),
        sum(size > WINDOW - RESERVE for size in sizes),
        100 * (1 - kept / sum(map(len, bodies[:-1]))),
    )
    return figures, full


STRATEGIES: dict[str, Callable[[], list[ContextStrategy]]] = {
    "masking, then summaries": lambda: [FullHistory(), MaskedTools(), RecentPlusSummary(), MinimalState()],
    "summaries alone": lambda: [FullHistory(), RecentPlusSummary(), MinimalState()],
}


@cache
def _simulated(name: str, turns: int) -> tuple[Figures, int]:
    return anyio.run(_converse, turns, STRATEGIES[name]())


def _figure(name: str, turns: int, of: str, space: Workspace) -> Sample:
    figures, full = _simulated(name, turns)
    told = {
        "sent": (figures.sent + figures.summary_tokens) / figures.turns,
        "full": full / figures.turns,
        "summaries": float(figures.summaries),
        "over": float(figures.over),
        "lost": figures.lost,
    }
    return Sample(figures.requests, value=told[of])


def _sides(of: str, peers: Sequence[Peer], scale: Scale) -> list[Side]:
    turns = min(TURNS, max(40, scale.messages // 8))
    sides = [Side(name, partial(_figure, name, turns, of)) for name in STRATEGIES]
    if of == "sent":
        sides.append(Side("full history", partial(_figure, "summaries alone", turns, "full")))
    return sides


_NOTE = f"{TURNS:,} turns (fewer where the run is no full one) of one session against a window of {WINDOW:,} tokens, {RESERVE:,} of them reserved."
_BOTH = tuple(Goal(name, "figure", 0) for name in STRATEGIES)

SCENARIOS = [
    Scenario(
        "agent-tokens",
        "tokens sent per turn of a long conversation, those for summaries included",
        "tokens",
        value,
        partial(_sides, "sent"),
        (Goal("masking, then summaries", "speed", 10),),
        yardstick="full history",
        rounds_max=1,
        note=_NOTE,
    ),
    Scenario(
        "agent-over-budget",
        "requests of a long conversation that were larger than the budget",
        "requests",
        value,
        partial(_sides, "over"),
        _BOTH,
        rounds_max=1,
        note=_NOTE,
    ),
    Scenario(
        "agent-summaries",
        "how often a long conversation asks for a summary",
        "summaries",
        value,
        partial(_sides, "summaries"),
        (Goal("masking, then summaries", "figure", TURNS / 5),),
        rounds_max=1,
        note=_NOTE,
    ),
    Scenario(
        "agent-prefix",
        "what a request no longer begins with, of the one before it",
        "%",
        value,
        partial(_sides, "lost"),
        (Goal("masking, then summaries", "figure", 20),),
        rounds_max=1,
        note=f"{_NOTE} A provider's prompt cache holds the rest. The full history loses nothing.",
    ),
]
