"""Reading and writing of pi's messages.

A message is one flat object; which keys it has depends on its role::

    {"role":"user","content":"Hello","timestamp":1700000000000}
    {"role":"toolResult","toolCallId":"call_1","toolName":"read","content":[...],"isError":false,"timestamp":1700000000000}

The three roles of nearly all lines are decoded in one step; other roles, and messages with unknown keys, go through a
lenient reader. Either way, keys without a field of their own go into the message's metadata, and so, verbatim, does any
key whose value the fields cannot reproduce. Only a time that equals the entry's own is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Raw, Struct
from msgspec.json import Decoder

from ...content import Content, ImagePart, TextPart, ToolResultPart, plain_text, text
from ...entries import BashExecution, Message, Usage
from ...errors import DialectCannot, InvalidEntry
from ..base import RawFields, as_int, as_object, as_string, attempt, encode_json
from .content import Blocks, ImageBlock, TextBlock, answer_of, only, parts_of, read_content, write_content
from .values import ABSENT, as_flag, as_list, as_number, is_null, read_usage, write_usage

UNKNOWN = "unknown"
"""The placeholder for a name that pi requires and the entry does not have."""

_SUMMARIES = ("branchSummary", "compactionSummary")

_CALLING = "tool_use"  # the stop reason of an answer that calls tools; pi takes any word but its own for a failure
_PI_CALLING = "toolUse"


def _stop_reason(reason: str | None) -> str | None:
    return _CALLING if reason == _PI_CALLING else reason


def _as_stop_reason(raw: bytes | Raw) -> str | None:
    return _stop_reason(as_string(raw))


# keys with a field in `Message`: the field's name, and the decoder of the value
_FIELDS: dict[str, tuple[str, Callable[[bytes | Raw], object]]] = {
    "toolName": ("tool_name", as_string),
    "customType": ("custom_type", as_string),
    "provider": ("provider", as_string),
    "model": ("model", as_string),
    "stopReason": ("stop_reason", _as_stop_reason),
    "errorMessage": ("error", as_string),
    "display": ("display", as_flag),
}
_BASH_FIELDS: dict[str, tuple[str, Callable[[bytes | Raw], object]]] = {
    "command": ("command", as_string),
    "output": ("output", as_string),
    "exitCode": ("exit_code", as_int),
    "cancelled": ("cancelled", as_flag),
    "truncated": ("truncated", as_flag),
    "fullOutputPath": ("full_output_path", as_string),
    "excludeFromContext": ("exclude_from_context", as_flag),
}

_as_objects: Callable[[bytes | Raw], list[RawFields]] = Decoder(list[RawFields]).decode

# the keys that pi reads and that no field stands for, and their types
_TYPES: dict[str, Callable[[bytes | Raw], object]] = {
    "api": as_string,
    "responseModel": as_string,
    "responseId": as_string,
    "diagnostics": as_list,
    "fromId": as_string,
    "tokensBefore": as_number,
    "sections": as_object,
    "toolsAdded": _as_objects,
    "toolsRemoved": _as_objects,
    "timestamp": as_number,
}

# one order serves the keys of all roles; other keys come last
_ORDER = (
    *("role", "toolCallId", "toolName", "customType"),
    *_BASH_FIELDS,
    *("summary", "fromId", "tokensBefore", "content", "api", "provider", "model", "responseModel", "responseId"),
    *("diagnostics", "usage", "stopReason", "errorMessage", "display", "details", "isError"),
    *("sections", "toolsAdded", "toolsRemoved", "timestamp"),
)
_RANKS = {key: rank for rank, key in enumerate(_ORDER)}


# -- reading in one step


class _Extras(Struct, omit_defaults=True, rename="camel"):
    """The usual keys that have no field in `Message`, in the form in which the metadata holds them."""

    api: Raw = ABSENT
    response_model: Raw = ABSENT
    response_id: Raw = ABSENT
    diagnostics: Raw = ABSENT
    usage: Raw = ABSENT
    details: Raw = ABSENT
    timestamp: int | None = None

    def metadata(self) -> Raw | None:
        encoded = encode_json(self)
        return None if encoded == b"{}" else Raw(encoded)


class _Body(Struct, tag_field="role", forbid_unknown_fields=True, rename="camel"):
    """The base of the three roles."""


class UserBody(_Body, tag="user"):
    """A user's message."""

    content: Blocks
    timestamp: int | None = None

    def message(self, at: int) -> Message:
        """Make the message of an entry that was appended at `at` milliseconds."""
        time = self.timestamp
        raw = None if time is None or time == at else Raw(b'{"timestamp":%d}' % time)
        return Message("user", parts_of(self.content), raw_metadata=raw)


