"""A FastAPI program that serves its sessions under /chat, each user's own, while its agents write to them.

python examples/server_in_fastapi.py          # asks itself, prints the answers and ends
uvicorn examples.server_in_fastapi:program    # serves until Ctrl-C
"""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx2
from fastapi import FastAPI
from starlette.requests import HTTPConnection

from treering import SessionHost
from treering.server import Principal, app

USERS = {"key-of-ada": "ada", "key-of-bob": "bob"}


async def who_asks(connection: HTTPConnection) -> Principal | None:
    """Know users by the program's own keys: each may write to the sessions of their own keys."""
    user = USERS.get(connection.headers.get("x-api-key", ""))
    return None if user is None else Principal(name=user, role="write", prefix=f"{user}:")


@asynccontextmanager
async def opened(program: FastAPI) -> AsyncIterator[None]:
    """Open the host with the program, and close it after the last stream was told."""
    async with SessionHost(tempfile.mkdtemp()) as host:
        sessions = app(host, authorize=who_asks)
        program.mount("/chat", sessions)
        program.state.host = host
        try:
            yield
        finally:
            await sessions.stop()


program = FastAPI(lifespan=opened)


@program.post("/ask/{user}")
async def ask(user: str, question: str) -> dict[str, str]:
    """Let an agent of the program answer; whoever follows the session sees both messages."""
    host: SessionHost = program.state.host
    session = await host.get_or_create(f"{user}:main")
    await session.append_message("user", question)
    await session.append_message("assistant", f"You asked: {question}")
    return {"session": session.id}


async def main() -> None:
    """Ask the program as its users do."""
    transport = httpx2.ASGITransport(app=program)
    async with opened(program), httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        session = (await http.post("/ask/ada", params={"question": "Who am I?"})).json()["session"]
        for key, user in USERS.items():
            reply = await http.get(f"/chat/v1/sessions/{session}/entries", headers={"x-api-key": key})
            said = [entry["message"]["content"][0]["text"]["content"] for entry in reply.json().get("items", [])]
            print(user, reply.status_code, said)


if __name__ == "__main__":
    anyio.run(main)
