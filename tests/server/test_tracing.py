"""Traces: an append over HTTP, its write and its delivery to a stream are one, where OpenTelemetry is installed."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

from treering import SessionHost

from .conftest import Client, Serve

HELLO = {"type": "message", "message": {"role": "user", "content": "A secret"}}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What a program that has set up OpenTelemetry exports."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    yield exporter
    provider.shutdown()


@pytest.mark.feature("S-27")
@pytest.mark.parametrize("durability", ["os", "group"])
async def test_an_append_its_write_and_its_delivery_are_one_trace(
    tmp_path: Path, served: Serve, spans: InMemorySpanExporter, durability: str
) -> None:
    async with SessionHost(tmp_path, durability=durability) as host, served(host) as client:  # type: ignore[arg-type]
        for name in "ab":
            await client.ask("POST", "/v1/sessions", {"id": name})
        spans.clear()
        many: dict[str, object] = {"sessions": {"a": {}}}
        async with client.follow("/v1/sessions/a/events") as one, client.follow("/v1/events", body=many) as two:
            await anext(two)
            sent = {"traceparent": PARENT}
            (entry_id,) = (await client.ask("POST", "/v1/sessions/a/entries", HELLO, headers=sent))["ids"]
            for events in (one, two):
                assert (await anext(events)).data["id"] == entry_id
            await client.ask("POST", "/v1/sessions/a/entries", HELLO, headers={"If-Match": '"leaf:"'}, status=412)

        async def append() -> None:
            await client.ask("POST", "/v1/sessions/b/entries", HELLO)

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(append)
    finished = spans.get_finished_spans()
    ours = {
        name: [span for span in finished if span.name == name and trace_of(span) == TRACE] for name in names(finished)
    }
    (request,) = ours["POST /v1/sessions/{session_id}/entries"]
    assert request.parent is not None
    assert request.parent.span_id == int(PARENT.split("-")[2], 16)
    assert request.attributes is not None
    assert request.attributes["http.response.status_code"] == 201
    assert request.context is not None
    inner = [*ours["treering write"], *ours["treering deliver"]]
    assert [span.name for span in inner] == ["treering write", "treering deliver", "treering deliver"]
    assert {span.parent.span_id for span in inner if span.parent} == {request.context.span_id}
    begun = [span.start_time or 0 for span in (request, inner[0])]
    assert begun == sorted(begun)
    appends = [span for span in finished if span.name.startswith("POST") and trace_of(span) != TRACE]
    writes = [span for span in finished if span.name == "treering write" and trace_of(span) != TRACE]
    assert len(appends) == 6
    assert len({trace_of(span) for span in appends}) == 6
    assert sorted(map(trace_of, writes)) == sorted(trace_of(span) for span in appends if status(span) == 201)
    for span in finished:
        assert "secret" not in span.to_json()


def names(spans: tuple[ReadableSpan, ...]) -> set[str]:
    return {span.name for span in spans}


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def status(span: ReadableSpan) -> object:
    return (span.attributes or {})["http.response.status_code"]


WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "opentelemetry" else find(name, package)
import anyio, httpx2
from treering import SessionHost
from treering.server import app

async def main():
    async with SessionHost(sys.argv[1]) as host:
        transport = httpx2.ASGITransport(app=app(host))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            print((await http.post("/v1/sessions", json={})).status_code)

anyio.run(main)
assert not any(name.partition(".")[0] == "opentelemetry" for name in sys.modules)
"""


@pytest.mark.feature("S-27")
def test_where_it_is_not_installed_nothing_of_it_is_imported(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("201", 0), done.stderr


async def test_nothing_is_remembered_where_nobody_records(client: Client, host: SessionHost) -> None:
    await client.ask("POST", "/v1/sessions", {"id": "a"})
    await client.ask("POST", "/v1/sessions/a/entries", HELLO)
    tracing = client.application.service.tracing
    assert tracing is not None
    assert tracing.remembered == 0
