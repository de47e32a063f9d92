"""A model on this machine that speaks what programs speak to their providers, and answers by a script.

To each prompt it answers with a word of its own and a call of the program's shell, and to the result with another word.
The command is what the prompt asks for (`[[exit 3]]`), or one that prints a marker; with `[[]]` there is no call. Every
request is kept.

It speaks Anthropic's messages, OpenAI's responses and chat completions, and Google's contents, each streamed or not.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from typing import Any, NamedTuple, TypeAlias

Body: TypeAlias = dict[str, Any]

SHELLS = frozenset({"Bash", "bash", "shell", "exec_command", "shell_command", "run_shell_command"})
NO_CALL = "[[]]"
"""What a prompt has in it that is to be answered with words alone."""

_RUN = re.compile(r"\[\[([^\]]+)\]\]")
_TITLES = ("responseJsonSchema", "responseSchema", "json_schema")


class Answer(NamedTuple):
    """What the model says: its number, its word, and the call of a shell, if there is one."""

    number: int
    word: str
    call: tuple[str, Body] | None


class Model(NamedTuple):
    """A running model: its address, and the requests so far, each with its path and its body."""

    url: str
    requests: list[tuple[str, Body]]

    def talks(self) -> list[Body]:
        """Return the bodies of the requests that offer tools: those of a conversation, not of titles and the like."""
        return [body for _, body in self.requests if body.get("tools")]


@contextmanager
def scripted_model(first: int = 1) -> Iterator[Model]:
    """Run a model on a free port; `first` is the number of its first answer."""
    requests: list[tuple[str, Body]] = []
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Handler", (_Handler,), {"requests": requests, "ids": count(first)})
    )
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Model(f"http://127.0.0.1:{server.server_port}", requests)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests: list[tuple[str, Body]]
    ids: Iterator[int]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._reply({"object": "list", "data": [{"id": "fake", "object": "model", "owned_by": "x"}], "models": []})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("content-length") or 0))
        body: Body = json.loads(sent or b"{}")
        path = self.path.partition("?")[0]
        self.requests.append((path, body))
        if path.endswith("/messages"):
            self._anthropic(body)
        elif path.endswith("/responses"):
            self._responses(body)
        elif path.endswith("/chat/completions"):
            self._chat(body)
        elif "enerateContent" in path:
            self._google(body, streamed="stream" in path)
        elif "ountTokens" in path or path.endswith("/count_tokens"):
            self._reply({"totalTokens": 10, "input_tokens": 10})
        else:
            self._reply({})

    # -- the script

    def _answer(self, tools: Sequence[Body], since: Sequence[Body], *, answered: bool) -> Answer:
        """Return the answer to what came since the last one."""
        number = next(self.ids)
        tool = next((each for each in tools if each.get("name") in SHELLS), None)
        if tool is None or answered:
            return Answer(number, f"answer-{number}", None)
        shown = json.dumps(since, ensure_ascii=False)
        if NO_CALL in shown:
            return Answer(number, f"answer-{number}", None)
        wanted = _RUN.findall(shown)
        schema: Body = next(
            (tool[key] for key in ("input_schema", "parameters", "parametersJsonSchema") if key in tool), {}
        )
        return Answer(number, f"answer-{number}", (tool["name"], _arguments(schema, wanted, number)))

    # -- the protocols

    def _anthropic(self, body: Body) -> None:
        since = _since(body["messages"], "assistant")
        blocks = [block for each in since if isinstance(each["content"], list) for block in each["content"]]
        answered = any(block.get("type") == "tool_result" for block in blocks)
        answer = self._answer(body.get("tools") or [], since, answered=answered)
        content: list[Body] = [{"type": "text", "text": answer.word}]
        if answer.call is not None:
            name, arguments = answer.call
            content.append({"type": "tool_use", "id": f"toolu_{answer.number:08}", "name": name, "input": arguments})
        stop = "tool_use" if answer.call else "end_turn"
        usage = {"input_tokens": 11, "output_tokens": 7}
        message: Body = {
            "id": f"msg_{answer.number:08}", "type": "message", "role": "assistant", "model": body.get("model"),
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        if not body.get("stream"):
            self._reply(message | {"content": content, "stop_reason": stop})
            return
        events: list[Body] = [{"type": "message_start", "message": message}]
        for index, block in enumerate(content):
            is_text = block["type"] == "text"
            empty: Body = {"text": ""} if is_text else {"input": {}}
            delta: Body = {"type": "text_delta", "text": block["text"]} if is_text else {"type": "input_json_delta"}
            if not is_text:
                delta["partial_json"] = json.dumps(block["input"])
            events += [
                {"type": "content_block_start", "index": index, "content_block": block | empty},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        events.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage})
        self._stream([*events, {"type": "message_stop"}])

    def _responses(self, body: Body) -> None:
        items = body.get("input")
        items = items if isinstance(items, list) else []
        last = max((at for at, each in enumerate(items) if each.get("role") == "user"), default=0)
        answered = any(str(each.get("type")).endswith("_output") for each in items[last:])
        answer = self._answer(body.get("tools") or [], items[last:], answered=answered)
        said = [{"type": "output_text", "text": answer.word, "annotations": []}]
        message = {"type": "message", "id": f"msg_{answer.number}", "role": "assistant", "status": "completed"}
        output: list[Body] = [message | {"content": said}]
        if answer.call is not None:
            name, arguments = answer.call
            output.append({
                "type": "function_call", "id": f"fc_{answer.number}", "call_id": f"call_{answer.number}", "name": name,
                "status": "completed", "arguments": json.dumps(arguments),
            })  # fmt: skip
        usage: Body = {
            "input_tokens": 11, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 18,
        }  # fmt: skip
        response: Body = {
            "id": f"resp_{answer.number}", "object": "response", "created_at": 1, "status": "in_progress",
            "model": body.get("model"), "output": [],
        }  # fmt: skip
        done = response | {"status": "completed", "output": output, "usage": usage}
        if not body.get("stream"):
            self._reply(done)
            return
        events: list[Body] = [{"type": "response.created", "response": response}]
        for index, item in enumerate(output):
            events.append({"type": "response.output_item.added", "output_index": index, "item": item})
            if item["type"] == "message":
                place = {"item_id": item["id"], "output_index": index, "content_index": 0}
                events.append({"type": "response.output_text.delta", **place, "delta": answer.word})
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        self._stream([*events, {"type": "response.completed", "response": done}])

    def _chat(self, body: Body) -> None:
        since = _since(body["messages"], "assistant")
        tools = [each.get("function", {}) for each in body.get("tools") or []]
        answered = any(each["role"] == "tool" for each in _since(since, "user"))  # not one of a turn that was cut off
        answer = self._answer(tools, since, answered=answered)
        calls: list[Body] = []
        if answer.call is not None:
            name, arguments = answer.call
            function = {"name": name, "arguments": json.dumps(arguments)}
            calls = [{"index": 0, "id": f"call_{answer.number}", "type": "function", "function": function}]
        finish = "tool_calls" if calls else "stop"
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        base = {"id": f"chatcmpl-{answer.number}", "created": 1, "model": body.get("model")}
        said: Body = {"role": "assistant", "content": answer.word}
        if not body.get("stream"):
            choice = {"index": 0, "message": said | ({"tool_calls": calls} if calls else {}), "finish_reason": finish}
            self._reply({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        deltas: list[tuple[Body, str | None]] = [(said, None)]
        deltas += [({"tool_calls": calls}, None)] if calls else []
        deltas.append(({}, finish))
        chunk = {**base, "object": "chat.completion.chunk"}
        events: list[Body] = [
            {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in deltas
        ]
        self._stream([*events, {**chunk, "choices": [], "usage": usage}], last=b"data: [DONE]\n\n")

    def _google(self, body: Body, *, streamed: bool) -> None:
        contents = body.get("contents") or []
        last: list[Body] = contents[-1].get("parts") or [] if contents else []
        tools = [each for tool in body.get("tools") or [] for each in tool.get("functionDeclarations", [])]
        answer = self._answer(tools, last, answered=any("functionResponse" in part for part in last))
        parts: list[Body] = [{"text": answer.word}]
        if answer.call is not None:
            name, arguments = answer.call
            parts.append({"functionCall": {"id": f"call_{answer.number}", "name": name, "args": arguments}})
        elif any(word in json.dumps(body) for word in _TITLES):
            parts = [{"text": json.dumps({"reasoning": "x", "next_speaker": "user", "model_choice": "flash"})}]
        usage = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        reply = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "fake", "responseId": "r"}
        if streamed:
            self._stream([reply])
        else:
            self._reply(reply)

    # -- HTTP

    def _reply(self, value: Body) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Sequence[Body], last: bytes = b"") -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        self.wfile.write(last)
        self.close_connection = True


def _since(messages: Sequence[Body], role: str) -> list[Body]:
    """Return the messages after the last one of a role."""
    last = max((at for at, each in enumerate(messages) if each["role"] == role), default=-1)
    return [*messages[last + 1 :]]


def _arguments(schema: Body, wanted: Sequence[str], number: int) -> Body:
    """Return the arguments of a shell: the command, and something for everything else that is required."""
    command = wanted[-1] if wanted else f"echo marker-{number}"
    found: Body = {}
    for name, field in schema.get("properties", {}).items():
        kind = str(field.get("type", "string")).lower()
        if name in ("command", "cmd"):
            found[name] = ["bash", "-lc", command] if kind == "array" else command
        elif name in schema.get("required", ()):
            found[name] = {"number": 1, "integer": 1, "boolean": False, "array": [], "object": {}}.get(kind, "x")
    return found
