"""Errors come back as themselves: the same class, text, place and attributes as those that the server's host raised."""

import inspect
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import HTTPConnection
from tests.server.conftest import served

from treering import Message, SessionHost, errors, text
from treering.actors.catalog.catalog import Catalog
from treering.entries import Custom, Usage
from treering.errors import NotAuthorized, RequestError, TooLarge, TooMany, TreeringError, Unavailable, Where
from treering.remote import RemoteHost
from treering.remote.connection import error_of_reply
from treering.server import Principal

ATTRIBUTES: dict[str, Any] = {
    "candidates": ("one", "two"),
    "pid": 17,
    "host": "other",
    "needed": 300,
    "available": 200,
    "failures": ("too long",),
    "status": 418,
    "retry_after_s": 3,
    "call_ids": ("call_1",),
    "known": True,
}


def every_class() -> Iterator[type[TreeringError]]:
    """Yield every class of the tree."""
    return (each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, TreeringError))


def raised(kind: type[TreeringError]) -> TreeringError:
    """Return an error of a class with all that it can say."""
    if kind is errors.EntryNotFound:
        return errors.EntryNotFound("missing")
    names = inspect.signature(kind).parameters
    error = kind(
        f"this is {kind.__name__}: do that", **{name: ATTRIBUTES[name] for name in names if name in ATTRIBUTES}
    )
    if "where" in names:
        error = kind(error.message, where=Where("folder/session.jsonl", 17, 4242))
    return error


class FailingHost(SessionHost):
    """A host whose listing fails."""

    error: BaseException | None = None

    @property
    def catalog(self) -> Catalog:
        """Raise what the test wants."""
        assert self.error is not None
        raise self.error


@pytest.fixture
async def failing() -> AsyncIterator[tuple[FailingHost, RemoteHost]]:
    async with (
        FailingHost() as host,
        served(host) as server,
        RemoteHost(f"http://127.0.0.1:{server.address[1]}", retry_for_s=0) as remote,
    ):
        yield host, remote


@pytest.mark.feature("S-21")
async def test_each_error_is_the_same_at_the_remote_caller(failing: tuple[FailingHost, RemoteHost]) -> None:
    host, remote = failing
    kinds = [*every_class()]
    assert len(kinds) > 45
    for kind in kinds:
        host.error = error = raised(kind)
        with pytest.raises(TreeringError) as caught:
            await remote.list_sessions()
        came = caught.value
        assert type(came) is kind
        assert (str(came), came.message) == (str(error), error.message)
        assert str(came.where) == str(error.where)
        assert {**vars(came), "where": None} == {**vars(error), "where": None}


async def test_what_is_no_error_of_the_library_tells_nothing(failing: tuple[FailingHost, RemoteHost]) -> None:
    host, remote = failing
    host.error = ZeroDivisionError("the password is 1234")
    with pytest.raises(RequestError, match=r"^the server failed at this request; its log says why$"):
        await remote.list_sessions()


async def test_refusals_of_commands_and_requests_are_the_librarys(local: SessionHost, remote: RemoteHost) -> None:
    session = await remote.create("main")
    first = await session.append_message("user", "one")
    await session.append_message("assistant", "two")
    own = await local.load("main")
    for handle in (session, own):
        with pytest.raises(errors.LeafMoved) as moved:
            await handle.append_message("user", "three", expected_leaf=first)
        with pytest.raises(errors.EntryNotFound) as missing:
            await handle.append_message("user", "three", below="nowhere")
        with pytest.raises(errors.SessionExists) as exists:
            await (remote if handle is session else local).create("main")
        if handle is session:
            remote_texts = [str(each.value) for each in (moved, missing, exists)]
        else:
            assert [str(each.value) for each in (moved, missing, exists)] == remote_texts
    assert missing.value.entry_id == "nowhere"
    with pytest.raises(errors.InvalidEntry, match="of a message entry"):
        await session.append(Message("user", (text("x"),), usage=Usage(1, 1, cost=float("nan"))))
    with pytest.raises(errors.InvalidInput):
        await session.append_custom_entry("mine", {"nan": float("nan")})
    with pytest.raises(errors.InvalidInput):
        await session.append(Custom("mine", float("inf")))  # type: ignore[arg-type]
    assert session.message_count == 2


async def test_a_token_decides_what_a_remote_host_may_do(local: SessionHost) -> None:
    async def who(connection: HTTPConnection) -> Principal | None:
        given = connection.headers.get("authorization", "")
        role = {"Bearer reader": "read", "Bearer writer": "write"}.get(given)
        return None if role is None else Principal(name=given, role=role)  # type: ignore[arg-type]

    async with served(local, authorize=who) as server:
        url = f"http://127.0.0.1:{server.address[1]}"
        async with RemoteHost(url, token="writer") as writer, RemoteHost(url, token="reader") as reader:
            await (await writer.create("main")).append_message("user", "one")
            session = await reader.load("main")
            assert session.message_count == 1
            with pytest.raises(NotAuthorized, match="needs the role 'write'") as refused:
                await session.append_message("user", "two")
            assert refused.value.known
        async with RemoteHost(url) as nobody:
            with pytest.raises(NotAuthorized, match="this needs a token") as unknown:
                await nobody.list_sessions()
            assert not unknown.value.known


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, NotAuthorized), (403, NotAuthorized), (413, TooLarge), (431, TooLarge), (429, TooMany), (502, Unavailable),
     (504, Unavailable), (404, errors.NotFound), (418, RequestError)],
)  # fmt: skip
async def test_what_a_proxy_refuses_is_told_by_its_status(status: int, kind: type[TreeringError]) -> None:
    request = httpx2.Request("GET", "http://proxy/v1/sessions")
    page = httpx2.Response(status, text="<html>nginx</html>", headers={"content-type": "text/html"}, request=request)
    assert type(error_of_reply(page)) is kind
    assert str(error_of_reply(page)) == f"the answer to GET /v1/sessions has the status {status}"


async def test_authorities_are_read_for_tls_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing"))
    for url in ("http://127.0.0.1:9", f"unix:{tmp_path}/none"):
        async with RemoteHost(url, retry_for_s=0) as nobody:
            with pytest.raises(Unavailable):
                await nobody.list_sessions()
    async with RemoteHost("https://127.0.0.1:9", retry_for_s=0) as nobody:
        with pytest.raises(FileNotFoundError):
            await nobody.list_sessions()


async def test_what_does_not_answer_or_is_no_server_is_said() -> None:
    async with RemoteHost("http://127.0.0.1:9", retry_for_s=0) as nobody:
        with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:9 does not answer .*: check the address"):
            await nobody.list_sessions()
    for wrong in ("127.0.0.1:8765", "ftp://there", ""):
        with pytest.raises(errors.InvalidInput, match="is not the address of a server"):
            RemoteHost(wrong)
