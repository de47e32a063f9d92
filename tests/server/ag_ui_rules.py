"""The rules of AG-UI for a run, as its clients check them, and what a page shows of its events."""

from collections.abc import Iterable
from typing import Any

from .conftest import Json

_OPENS = {
    "TEXT_MESSAGE_START": "text", "REASONING_START": "span", "REASONING_MESSAGE_START": "reasoning",
    "TOOL_CALL_START": "call",
}  # fmt: skip
_CONTINUES = {"TEXT_MESSAGE_CONTENT": "text", "REASONING_MESSAGE_CONTENT": "reasoning", "TOOL_CALL_ARGS": "call"}
_CLOSES = {
    "TEXT_MESSAGE_END": "text", "REASONING_END": "span", "REASONING_MESSAGE_END": "reasoning", "TOOL_CALL_END": "call",
}  # fmt: skip
_FREE = {"MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "STATE_DELTA", "TOOL_CALL_RESULT", "CUSTOM"}


class Page:
    """What a page shows, event by event; an event that breaks a rule fails the test."""

    def __init__(self, messages: Iterable[Json] = ()) -> None:
        self.messages: list[Json] = list(messages)
        self.state: dict[str, Any] = {}
        self.types: list[str] = []
        self.end: Json = None
        self._open: set[tuple[str, str]] = set()

    def take(self, event: Json) -> None:
        kind = event["type"]
        assert self.end is None, f"{kind} after the end"
        assert (kind == "RUN_STARTED") == (not self.types), f"{kind} at {len(self.types)}"
        self.types.append(kind)
        if kind in ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"):
            if kind != "RUN_STARTED":
                self.end = event
            assert kind != "RUN_FINISHED" or not self._open
            return
        if kind in _FREE:
            getattr(self, f"_{kind.lower()}")(event)
            return
        id_ = event.get("messageId") or event["toolCallId"]
        if kind in _OPENS:
            assert (_OPENS[kind], id_) not in self._open
            self._open.add((_OPENS[kind], id_))
            self._opened(kind, id_, event)
        elif kind in _CONTINUES:
            assert (_CONTINUES[kind], id_) in self._open
            assert event["delta"]
            self._continued(kind, id_, event["delta"])
        else:
            self._open.remove((_CLOSES[kind], id_))

    def _opened(self, kind: str, id_: str, event: Json) -> None:
        if kind == "TOOL_CALL_START":
            parent = self._message(event["parentMessageId"])
            if parent is None:
                parent = {"id": event["parentMessageId"], "role": "assistant", "content": ""}
                self.messages.append(parent)
            call = {"id": id_, "type": "function", "function": {"name": event["toolCallName"], "arguments": ""}}
            parent.setdefault("toolCalls", []).append(call)
        elif kind != "REASONING_START":
            self.messages.append({"id": id_, "role": event["role"], "content": ""})

    def _continued(self, kind: str, id_: str, delta: str) -> None:
        if kind != "TOOL_CALL_ARGS":
            self._message(id_)["content"] += delta
            return
        calls = [call for each in self.messages for call in each.get("toolCalls", ()) if call["id"] == id_]
        calls[-1]["function"]["arguments"] += delta

    def _message(self, id_: str) -> Json:
        return next((each for each in self.messages if each["id"] == id_), None)

    def _messages_snapshot(self, event: Json) -> None:
        new = {each["id"]: each for each in event["messages"]}
        assert len(new) == len(event["messages"]), "two messages have one id"
        kept = [new.pop(each["id"]) for each in self.messages if each["id"] in new]
        self.messages = [*kept, *new.values()]

    def _state_snapshot(self, event: Json) -> None:
        self.state = dict(event["snapshot"])

    def _state_delta(self, event: Json) -> None:
        for change in event["delta"]:
            assert change["op"] == "replace"
            assert change["path"][1:] in self.state
            self.state[change["path"][1:]] = change["value"]

    def _tool_call_result(self, event: Json) -> None:
        told = {"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"]}
        self.messages.append({**told, "content": event["content"]})

    def _custom(self, event: Json) -> None:
        assert event["name"]
