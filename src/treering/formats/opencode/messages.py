"""opencode: reading a message and its parts: texts, thoughts, files, calls with their results, and usage.

An assistant message may hold several steps: what the model said and called, the results, and what it said afterwards.
Each step becomes a message of its own, followed by the results of its calls: the order in which a model receives them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct, field

from ...events.content import (
    Content,
    ImagePart,
    Text,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolUse,
    ToolUsePart,
    text,
    tool_result,
)
from ...events.entries import Compaction, Custom, Message, Payload, ToolExecution, Usage
from ...events.json_values import JSON
from ...events.providers.common import image_at
from ..json_lines import Notes, carries_text, names_in
from ..messages import marks_of
from ..values import (
    Object,
    as_arguments,
    as_count,
    as_number,
    as_object,
    as_objects,
    as_text,
    as_time,
    as_words,
    kept_json,
)
from .storage import Record

_ENDED = frozenset({"completed", "error"})
_SIGNATURES = ("signature", "thoughtSignature")
_BOOKKEEPING = names_in("step-start snapshot patch compaction")
_CONTENT = names_in("text reasoning file tool")
_ASIDE = names_in("agent patch retry subtask")
_INFO_FIELDS = names_in(
    "agent cost error finish format id metadata mode model modelID parentID path providerID role sessionID snapshot",
    "summary time tokens tools variant",
)

_PROMPT = "system"
"""What the first versions repeat with each answer: their own instructions. With a question, it is the user's."""

_FAILURE_FIELDS = frozenset({"data", "name"})
_ERROR_FIELDS = names_in(
    "code isRetryable message metadata providerID responseBody responseHeaders retries statusCode url"
)
_STATE_FIELDS = names_in("attachments error input metadata output raw status time title")
_PART_FIELDS = names_in(
    "auto cost files overflow reason tail_start_id tokens callID filename hash id ignored messageID metadata mime",
    "sessionID snapshot source state synthetic text time tool type url",
)
_STOP_REASONS = {"tool-calls": "tool_use", "content-filter": "refusal"}
_ABORTED = "MessageAbortedError"


class Item(Struct, frozen=True):
    """A payload read from a message, and its time.

    Attributes:
        payload: The payload of the entry to make.
        time: When it was written; None if unknown.
        beginning: The id of the first part, if later parts may still be missing; "" otherwise.
        cleared: When opencode cleared this result: it is stored, but no longer sent; None if it was not cleared.
    """

    payload: Payload
    time: datetime | None
    beginning: str = ""
    cleared: datetime | None = None


def created(value: Object) -> datetime | None:
    """Return the time at which a message, a part or a session began."""
    time = as_object(value.get("time"))
    return as_time(time.get("created", time.get("start")))


def _text_of(part: Object) -> TextPart:
    """Return a text part with its provider's signature."""
    return TextPart(Text(as_words(part.get("text")), _provider_metadata(part, *_SIGNATURES)))


def _thought_of(part: Object) -> ThinkingPart:
    """Return a thinking part with its provider's signature, or with the encrypted data if it is redacted."""
    redacted = _provider_metadata(part, "redactedData")
    if redacted is not None:
        return ThinkingPart(Thinking(as_words(part.get("text")), redacted, redacted=True))
    return ThinkingPart(Thinking(as_words(part.get("text")), _provider_metadata(part, *_SIGNATURES)))


def _file_of(part: Object) -> TextPart | ImagePart:
    """Return an image part; for any other file, a text that names it."""
    url, media_type = as_text(part.get("url")), as_text(part.get("mime"))
    if media_type.startswith("image/") and url:
        return image_at(url, media_type)
    name = media_type if url.startswith("data:") else url  # a data URL would repeat the file's content
    return text(f"[file: {as_text(part.get('filename')) or name}]")


def _call_of(part: Object) -> ToolUsePart:
    """Return a tool call part."""
    arguments = as_arguments(as_object(part.get("state")).get("input"))
    return ToolUsePart(ToolUse(_call_id(part), _tool(part), arguments, _provider_metadata(part, *_SIGNATURES)))


def _result_of(part: Object) -> tuple[Item, ...]:
    """Return the result of a call and the record of its run; () if the call has not ended.

    The result of a call that was interrupted is the output until then, if the tool kept it.
    """
    state = as_object(part.get("state"))
    if as_text(state.get("status")) not in _ENDED:
        return ()
    call_id, name = _call_id(part), _tool(part)
    failed = state.get("status") == "error"
    metadata, error = as_object(state.get("metadata")), as_words(state.get("error"))
    kept_output = metadata.get("output") if failed and metadata.get("interrupted") is True else None
    is_error = failed and not isinstance(kept_output, str)
    output = error if is_error else as_words(kept_output if failed else state.get("output"))
    attachments = [*map(_file_of, as_objects(state.get("attachments")))]
    body: str | list[TextPart | ImagePart] = [text(output), *attachments] if attachments else output
    times = as_object(state.get("time"))
    start, end = as_number(times.get("start")), as_number(times.get("end"))
    exit_code = as_number(metadata.get("exit"))
    run = ToolExecution(
        call_id or "unknown",
        name,
        as_arguments(state.get("input")),
        success=not failed,
        error=error if failed else None,
        exit_code=None if exit_code is None else int(exit_code),
        duration_ms=None if start is None or end is None else max(0.0, end - start),
    )
    ended = as_time(times.get("end"))
    result = Message("tool", (tool_result(call_id, body, is_error=is_error),), tool_name=name)
    cleared = as_time(times["compacted"]) if times.get("compacted") and not failed else None
    return Item(result, ended, cleared=cleared), Item(run, ended)


