"""A server that answers model clients over real sockets, in the protocols of OpenAI and Anthropic.

    with ModelServer() as server:
        server.says("Hello", usage=Counts(9, 5))
        model = OpenAIModel("any", base_url=server.openai_url, api_key="k")
        ...
    assert server.requests[0].body["model"] == "any"

A test queues one reply for each request. The path of a request, `/v1/chat/completions` or `/v1/messages`, decides in
which protocol the reply is sent. The server runs in its own threads, so clients on any event loop can use it.
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

WAIT_S = 100.0
"""How long a server thread waits for a client to send or to disconnect, in seconds; a passing test takes far less."""


@dataclass(frozen=True)
class Failure:
    """An error response."""

    status: int
    body: Mapping[str, Any] | str = ""
    headers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Raw:
    """A stream of exactly these bytes."""

    body: bytes


Reply: TypeAlias = Speech | Failure | Raw


@dataclass(frozen=True)
class Request:
    """A request from a client.

    Attributes:
        path: The requested path.
        headers: The headers, with names in lower case.
        body: The decoded body.
        raw: The bytes of the body.
    """

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    raw: bytes


class ModelServer:
    """The server, a context manager that listens on a free port.

    Attributes:
        requests: The requests so far.
        connections: The number of connections so far.
        gone: Set when a client disconnects while the server holds or sends an answer.
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
        self._server.server_close()  # waits for the threads of all connections, which reveals a leaked one

    @property
    def url(self) -> str:
        """The base URL for Anthropic's client, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """The base URL for OpenAI's client."""
        return f"{self.url}/v1"

    def reply(self, *replies: Reply) -> None:
        """Queue replies."""
        self._replies.extend(replies)

    def says(self, *text: str, usage: Counts | None = COUNTED) -> None:
        """Queue an answer that consists of text."""
        self.reply(Speech(text=text, usage=usage))

    def calls(self, *calls: Call, text: Sequence[str] = ()) -> None:
        """Queue an answer that calls tools."""
        self.reply(Speech(text=text, calls=calls, stop="tool_use"))

    def next_reply(self) -> Reply:
        """Remove the next reply from the queue and return it."""
        if not self._replies:
            return Failure(418, {"error": {"message": "the test queued no reply for this request"}})
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
        """Log nothing."""

    def do_POST(self) -> None:
        owner = self._owner
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        owner.requests.append(Request(self.path, headers, json.loads(body), body))
        reply = owner.next_reply()
        if isinstance(reply, Failure):
            self._send_failure(reply)
        elif isinstance(reply, Raw):
            self._send_headers()
            self._send_chunk(reply.body)
            self._send_chunk(b"")
        else:
            encode = openai_events if self.path.endswith("/chat/completions") else anthropic_events
            self._send_answer(reply, list(encode(reply)))

    def _send_failure(self, failure: Failure) -> None:
        text = failure.body if isinstance(failure.body, str) else json.dumps(failure.body)
        self.send_response(failure.status)
        self.send_header("content-type", "text/plain" if isinstance(failure.body, str) else "application/json")
        self.send_header("content-length", str(len(text.encode())))
        for name, value in failure.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def _send_headers(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _send_chunk(self, body: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(body), body))

    def _send_answer(self, speech: Speech, events: Sequence[bytes]) -> None:
        cut = speech.cut_after
        if cut is not None and cut < 0:
            cut += len(events)
        try:
            self._send_headers()
            for sent, event in enumerate(events):
                if sent == cut:
                    self.close_connection = True  # without the empty chunk that ends a stream
                    return
                if sent == speech.hold_after:
                    self.close_connection = True
                    if self.connection.recv(1) == b"":
                        self._owner.gone.set()
                    return
                self._send_chunk(event)
            self._send_chunk(b"")
        except ConnectionError:  # the client disconnected before it had read everything
            self.close_connection = True
            self._owner.gone.set()
