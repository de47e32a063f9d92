"""The application inside another program: over that program's host, with that program's own authorization."""

from collections.abc import Callable
from typing import Any

import httpx2
import msgspec
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from treering import SessionHost
from treering.server import Application, Principal, app

HELLO = {"type": "message", "message": {"role": "user", "content": "Hello"}}


async def who(connection: HTTPConnection) -> Principal | None:
    """Know users by the program's own header; one of them only reads."""
    name = connection.headers.get("x-user")
    if name is None:
        return None
    return Principal(name=name, role="read" if name == "reader" else "write", prefix=f"{name}:")


def as_json(value: object) -> Any:  # noqa: ANN401  # any JSON value
    return msgspec.json.decode(msgspec.json.encode(value))


def in_starlette(sessions: Application, own: Callable[[], Any]) -> Any:  # noqa: ANN401  # an ASGI application
    async def health(_: Request) -> JSONResponse:
        return JSONResponse(await own())

    return Starlette(routes=[Route("/own", health), Mount("/chat", app=sessions)])


def in_fastapi(sessions: Application, own: Callable[[], Any]) -> Any:  # noqa: ANN401  # an ASGI application
    program = FastAPI()
    program.get("/own")(own)
    program.mount("/chat", sessions)
    return program


@pytest.mark.feature("S-2")
@pytest.mark.parametrize("mounted", [in_starlette, in_fastapi])
async def test_a_program_mounts_it_over_its_own_host_with_its_own_authorization(
    host: SessionHost, mounted: Callable[..., Any]
) -> None:
    async def own() -> dict[str, int]:
        return {"sessions": len(await host.list_sessions())}

    sessions = app(host, authorize=who, allowed_hosts=["program"])
    transport = httpx2.ASGITransport(app=mounted(sessions, own))
    ada, bob, reader = ({"x-user": name} for name in ("ada", "bob", "reader"))
    async with httpx2.AsyncClient(transport=transport, base_url="http://program") as http:
        assert (await http.get("/chat/v1/sessions")).status_code == 401
        made = await http.put("/chat/v1/keys/ada:1", json={}, headers=ada)
        assert made.status_code == 201
        url = made.headers["location"]
        assert url == f"/chat/v1/sessions/{made.json()['id']}"

        session = await host.get_or_create("ada:1")  # the program itself writes to the same session
        answer = await session.append_message("assistant", "From the program")
        key = {**ada, "Idempotency-Key": "k"}
        appended = await http.post(f"{url}/entries", json=HELLO, headers=key)
        assert appended.status_code == 201
        assert (await http.post(f"{url}/entries", json=HELLO, headers=key)).json()["ids"] == appended.json()["ids"]
        read = (await http.get(f"{url}/entries", headers=ada)).json()["items"]
        assert [entry["id"] for entry in read] == [answer, *appended.json()["ids"]]
        context = await http.get(f"{url}/context", headers=ada)
        assert context.json()["context"] == as_json(await session.context())
        known = {**ada, "If-None-Match": context.headers["etag"]}
        assert (await http.get(f"{url}/context", headers=known)).status_code == 304
        stream = await http.get(f"{url}/events?live=false", headers=ada)
        assert stream.headers["content-type"] == "text/event-stream"
        assert stream.text.count("event: entry") == 2
        found = await http.get("/chat/v1/search?q=program", headers=ada)
        assert [hit["entry_id"] for hit in found.json()["items"]] == [answer]
        assert (await http.patch(url, json={"title": "Mine"}, headers=ada)).json()["title"] == "Mine"

        assert (await http.get(url, headers=bob)).status_code == 404
        assert (await http.get(f"{url}/events", headers=bob)).status_code == 404
        assert (await http.get("/chat/v1/sessions", headers=bob)).json()["items"] == []
        assert (await http.put("/chat/v1/keys/reader:1", json={}, headers=reader)).status_code == 403
        assert (await http.delete(url, headers=ada)).status_code == 403
        assert (await http.get("/v1/sessions", headers=ada)).status_code == 404
        assert (await http.get("/chat/healthz")).status_code == 200
        assert (await http.get("/own")).json() == {"sessions": 1}
        assert (await http.get("/chat/v1", headers={**ada, "host": "evil.example"})).status_code == 421

        await sessions.stop()
        assert (await http.get("/chat/v1/sessions", headers=ada)).status_code == 503
        assert (await http.get("/own")).json() == {"sessions": 1}
    await session.append_message("user", "The host is still open")