def _usage_of(tokens: Object, holder: Object) -> Usage:
    """Return the usage given by `tokens`; `holder` gives the cost."""
    cache = as_object(tokens.get("cache"))
    read, written = as_count(cache.get("read")), as_count(cache.get("write"))
    input_tokens = as_count(tokens.get("input"))
    output_tokens = as_count(tokens.get("output")) + as_count(tokens.get("reasoning"))
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
        total_tokens=input_tokens + output_tokens + read + written,
        cost=as_number(holder.get("cost")) or 0.0,
    )


def _call_id(part: Object) -> str:
    return as_text(part.get("callID")) or as_text(part.get("id"))


def _tool(part: Object) -> str:
    return as_text(part.get("tool")) or "unknown"


def _provider_metadata(part: Object, *names: str) -> str | None:
    """Return the first of the named members in a part's metadata, which is grouped by provider; None without one."""
    for members in as_object(part.get("metadata")).values():
        for name in names:
            value = as_text(as_object(members).get(name))
            if value:
                return value
    return None


class _Step(Struct):
    time: datetime | None
    beginning: str = ""
    parts: list[Content] = field(default_factory=list[Content])
    results: list[Item] = field(default_factory=list[Item])
    has_calls: bool = False
    has_start: bool = False
    has_ended: bool = False
    usage: Usage | None = None


def model_of(info: Object) -> tuple[str, str]:
    """Return the provider and the model that a message names; "" for each one that it does not name."""
    named = as_object(info.get("model"))
    provider = as_text(info.get("providerID")) or as_text(named.get("providerID"))
    return provider, as_text(info.get("modelID")) or as_text(named.get("modelID"))


def read_user(record: Record, notes: Notes) -> Iterator[Item]:
    """Read a user message; one without parts is left to a later import, for which they will have been written."""
    time = created(record.info)
    content: list[Content] = []
    rest: list[Item] = []
    synthetic: set[int] = set()  # the positions of the texts that opencode wrote
    for part in record.parts:
        kind = as_text(part.get("type"))
        _check_fields(part, kind, notes)
        if kind == "text" and part.get("ignored") is not True:
            if part.get("synthetic") is True:
                synthetic.add(len(content))
            content.append(_text_of(part))
        elif kind == "file":
            content.append(_file_of(part))
        elif kind in _BOOKKEEPING:
            notes.skip(f"part {kind}")
        else:
            rest.append(_custom(part, time, notes))
    if content:
        marks = marks_of(content, lambda at, part: len(part.text.content) if at in synthetic else 0)
        yield Item(Message("user", tuple(content), raw_metadata=kept_json(marks) if marks else None), time)
    yield from rest


def read_answer(record: Record, notes: Notes) -> Iterator[Item]:
    """Read the model's message: one answer per step, each followed by the results of its calls."""
    provider, model = model_of(record.info)
    steps = _steps(record, notes)
    error = _error_of(record.info.get("error"), notes)
    for position, step in enumerate(steps):
        is_last = position == len(steps) - 1
        answer = Message(
            "assistant",
            tuple(step.parts),
            model=model or None,
            provider=provider or None,
            usage=step.usage,
            stop_reason=_stop_reason(record.info) if is_last else None,
            error=error if is_last else None,
        )
        yield Item(answer, step.time, step.beginning)
        yield from step.results


def _error_of(failure: JSON, notes: Notes) -> str | None:
    """Return why an answer failed: the name of the error with its message, or all of it if it has another form."""
    if not isinstance(failure, dict):
        return as_words(failure) or None
    data = failure.get("data")
    fields = as_object(data)
    notes.check_fields("error", failure, _FAILURE_FIELDS)
    notes.check_fields("error", fields, _ERROR_FIELDS)
    reason = as_words(fields.get("message") if isinstance(data, dict) else data)
    return ": ".join(filter(None, (as_text(failure.get("name")), reason))) or None


def _stop_reason(info: Object) -> str | None:
    """Return why an answer ended, in treering's term if there is one."""
    if info.get("error"):
        return "aborted" if as_object(info["error"]).get("name") == _ABORTED else "error"
    reason = as_text(info.get("finish"))
    return _STOP_REASONS.get(reason, reason) or None


