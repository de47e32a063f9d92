"""opencode: what one message and its parts say.

An assistant's message may hold several steps: what the model said and called, the results, and what it said then. Each
becomes a message of its own, with the results of its calls behind it, since a model is told them in that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct, field

from ..content import Content
from ..entries import Compaction, Custom, Message, Usage
from .json_lines import Notes
from .opencode_parts import Said, call_of, created, file_of, result_of, text_of, thought_of, usage_of
from .opencode_storage import Record
from .values import Object, as_object, as_text, kept_json

_BOOKKEEPING = frozenset({"step-start", "snapshot", "patch", "compaction"})
_SPOKEN = frozenset({"text", "reasoning", "file", "tool"})


class _Step(Struct):
    time: datetime | None
    beginning: str = ""
    parts: list[Content] = field(default_factory=list[Content])
    after: list[Said] = field(default_factory=list[Said])
    called: bool = False
    begun: bool = False
    ended: bool = False
    usage: Usage | None = None


def model_of(info: Object) -> tuple[str, str]:
    """Return the provider and the model that a message names; empty where it names none."""
    named = as_object(info.get("model"))
    provider = as_text(info.get("providerID")) or as_text(named.get("providerID"))
    return provider, as_text(info.get("modelID")) or as_text(named.get("modelID"))


def read_user(record: Record, notes: Notes) -> Iterator[Said]:
    """Read a person's message."""
    time = created(record.info)
    shown: list[Content] = []
    rest: list[Said] = []
    for part in record.parts:
        kind = as_text(part.get("type"))
        if kind == "text" and part.get("ignored") is not True:
            shown.append(text_of(part))
        elif kind == "file":
            shown.append(file_of(part))
        elif kind in _BOOKKEEPING:
            notes.skip(f"part {kind}")
        else:
            rest.append(_custom(part, time))
    if shown or not record.parts:
        yield Said(Message("user", tuple(shown)), time)
    yield from rest


def read_answer(record: Record, notes: Notes) -> Iterator[Said]:
    """Read the model's message: an answer for each step, each followed by the results of its calls."""
    provider, model = model_of(record.info)
    steps = _steps(record, notes)
    failure = as_object(record.info.get("error"))
    said = as_text(as_object(failure.get("data")).get("message"))
    error = ": ".join(filter(None, (as_text(failure.get("name")), said))) or None
    for position, step in enumerate(steps):
        last = position == len(steps) - 1
        answer = Message(
            "assistant",
            tuple(step.parts),
            model=model or None,
            provider=provider or None,
            usage=step.usage,
            stop_reason=as_text(record.info.get("finish")) or None if last else None,
            error=error if last else None,
        )
        yield Said(answer, step.time, step.beginning)
        yield from step.after


def is_summary(info: Object) -> bool:
    """Tell whether a message is to summarize what came before it, be it finished or not."""
    return info.get("role") == "assistant" and info.get("summary") is True


def is_finished(record: Record) -> bool:
    """Tell whether a summary stands for what came before it: opencode goes by it when it ended, and without an error."""
    if record.info.get("error"):
        return False
    if record.info.get("finish") or as_object(record.info.get("time")).get("completed"):
        return True
    # Older versions do not say that it ended; where steps are told of, the last one tells it.
    kinds = [part.get("type") for part in record.parts]
    return bool(_summary(record)) and kinds.count("step-start") <= kinds.count("step-finish")


def read_summary(record: Record, first_kept: str | None, notes: Notes) -> Compaction:
    """Read a message that summarizes what came before it, and which of it is kept from `first_kept` on."""
    used = [step.usage for step in _steps(record, notes) if step.usage is not None]
    return Compaction(_summary(record), first_kept, 0, usage=sum(used[1:], used[0]) if used else None)


def _summary(record: Record) -> str:
    return "\n".join(as_text(part.get("text")) for part in record.parts if part.get("type") == "text")


def _steps(record: Record, notes: Notes) -> list[_Step]:
    steps = [_Step(created(record.info))]
    begins = False
    for part in record.parts:
        kind = as_text(part.get("type"))
        step = steps[-1]
        if kind in _SPOKEN and part.get("ignored") is not True:
            # Where a version does not tell of steps, what is said behind calls was said when their results were there.
            if begins or step.ended or (step.called and not step.begun and kind != "tool"):
                if step.parts or step.ended:
                    step = _next(steps, part)
                step.begun, begins = begins, False
            _say(step, kind, part)
        elif kind == "step-finish":
            tokens = as_object(part.get("tokens"))
            if tokens:
                step = _next(steps, part) if step.ended else step
                step.usage = usage_of(tokens, part)
            step.ended, begins = True, False
        elif kind in _BOOKKEEPING:
            begins = begins or kind == "step-start"
            notes.skip(f"part {kind}")
        else:
            step.after.append(_custom(part, created(part)))
    told = record.info.get("tokens")
    if isinstance(told, dict) and all(step.usage is None for step in steps):
        steps[-1].usage = usage_of(told, record.info)
    return steps


def _next(steps: list[_Step], part: Object) -> _Step:
    """Begin another step, of which a part is the first that is known."""
    time = created(part) or created(as_object(part.get("state"))) or steps[-1].time
    steps.append(_Step(time, as_text(part.get("id"))))
    return steps[-1]


def _say(step: _Step, kind: str, part: Object) -> None:
    if kind == "text":
        step.parts.append(text_of(part))
    elif kind == "reasoning":
        step.parts.append(thought_of(part))
    elif kind == "file":
        step.parts.append(file_of(part))
    else:
        step.parts.append(call_of(part))
        step.called = True
        step.after += result_of(part)


def _custom(part: Object, time: datetime | None) -> Said:
    return Said(Custom(f"opencode.{as_text(part.get('type')) or 'part'}", kept_json(part)), time)