class AssistantBody(_Body, tag="assistant"):
    """An assistant's message."""

    content: Blocks
    api: Raw = ABSENT
    provider: str | None = None
    model: str | None = None
    response_model: Raw = ABSENT
    response_id: Raw = ABSENT
    diagnostics: Raw = ABSENT
    usage: Raw = ABSENT
    stop_reason: str | None = None
    error_message: str | None = None
    timestamp: int | None = None

    def message(self, at: int) -> Message:
        """Make the message of an entry that was appended at `at` milliseconds."""
        usage, is_complete = read_usage(self.usage)
        extras = _Extras(
            self.api,
            self.response_model,
            self.response_id,
            self.diagnostics,
            ABSENT if is_complete else self.usage,
            ABSENT,
            None if self.timestamp == at else self.timestamp,
        )
        return Message(
            "assistant",
            parts_of(self.content),
            self.model,
            self.provider,
            usage,
            _stop_reason(self.stop_reason),
            self.error_message,
            raw_metadata=extras.metadata(),
        )


class ToolResultBody(_Body, tag="toolResult"):
    """A tool's result."""

    tool_call_id: str
    content: str | list[TextBlock | ImageBlock]
    tool_name: str | None = None
    details: Raw = ABSENT
    is_error: bool = False
    timestamp: int | None = None

    def message(self, at: int) -> Message:
        """Make the message of an entry that was appended at `at` milliseconds."""
        extras = _Extras(details=self.details, timestamp=None if self.timestamp == at else self.timestamp)
        answer = answer_of(self.tool_call_id, parts_of(self.content), self.is_error)
        return Message("tool", (answer,), tool_name=self.tool_name, raw_metadata=extras.metadata())


Body: TypeAlias = UserBody | AssistantBody | ToolResultBody


# -- lenient reading


def read_message(raw: Raw, at: int) -> Message:
    """Read a message of any role and shape, of an entry that was appended at `at` milliseconds.

    Raises:
        ValueError: The message is not an object, or has no role.
    """
    rest = as_object(raw)
    role = attempt(as_string, rest.pop("role", None))
    if not role:
        raise ValueError("a message must name its role")
    fields = _take(rest, _FIELDS)
    usage, is_complete = read_usage(rest.get("usage", ABSENT))
    if is_complete:
        rest.pop("usage", None)
    if attempt(as_number, rest.get("timestamp")) == at:
        del rest["timestamp"]
    content = _take_content(rest, role)
    if role == "toolResult" or (role == "tool" and "toolCallId" in rest):
        role = "tool"
        content = (_take_answer(rest, content),)
    bash = None
    if role == "bashExecution":
        bash_fields = _take(rest, _BASH_FIELDS)
        bash = BashExecution(bash_fields.pop("command", ""), **bash_fields)
    metadata = Raw(encode_json(rest)) if rest else None
    return Message(role, content, usage=usage, bash=bash, raw_metadata=metadata, **fields)


def _take(rest: RawFields, names: dict[str, tuple[str, Callable[[bytes | Raw], object]]]) -> dict[str, Any]:
    """Remove the keys that have a field and return their values by field; a value of the wrong type stays in `rest`."""
    taken: dict[str, Any] = {}
    for key, (name, decode) in names.items():
        if key in rest:
            value = attempt(decode, rest[key])
            if value is not None:
                taken[name] = value
            if value is not None or is_null(rest[key]):
                del rest[key]
    return taken


def _take_content(rest: RawFields, role: str) -> tuple[Content, ...]:
    key = "summary" if role in _SUMMARIES and "content" not in rest else "content"
    content, is_complete = read_content(rest.get(key, ABSENT))
    if role in ("toolResult", "tool"):  # a result holds only text and images
        is_complete = is_complete and all(isinstance(part, TextPart | ImagePart) for part in content)
    if is_complete:
        rest.pop(key, None)
    return content


def _take_answer(rest: RawFields, content: tuple[Content, ...]) -> ToolResultPart:
    taken = _take(rest, {"toolCallId": ("id", as_string), "isError": ("is_error", as_flag)})
    return answer_of(taken.get("id", ""), content, taken.get("is_error", False))


# -- writing


def write_message(message: Message, at: int) -> dict[str, object]:
    """Write a message of an entry that is appended at `at` milliseconds.

    Raises:
        DialectCannot: pi cannot represent the message.
        InvalidEntry: The metadata is not an object.
    """
    body = _write_fields(message)
    body |= {key: raw for key, raw in _metadata(message).items() if _can_stand_in_message(key, raw, message)}
    body = {"timestamp": at, **_required_keys(message), **body}
    return dict(sorted(body.items(), key=_rank))


