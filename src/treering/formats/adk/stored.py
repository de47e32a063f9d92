"""Events as the Agent Development Kit stores them: with the names of its own fields, where others see camel case.

    {"invocation_id": "i1", "author": "user", "actions": {"state_delta": {"my_key": 1}}}

Names are changed as far as an event's message shows what they name. What is below that stays as it is: the kit reads
both forms, and the names in arguments, responses and states are not its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ...events.json_values import JSON
from ..values import Object, as_object

_Fields: TypeAlias = Mapping[str, "_Fields | None"]
"""The fields that hold others with names of the kit's."""

_LEAF: _Fields = {}
_PART: _Fields = {
    "function_call": _LEAF,
    "function_response": _LEAF,
    "inline_data": _LEAF,
    "file_data": _LEAF,
    "code_execution_result": _LEAF,
    "executable_code": _LEAF,
}
_EVENT: _Fields = {"content": {"parts": _PART}, "actions": _LEAF, "usage_metadata": _LEAF}


def named(stored: Object) -> Object:
    """Return a stored event with the names that its fields have elsewhere, without what the kit leaves out there."""
    event = _named(stored, _EVENT)
    actions: Object = {name: value for name, value in as_object(event.pop("actions", None)).items() if value}
    if actions:
        event["actions"] = actions
    return {name: value for name, value in event.items() if value is not None}


def _named(value: JSON, fields: _Fields) -> Object:
    return {_camel(name): _within(each, fields.get(name)) for name, each in as_object(value).items()}


def _within(value: JSON, fields: _Fields | None) -> JSON:
    if fields is None:
        return value
    if isinstance(value, list):
        return [_within(each, fields) for each in value]
    return _named(value, fields) if isinstance(value, dict) else value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)
