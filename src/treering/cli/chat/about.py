"""Slash commands about the chat itself: help, model, usage, the last request, leaving."""

from __future__ import annotations

from collections.abc import Iterator

from ...events.entries import Usage
from ...projections.usage import UsageProjection
from ..commands.debug import sent_lines
from ..output import as_json, clean
from .chat import Chat
from .slash import slash


@slash("help", "", "List the commands.")
async def help_(chat: Chat, rest: str) -> None:
    width = max(len(each.usage) for each in chat.commands)
    chat.lines(f"{each.usage:<{width}}  {each.help}" for each in chat.commands)


@slash("model", "[NAME]", "Show which model answers, or switch to another one.")
async def model(chat: Chat, rest: str) -> None:
    conversation = chat.conversation
    if rest:
        await conversation.use_model(rest)
    window = conversation.model.context_window
    capacity = "with an unknown window" if window is None else f"with a window of {window} tokens"
    chat.note(f"{conversation.model_name} answers, {capacity}")


@slash("usage", "", "Show the usage on all branches, and how full the window is.")
async def usage(chat: Chat, rest: str) -> None:
    conversation = chat.conversation
    totals = await conversation.session.view(UsageProjection())
    chat.lines(_usage_lines("all branches", totals.total))
    for each in totals.by_model:
        if each.model is not None:
            chat.lines(_usage_lines(f"  {each.provider or '?'}/{each.model}", each.usage))
    used, budget = await conversation.used_tokens(), conversation.budget()
    limit = "of an unknown window" if budget is None else f"of {budget.model_context_window}"
    chat.lines([f"the next request takes about {used.total} tokens {limit}"])


def _usage_lines(scope: str, used: Usage) -> Iterator[str]:
    cached = used.cache_read_tokens + used.cache_write_tokens
    totals = f"{clean(scope)}: {used.input_tokens} tokens in, {used.output_tokens} out"
    yield totals + (f", {cached} cached" if cached else "") + (f", cost {used.cost:.4f}" if used.cost else "")


@slash("debug context", "[--json]", "Show exactly what was sent last, with its strategy and counts.")
async def debug_context(chat: Chat, rest: str) -> None:
    sent = chat.conversation.sent
    if sent is None:
        chat.note("nothing has been sent yet")
    elif rest == "--json":
        chat.lines([as_json(sent.to_json()).decode()])
    else:
        chat.lines(sent_lines(sent))


@slash("exit", "", "Leave; everything is stored. Ctrl-D does the same.")
async def exit_(chat: Chat, rest: str) -> None:
    chat.leaving = True