def is_hidden(record: Record) -> bool:
    """Return whether opencode leaves an answer out of later requests: it failed, or was aborted without any content."""
    failure = as_object(record.info.get("error"))
    if not failure:
        return False
    has_content = any(part.get("type") not in ("step-start", "reasoning") for part in record.parts)
    return not (failure.get("name") == _ABORTED and has_content)


def is_summary(info: Object) -> bool:
    """Return whether a message is a summary of earlier messages, finished or not."""
    return info.get("role") == "assistant" and info.get("summary") is True


def is_finished(record: Record) -> bool:
    """Return whether a summary replaces earlier messages: opencode uses it once it has ended without an error."""
    if record.info.get("error"):
        return False
    if record.info.get("finish") or as_object(record.info.get("time")).get("completed"):
        return True
    # Older versions do not record the end of a summary; if they record steps, it ended when the last step did.
    kinds = [part.get("type") for part in record.parts]
    return bool(_summary(record)) and kinds.count("step-start") <= kinds.count("step-finish")


def read_summary(record: Record, first_kept: str | None, notes: Notes) -> Compaction:
    """Read a summary of earlier messages, of which those from `first_kept` on are kept."""
    usages = [step.usage for step in _steps(record, notes) if step.usage is not None]
    for part in record.parts:
        if part.get("type") not in ("text", *_BOOKKEEPING) and carries_text(part):
            notes.leave_out("part of a summary", part)
    return Compaction(_summary(record), first_kept, 0, usage=sum(usages[1:], usages[0]) if usages else None)


def _summary(record: Record) -> str:
    return "\n".join(as_text(part.get("text")) for part in record.parts if part.get("type") == "text")


def _steps(record: Record, notes: Notes) -> list[_Step]:
    steps = [_Step(created(record.info))]
    begins_step = False
    for part in record.parts:
        kind = as_text(part.get("type"))
        _check_fields(part, kind, notes)
        step = steps[-1]
        if kind in _CONTENT and part.get("ignored") is not True:
            # If the version records no steps, content after calls was written once their results were available.
            if begins_step or step.has_ended or (step.has_calls and not step.has_start and kind != "tool"):
                if step.parts or step.has_ended:
                    step = _begin_step(steps, part)
                step.has_start, begins_step = begins_step, False
            _add_part(step, kind, part)
        elif kind == "step-finish":
            step_tokens = as_object(part.get("tokens"))
            if step_tokens:
                step = _begin_step(steps, part) if step.has_ended else step
                step.usage = _usage_of(step_tokens, part)
            step.has_ended, begins_step = True, False
        elif kind in _BOOKKEEPING:
            begins_step = begins_step or kind == "step-start"
            notes.skip(f"part {kind}")
        else:
            step.results.append(_custom(part, created(part), notes))
    tokens = record.info.get("tokens")
    if isinstance(tokens, dict) and all(step.usage is None for step in steps):
        steps[-1].usage = _usage_of(tokens, record.info)
    return steps


def check_info(info: Object, notes: Notes) -> None:
    """Note the fields of a message that carry text and that are not read."""
    known = _INFO_FIELDS | {_PROMPT} if info.get("role") == "assistant" else _INFO_FIELDS
    notes.check_fields("message", info, known)


def _check_fields(part: Object, kind: str, notes: Notes) -> None:
    if kind in _CONTENT or kind in _BOOKKEEPING or kind == "step-finish":
        notes.check_fields(f"{kind} part", part, _PART_FIELDS)
    if kind == "tool":
        state = part.get("state")
        notes.check_items("state of a call", [state])
        notes.check_fields("state", as_object(state), _STATE_FIELDS)
        told = as_object(state)
        notes.check_repeated(
            "state field title", told.get("title"), told.get("input"), told.get("output"), told.get("metadata")
        )
        notes.check_items("metadata of a call", [told.get("metadata")])
        notes.check_items("attachment", told.get("attachments"))
        so_far = as_object(told.get("metadata")).get("output")
        if as_text(told.get("status")) not in _ENDED and as_words(so_far):
            notes.leave_out("output of a call that has not ended", so_far)


def _begin_step(steps: list[_Step], part: Object) -> _Step:
    """Append a step whose first known part is `part`, and return it."""
    time = created(part) or created(as_object(part.get("state"))) or steps[-1].time
    steps.append(_Step(time, as_text(part.get("id"))))
    return steps[-1]


def _add_part(step: _Step, kind: str, part: Object) -> None:
    if kind == "text":
        step.parts.append(_text_of(part))
    elif kind == "reasoning":
        step.parts.append(_thought_of(part))
    elif kind == "file":
        step.parts.append(_file_of(part))
    else:
        step.parts.append(_call_of(part))
        step.has_calls = True
        step.results += _result_of(part)


def _custom(part: Object, time: datetime | None, notes: Notes) -> Item:
    kind = as_text(part.get("type")) or "unknown"
    if kind not in _ASIDE and carries_text(part):
        notes.leave_out(f"part of kind {kind}", part, kept=True)
    return Item(Custom(f"opencode.{as_text(part.get('type')) or 'part'}", kept_json(part)), time)
