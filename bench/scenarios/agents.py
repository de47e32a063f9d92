"""What an agent sends to a scripted model in a long conversation that does not fit the model's window.

In each turn the user asks, the model calls a tool, and then answers. All sides count tokens with the byte estimate. The
tokens that the full history would have taken are computed along the way, which needs no window of that size.
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
    SessionHost,
    Tool,
    plain_text,
    tool_use,
)
from treering.agents import ModelRequest
from treering.projections.building.masking import MaskedTools
from treering.projections.building.strategies import FullHistory, MinimalState, RecentPlusSummary
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
    """The figures of one conversation.

    Attributes:
        turns: The number of turns.
        requests: The number of requests for turns.
        sent: The tokens of those requests.
        summaries: The number of requests for summaries.
        summary_tokens: The tokens of those requests.
        over: The number of requests that were larger than the window minus the reserve.
        lost: The share of a request, in percent, with which the next request does not begin.
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


def _common_prefix_length(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix of two requests."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


async def _converse(turns: int, strategies: Sequence[ContextStrategy]) -> tuple[Figures, int]:
    """Run a conversation; return its figures and the tokens that the full history would have taken."""
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
            tools=[Tool("read", "Read a file.", parameters={"type": "object"}, handler=read)],
            options=AgentOptions(reserve_for_response=RESERVE, builder=ContextBuilder(strategies=strategies)),
        )
        for _ in range(turns):
            await agent.respond(_words(random, 25))
        messages = await session.all_messages()
    tokens_before = list(accumulate((count_messages((each,)) for each in messages), initial=0))
    full = sum(size for each, size in zip(messages, tokens_before, strict=False) if each.role == "assistant")
    return _figures(turns, model.requests), full


def _figures(turns: int, requests: Sequence[ModelRequest]) -> Figures:
    turn_requests = [each for each in requests if not _is_summary(each)]
    summary_requests = [each for each in requests if _is_summary(each)]
    sizes = [count_messages(each.messages) for each in turn_requests]
    bodies = [_body(each.messages)[:-1] for each in turn_requests]  # without the bracket that closes the list
    repeated_bytes = sum(_common_prefix_length(one, other) for one, other in pairwise(bodies))
    return Figures(
        turns,
        len(turn_requests),
        sum(sizes),
        len(summary_requests),
        sum(count_messages(each.messages) for each in summary_requests),
        sum(size > WINDOW - RESERVE for size in sizes),
        100 * (1 - repeated_bytes / sum(map(len, bodies[:-1]))),
    )


STRATEGIES: dict[str, Callable[[], list[ContextStrategy]]] = {
    "masking, then summaries": lambda: [FullHistory(), MaskedTools(), RecentPlusSummary(), MinimalState()],
    "summaries alone": lambda: [FullHistory(), RecentPlusSummary(), MinimalState()],
}


@cache
def _simulated(name: str, turns: int) -> tuple[Figures, int]:
    return anyio.run(_converse, turns, STRATEGIES[name]())


def _figure(name: str, turns: int, of: str, space: Workspace) -> Sample:
    figures, full = _simulated(name, turns)
    values = {
        "sent": (figures.sent + figures.summary_tokens) / figures.turns,
        "full": full / figures.turns,
        "summaries": float(figures.summaries),
        "over": float(figures.over),
        "lost": figures.lost,
    }
    return Sample(figures.requests, value=values[of])


def _sides(of: str, peers: Sequence[Peer], scale: Scale) -> list[Side]:
    turns = min(TURNS, max(40, scale.messages // 8))
    sides = [Side(name, partial(_figure, name, turns, of)) for name in STRATEGIES]
    if of == "sent":
        sides.append(Side("full history", partial(_figure, "summaries alone", turns, "full")))
    return sides


_NOTE = (
    f"{TURNS:,} turns (fewer unless the run is full) in one session, with a context window of {WINDOW:,} tokens, "
    f"{RESERVE:,} of which are reserved for the response."
)
_NONE_OVER = tuple(Goal(name, "figure", 0) for name in STRATEGIES)

SCENARIOS = [
    Scenario(
        "agent-tokens",
        "tokens sent per turn of a long conversation, including those for summaries",
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
        "requests of a long conversation that exceeded the budget",
        "requests",
        value,
        partial(_sides, "over"),
        _NONE_OVER,
        rounds_max=1,
        note=_NOTE,
    ),
    Scenario(
        "agent-summaries",
        "summaries requested in a long conversation",
        "summaries",
        value,
        partial(_sides, "summaries"),
        (Goal("masking, then summaries", "figure", TURNS / 5),),
        rounds_max=1,
        note=_NOTE,
    ),
    Scenario(
        "agent-prefix",
        "share of a request with which the next request does not begin",
        "%",
        value,
        partial(_sides, "lost"),
        (Goal("masking, then summaries", "figure", 20),),
        rounds_max=1,
        note=f"{_NOTE} A provider's prompt cache covers the rest. The full history loses nothing.",
    ),
]
