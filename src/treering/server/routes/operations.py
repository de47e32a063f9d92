"""Routes about the server itself: its health, its figures, its interface, and logging a browser in."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from anyio import to_thread
from msgspec import Struct, structs

from ...events.errors import NotAuthorized, Unavailable
from ..principals import Role
from ..routing import Call, Nothing, Reply, Routes
from ..tokens import cookie_name, now

routes = Routes()


class Health(Struct, frozen=True):
    """Whether the server answers."""

    status: str


class About(Struct, frozen=True):
    """The server and the caller.

    Attributes:
        version: The version of treering.
        features: Words for what this server can do beyond the first version of the interface.
        limits: Its bounds; see `ServerLimits`.
        server_time: Its time.
        principal: The caller's name.
        role: What the caller may do.
        prefix: The keys within which that holds.
        read_only: Whether nothing can be written.
    """

    version: str
    features: list[str]
    limits: dict[str, float]
    server_time: datetime
    principal: str
    role: Role
    prefix: str | None
    read_only: bool


class Login(Struct, frozen=True, forbid_unknown_fields=True):
    """A token that serves once, from a link."""

    token: str


@routes.add("GET", "/healthz", right="none", probe=True, reply=Health)
async def healthz(call: Call[Nothing, None]) -> Health:
    """Answer while the process lives."""
    return Health("ok")


@routes.add("GET", "/readyz", right="none", probe=True, reply=Health, errors=(503,))
async def readyz(call: Call[Nothing, None]) -> Health:
    """Answer 200 while sessions can be read and written, and 503 while the server stops or its disk fails."""
    if call.service.stopping.is_set():
        raise Unavailable("the server stops")
    if (problem := await call.service.disk_problem()) is not None:
        raise Unavailable(problem)
    return Health("ok")


@routes.add("GET", "/metrics", right="read", reply=bytes, media_types=("text/plain",))
async def metrics(call: Call[Nothing, None]) -> Reply:
    """Return the figures of the server and its host for Prometheus."""
    service = call.service
    if call.principal.prefix is not None:
        raise NotAuthorized("figures are of sessions of any key: this takes a token without a prefix", known=True)
    service.metrics.disk.set(await service.disk_problem() is None)
    return Reply(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@routes.add("GET", "/v1", right="read", reply=About)
async def about(call: Call[Nothing, None]) -> About:
    """Say what this server is, what it may be asked for, and who asks."""
    from ... import __version__

    service, principal = call.service, call.principal
    return About(
        __version__,
        [] if service.programs is None else ["programs"],
        structs.asdict(service.limits),
        now(),
        principal.name,
        principal.role,
        principal.prefix,
        service.read_only,
    )


@routes.add("GET", "/openapi.json", right="none", reply=dict[str, Any], tagged=True)
async def openapi(call: Call[Nothing, None]) -> Reply:
    """Return this interface as OpenAPI 3.1."""
    tag, document = call.service.openapi()
    call.unless_known(tag)
    return Reply(document, media_type="application/json")


@routes.add("POST", "/login", right="none", body=Login, status=204, errors=(401,))
async def login(call: Call[Nothing, Login]) -> Reply:
    """Exchange a token, such as the one of a link, for a cookie, which no script can read."""
    tokens = call.service.tokens
    cookie = None if tokens is None else await to_thread.run_sync(tokens.spend, call.body.token)
    if cookie is None:
        raise NotAuthorized("this link or token was used, was revoked or has expired: make another one")
    return _with_cookie(call, cookie, 86400)


@routes.add("POST", "/logout", right="none", status=204)
async def logout(call: Call[Nothing, None]) -> Reply:
    """Drop the cookie, and end what it held if a link had given that."""
    tokens, cookie = call.service.tokens, call.request.cookies.get(cookie_name(call.request))
    if tokens is not None and cookie is not None:
        await to_thread.run_sync(tokens.sign_out, cookie)
    return _with_cookie(call, "", 0)


def _with_cookie(call: Call[Nothing, Any], value: str, max_age_s: int) -> Reply:
    path = call.incoming.scope.get("root_path") or "/"
    secure = "; Secure" if call.request.url.scheme == "https" else ""
    options = f"Path={path}; HttpOnly; SameSite=Strict; Max-Age={max_age_s}{secure}"
    return Reply(headers={"Set-Cookie": f"{cookie_name(call.request)}={value}; {options}"})
