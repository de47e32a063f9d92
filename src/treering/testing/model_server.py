"""A server that speaks to clients of models, over real sockets, in the two protocols that there are.

    with ModelServer() as server:
        server.says("Hello", usage=Counts(9, 5))
        model = OpenAIModel("any", base_url=server.openai_url, api_key="k")
        ...
    assert server.requests[0].body["model"] == "any"

What it answers is put in a queue beforehand, one reply for each request, and is told in the protocol of the path that was
asked: `/v1/chat/completions` or `/v1/messages`. It runs in threads of its own, so that any event loop can talk to it.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeAlias

from .model_speech import COUNTED, Call, Counts, Speech, anthropic_events, openai_events

__all__ = ["Call", "Counts", "Failure", "ModelServer", "Raw", "Reply", "Request", "Speech"]

WAIT_S = 20.0
"""How long a thread of the server waits for a client that was to go away, in seconds; no good test takes as long."""


@dataclass(frozen=True)
class Failure:
    """An answer that is an error."""

    status: int
    body: Mapping[str, Any] | str = ""
    headers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Raw:
    """A stream of these very bytes."""

    body: bytes


Reply: TypeAlias = Speech | Failure | Raw


@dataclass(frozen=True)
class Request:
    """What a client sent.

    Attributes:
        path: What it asked for.
        headers: The headers, with names in lower case.
        body: The body, decoded.
        raw: The body's very bytes.
    """

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    raw: bytes


class ModelServer:
    """The server; entered, it listens on a port of its own.

    Attributes:
        requests: What was asked so far.
        connections: How many connections were made so far.
        gone: Set when a client went away in the middle of an answer that was being held.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self.gone = threading.Event()
        self._replies: deque[Reply] = deque()
        self._server = _Server(("127.0.0.1", 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.005})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()  # waits for the threads of all connections: a client that leaked one is found out

    @property
    def url(self) -> str:
        """Where it is, without a path: what Anthropic's client takes."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """Where OpenAI's client finds it."""
        return f"{self.url}/v1"

    def reply(self, *replies: Reply) -> None:
        """Put replies in the queue."""
        self._replies.extend(replies)

    def says(self, *text: str, usage: Counts | None = COUNTED) -> None:
        """Put an answer of text in the queue."""
        self.reply(Speech(text=text, usage=usage))

    def calls(self, *calls: Call, text: Sequence[str] = ()) -> None:
        """Put an answer that calls tools in the queue."""
        self.reply(Speech(text=text, calls=calls, stop="tool_use"))

    def next_reply(self) -> Reply:
        """Take the next reply out of the queue."""
        if not self._replies:
            return Failure(418, {"error": {"message": "the test has put no reply in the queue"}})
        return self._replies.popleft()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def __init__(self, address: tuple[str, int], owner: ModelServer) -> None:
        self.owner = owner
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = WAIT_S

    @property
    def _owner(self) -> ModelServer:
        assert isinstance(self.server, _Server)
        return self.server.owner

    def setup(self) -> None:
        super().setup()
        self._owner.connections += 1

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a test says what it wants to know."""

    def do_POST(self) -> None:
        owner = self._owner
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        owner.requests.append(Request(self.path, headers, json.loads(body), body))
        reply = owner.next_reply()
        if isinstance(reply, Failure):
            self._fail(reply)
        elif isinstance(reply, Raw):
            self._begin()
            self._piece(reply.body)
            self._piece(b"")
        else:
            tell = openai_events if self.path.endswith("/chat/completions") else anthropic_events
            self._speak(reply, list(tell(reply)))

    def _fail(self, failure: Failure) -> None:
        told = failure.body if isinstance(failure.body, str) else json.dumps(failure.body)
        self.send_response(failure.status)
        self.send_header("content-type", "text/plain" if isinstance(failure.body, str) else "application/json")
        self.send_header("content-length", str(len(told.encode())))
        for name, value in failure.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(told.encode())

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _piece(self, body: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(body), body))

    def _speak(self, speech: Speech, events: Sequence[bytes]) -> None:
        cut = speech.cut_after
        if cut is not None and cut < 0:
            cut += len(events)
        try:
            self._begin()
            for sent, event in enumerate(events):
                if sent == cut:
                    self.close_connection = True  # without the piece of no length that ends a stream
                    return
                if sent == speech.hold_after:
                    self.close_connection = True
                    if self.connection.recv(1) == b"":
                        self._owner.gone.set()
                    return
                self._piece(event)
            self._piece(b"")
        except ConnectionError:  # the client went away without reading all that was sent
            self.close_connection = True
            self._owner.gone.set()