def name_model(body: dict[str, object], message: Message, provider: str, model: str) -> None:
    """Write the model in effect in place of an unknown one.

    pi takes the model that its last answer names as the session's model.
    """
    if message.role == "assistant" and message.provider is None and message.model is None:
        body |= {"provider": provider, "model": model}


def _rank(item: tuple[str, object]) -> int:
    return _RANKS.get(item[0], len(_RANKS))


def _write_fields(message: Message) -> dict[str, object]:
    """Write the fields of a message, without its metadata."""
    role, content = message.role, message.content
    body: dict[str, object] = {"role": role}
    for key, (name, _) in _FIELDS.items():
        value = getattr(message, name)
        if value is not None:
            body[key] = value
    if message.stop_reason == _CALLING:
        body["stopReason"] = _PI_CALLING
    if message.usage is not None:
        body["usage"] = write_usage(message.usage)
    if role == "bashExecution":
        body.update(_write_bash(message.bash))
        if content:
            body["content"] = write_content(content, as_text=True)
    elif isinstance(answer := only(content), ToolResultPart):
        result = answer.tool_result
        parts = (text(result.content),) if isinstance(result.content, str) else result.content
        body |= {"role": "toolResult", "toolCallId": result.tool_use_id, "isError": result.is_error}
        body["content"] = write_content(parts, as_text=False)
    elif role == "tool":
        raise DialectCannot(
            "a tool's message must be one tool_result part in this file's dialect: append one message per result"
        )
    elif role in _SUMMARIES:
        body["summary"] = plain_text(content)
        written = write_content(content, as_text=True)
        if not isinstance(written, str):
            body["content"] = written
    else:
        body["content"] = write_content(content, as_text=role != "assistant")
    return body


def _write_bash(bash: BashExecution | None) -> dict[str, object]:
    if bash is None:
        raise DialectCannot(
            "a bashExecution message needs `bash` with its command and output in this file's dialect: set `bash`"
        )
    body: dict[str, object] = {
        "command": bash.command,
        "output": bash.output,
        "cancelled": bash.cancelled,
        "truncated": bash.truncated,
    }
    if bash.exit_code is not None:
        body["exitCode"] = bash.exit_code
    if bash.full_output_path is not None:
        body["fullOutputPath"] = bash.full_output_path
    if bash.exclude_from_context:
        body["excludeFromContext"] = True
    return body


def _metadata(message: Message) -> RawFields:
    if message.raw_metadata is None:
        return {}
    metadata = attempt(as_object, message.raw_metadata)
    if metadata is None:
        raise InvalidEntry("Expected `object` - at `$.message.metadata` of a message entry")
    return metadata


def _can_stand_in_message(key: str, raw: Raw, message: Message) -> bool:
    """Return whether a metadata key can be written into the message.

    It must neither change how the message's fields are read nor have a type that pi does not expect: pi checks nothing,
    so a session with such a message fails in it, or is not listed.
    """
    if key == "usage":
        return _has_cost(raw) and read_usage(raw)[0] == message.usage
    if key == "content":
        return (
            message.role not in ("tool", *_SUMMARIES) and _is_content(raw) and read_content(raw)[0] == message.content
        )
    if key == "role" or key in _FIELDS or (key == "summary" and message.role in _SUMMARIES):
        return False
    if key in _BASH_FIELDS:
        return message.bash is None
    if key in ("toolCallId", "isError") and isinstance(only(message.content), ToolResultPart):
        return False
    decode = _TYPES.get(key)
    return decode is None or attempt(decode, raw) is not None


def _has_cost(raw: Raw) -> bool:
    return attempt(as_object, (attempt(as_object, raw) or {}).get("cost")) is not None


def _is_content(raw: Raw) -> bool:
    return attempt(as_string, raw) is not None or attempt(_as_objects, raw) is not None


def _required_keys(message: Message) -> dict[str, object]:
    """Return the keys without which pi fails or misreads the message, with placeholder values."""
    if message.role == "assistant":
        reason = _PI_CALLING if message.has_calls else "stop"
        return {"provider": UNKNOWN, "model": UNKNOWN, "usage": write_usage(Usage()), "stopReason": reason}
    if message.role == "custom":
        return {"customType": UNKNOWN, "display": True}
    return {"toolName": UNKNOWN} if isinstance(only(message.content), ToolResultPart) else {}
