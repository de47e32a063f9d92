"""Messages in the form of Google's contents: what one holds that is not read, for the report."""

from __future__ import annotations

from ..events.json_values import JSON
from .json_lines import Notes, names_in
from .values import Object, as_items, as_object, as_objects

_MESSAGE_FIELDS = names_in("content displayContent id model parts timestamp tokens type")
_ANSWER_FIELDS = _MESSAGE_FIELDS | {"thoughts", "toolCalls"}
_RECORD_FIELDS = names_in(
    "agentId args description displayName id name renderOutputAsMarkdown result resultDisplay status timestamp"
)
_THOUGHT_FIELDS = names_in("description subject timestamp")
_CALL, _RESPONSE = "functionCall", "functionResponse"
_FILES = frozenset({"fileData", "inlineData"})
_FILE_FIELDS = names_in("data displayName fileUri mimeType")
_READ = _FILES | {"text"}
_PART_FIELDS = _READ | {_CALL, _RESPONSE, "partMetadata", "thought", "thoughtSignature", "videoMetadata"}
_CALL_FIELDS = names_in("args id name partialArgs willContinue")
_RESPONSE_FIELDS = names_in("id name parts response scheduling willContinue")
_OUTPUTS = frozenset({"error", "output"})


def note_unread_of_message(raw: Object, notes: Notes, *, is_answer: bool) -> None:
    """Note what a message holds that carries text and is not read."""
    notes.check_fields("message", raw, _ANSWER_FIELDS if is_answer else _MESSAGE_FIELDS)
    _check_parts(raw.get("content") or raw.get("parts"), notes)
    for thought in as_objects(as_items(raw.get("thoughts"))):
        notes.check_fields("thought", thought, _THOUGHT_FIELDS)
    if is_answer:
        notes.check_items("call of an unknown form", raw.get("toolCalls"))
    for record in as_objects(raw.get("toolCalls")):
        notes.check_fields("call", record, _RECORD_FIELDS)
        _check_parts(record.get("result"), notes)
        if record.get("result") is not None:  # else what was shown is read in its place
            notes.check_repeated(
                "call field resultDisplay", record.get("resultDisplay"), record["result"], record.get("args")
            )


def _check_parts(value: JSON, notes: Notes) -> None:
    for part in as_objects(as_items(value)):
        call, response = as_object(part.get(_CALL)), as_object(part.get(_RESPONSE))
        if call or response or isinstance(part.get("text"), str) or any(as_object(part.get(each)) for each in _FILES):
            notes.check_fields("part", part, _PART_FIELDS)
            notes.check_strings("part", part, "text")
        for name in _FILES:
            notes.check_fields("file", as_object(part.get(name)), _FILE_FIELDS)
        notes.check_fields("call", call, _CALL_FIELDS)
        notes.check_fields("response", response, _RESPONSE_FIELDS)
        output = as_object(response.get("response"))
        if any(output.get(name) is not None for name in _OUTPUTS):
            notes.check_fields("response", output, _OUTPUTS)
        _check_parts(response.get("parts"), notes)
