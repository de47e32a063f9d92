"""Commands about the chat itself: help, the model, what was sent, what was used, leaving."""

from __future__ import annotations

from collections.abc import Iterator

from ...events.entries import Usage
from ...projections.usage import UsageProjection
from ..debug import sent_lines
from ..output import as_json, clean
from .slash import slash
from .talk import Talk


@slash("help", "", "Tell which commands there are.")
async def help_(talk: Talk, rest: str) -> None:
    width = max(len(each.usage) for each in talk.commands)
    talk.lines(f"{each.usage:<{width}}  {each.help}" for each in talk.commands)


@slash("model", "[NAME]", "Tell which model answers, or have another one answer from here on.")
async def model(talk: Talk, rest: str) -> None:
    conversation = talk.conversation
    if rest:
        await conversation.use_model(rest)
    window = conversation.model.context_window
    known = "its window is not known" if window is None else f"a window of {window} tokens"
    talk.note(f"{conversation.model_name} answers, {known}")


@slash("usage", "", "Tell what the session has used on all branches, and how full the window is.")
async def usage(talk: Talk, rest: str) -> None:
    conversation = talk.conversation
    totals = await conversation.session.view(UsageProjection())
    talk.lines(_usage_lines("all branches", totals.total))
    for each in totals.by_model:
        if each.model is not None:
            talk.lines(_usage_lines(f"  {each.provider or '?'}/{each.model}", each.usage))
    used, budget = await conversation.used_tokens(), conversation.budget()
    of = "of a window that is not known" if budget is None else f"of {budget.model_context_window}"
    talk.lines([f"the next request takes about {used.total} tokens {of}"])


def _usage_lines(what: str, used: Usage) -> Iterator[str]:
    cached = used.cache_read_tokens + used.cache_write_tokens
    told = f"{clean(what)}: {used.input_tokens} tokens in, {used.output_tokens} out"
    yield told + (f", {cached} cached" if cached else "") + (f", cost {used.cost:.4f}" if used.cost else "")


@slash("debug context", "[--json]", "Show exactly what was sent last, by which strategy, with which counts.")
async def debug_context(talk: Talk, rest: str) -> None:
    sent = talk.conversation.sent
    if sent is None:
        talk.note("nothing was sent yet")
    elif rest == "--json":
        talk.lines([as_json(sent.to_json()).decode()])
    else:
        talk.lines(sent_lines(sent))


@slash("exit", "", "Leave; everything is kept. Ctrl-D does the same.")
async def exit_(talk: Talk, rest: str) -> None:
    talk.leaving = True
