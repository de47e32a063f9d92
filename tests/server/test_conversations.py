"""OpenAI's Conversations API, as OpenAI's own client asks: items, pages, refusals, rights, and repeated requests."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from tests.adapters.typed_values import Value, values_of
from tests.docs.test_samples import PROJECT, samples_of
from tests.serving import running

from treering import Message, SessionHost, plain_text, text, tool_use
from treering.events.disk.disk import OsDisk
from treering.server import ServerLimits, Tokens
from treering.server.conversations import INCLUDES

Connect = Callable[..., AsyncOpenAI]

pytestmark = pytest.mark.feature("A-28")
EVERYTHING: Any = list(INCLUDES)


@pytest.fixture
def anyio_backend() -> str:
    """The client knows no other loop."""
    return "asyncio"


@pytest.fixture
async def connect(host: SessionHost, tmp_path: Path) -> AsyncIterator[Connect]:
    """Connect clients to a server, each with a token of its own; the first one may do everything."""
    tokens = Tokens(tmp_path / "tokens.json", OsDisk())
    limits = ServerLimits(body_bytes_max=100_000, page_bytes_max=10_000)
    async with AsyncExitStack() as closing, running(host, tokens=tokens, limits=limits) as (_, port):

        def connect(role: Any = "admin", prefix: str | None = None, token: str | None = None) -> AsyncOpenAI:  # noqa: ANN401
            known = token or tokens.create(role, prefix=prefix)
            client = AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/openai/v1", api_key=known, max_retries=0)
            closing.push_async_callback(client.close)
            return client

        yield connect


@pytest.fixture
def client(connect: Connect) -> AsyncOpenAI:
    return connect()


def said(*words: str) -> list[Any]:
    return [{"role": ("user", "assistant")[at % 2], "content": each} for at, each in enumerate(words)]


async def words(client: AsyncOpenAI, conversation: str, **options: Any) -> list[str]:  # noqa: ANN401
    """Return the texts of a conversation's messages, asked for page by page."""
    items = client.conversations.items.list(conversation, **{"order": "asc", "limit": 2, **options})
    return [part.text async for item in items for part in getattr(item, "content", None) or []]


async def test_items_of_every_kind_come_back_as_they_were(client: AsyncOpenAI) -> None:
    sent: list[Any] = list(values_of(ResponseInputItemParam))
    sent = [item for item in sent if "type" in item or "role" in item]
    assert len(sent) > 30
    conversation = await client.conversations.create(items=sent[:20])
    made = await client.conversations.items.create(conversation.id, items=sent[20:], include=EVERYTHING)
    assert (made.first_id, made.last_id) == (made.data[0].id, made.data[-1].id)
    raw = await client.conversations.items.with_raw_response.list(
        conversation.id, limit=100, order="asc", include=EVERYTHING
    )
    found = raw.http_response.json()["data"]
    assert len({item["id"] for item in found}) == len(found) == len(sent)
    for before, item in zip(sent, found, strict=True):
        assert isinstance(item["type"], str)
        for name, value in before.items():
            if name == "content" and item["type"] == "message":
                _check_content(value, item["content"])
            elif value is not None and name != "id":
                assert item[name] == value, (name, item)
    own = {item["id"] for item in sent if "id" in item}  # of which some stand twice
    assert len([item for item in found if item["id"] in own]) == len(own) > 3
    objects = [item async for item in client.conversations.items.list(conversation.id, limit=100, order="asc")]
    assert [item.id for item in objects] == [item["id"] for item in found]


def _check_content(before: Any, found: list[Value]) -> None:  # noqa: ANN401  # a string or parts
    if isinstance(before, str):
        assert [part["text"] for part in found] == [before]
        return
    for part, shown in zip(before, found, strict=True):
        assert {name: value for name, value in shown.items() if name in part} == part


async def test_the_words_are_a_session_like_all_others(client: AsyncOpenAI, host: SessionHost) -> None:
    conversation = await client.conversations.create(items=said("Where is my parcel?"), metadata={"user": "42"})
    assert (conversation.object, conversation.metadata) == ("conversation", {"user": "42"})
    assert (await client.conversations.update(conversation.id, metadata={"user": "43"})).metadata == {"user": "43"}
    assert await client.conversations.retrieve(conversation.id) == conversation.model_copy(
        update={"metadata": {"user": "43"}}
    )
    own = await host.load(conversation.id)
    await own.append(Message("assistant", (text("Let me look."), tool_use("c", "track", {"number": 9}))))
    listed = [item async for item in client.conversations.items.list(conversation.id)]
    assert [item.type for item in listed] == ["function_call", "message", "message"]
    assert (await client.conversations.items.retrieve(listed[0].id or "", conversation_id=own.id)) == listed[0]
    assert [hit.session_id async for hit in host.search("parcel")] == [own.id]
    deleted = await client.conversations.delete(own.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (own.id, True, "conversation.deleted")
    assert await host.list_sessions() == []


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_pages_tell_each_item_once_whatever_is_appended_meanwhile(client: AsyncOpenAI, order: Any) -> None:  # noqa: ANN401
    given: list[Any] = [{"type": "reasoning", "id": f"rs_{at % 3}", "summary": []} for at in range(7)]  # ids come again
    conversation = await client.conversations.create(items=given)
    page = await client.conversations.items.list(conversation.id, order=order, limit=3)
    assert (page.has_more, page.last_id) == (True, page.data[-1].id)
    before = [item.id for item in page.data]
    added = await client.conversations.items.create(conversation.id, items=said("more"))
    rest = client.conversations.items.list(conversation.id, order=order, limit=3, after=page.last_id or "")
    seen = before + [item.id async for item in rest]
    assert len(set(seen)) == len(seen) == (8 if order == "asc" else 7)
    assert (added.last_id in seen) == (order == "asc")
    assert (await client.conversations.items.list(conversation.id)).data[0].id == added.last_id
    large = await client.conversations.items.create(conversation.id, items=said("x" * 9_000, "y" * 9_000, "z"))
    page = await client.conversations.items.list(conversation.id, order="desc", limit=100)
    assert len(page.data) == 3  # the bound of its bytes
    assert (page.has_more, [item.id for item in page.data]) == (True, [item.id for item in large.data][::-1])
    assert len([item async for item in client.conversations.items.list(conversation.id, limit=100)]) == 11


async def test_what_is_large_or_secret_is_shown_if_it_is_asked_for(client: AsyncOpenAI) -> None:
    logged = {"type": "output_text", "text": "t", "annotations": [], "logprobs": [{"token": "t"}]}
    given: dict[str, tuple[Any, Callable[[Any], object]]] = {
        "code_interpreter_call.outputs": (
            {"type": "code_interpreter_call", "id": "ci", "code": "1", "outputs": [{"type": "logs", "logs": "1"}]},
            lambda item: item.get("outputs"),
        ),
        "file_search_call.results": (
            {"type": "file_search_call", "id": "fs", "queries": [], "results": [{"text": "t"}]},
            lambda item: item.get("results"),
        ),
        "web_search_call.action.sources": (
            {
                "type": "web_search_call",
                "id": "ws",
                "action": {"type": "search", "query": "q", "sources": [{"url": "u"}]},
            },
            lambda item: item["action"].get("sources"),
        ),
        "reasoning.encrypted_content": (
            {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "sealed"},
            lambda item: item.get("encrypted_content"),
        ),
        "message.output_text.logprobs": (
            {"type": "message", "role": "assistant", "id": "msg", "content": [logged]},
            lambda item: item["content"][0].get("logprobs"),
        ),
    }
    conversation = await client.conversations.create(items=[item for item, _ in given.values()])

    async def shown(*include: str) -> dict[str, object]:
        asked: Any = list(include)
        raw = await client.conversations.items.with_raw_response.list(conversation.id, order="asc", include=asked)
        items = raw.http_response.json()["data"]
        return {name: look(item) for (name, (_, look)), item in zip(given.items(), items, strict=True)}

    assert list((await shown()).values()) == [None] * len(given)
    assert all((await shown(*given)).values())
    for name, (item, look) in given.items():
        assert [each for each, value in (await shown(name)).items() if value] == [name]
        one = await client.conversations.items.with_raw_response.retrieve(
            item["id"],
            conversation_id=conversation.id,
            include=[name],  # type: ignore[list-item]  # one of these
        )
        assert look(one.http_response.json()) == look(item)


async def test_refusals_are_the_errors_of_the_client(client: AsyncOpenAI, connect: Connect) -> None:
    conversations, items = client.conversations, client.conversations.items
    there = (await conversations.create()).id
    tries: list[tuple[type[openai.APIStatusError], Any]] = [
        (openai.NotFoundError, conversations.retrieve("conv_nobody")),
        (openai.NotFoundError, conversations.update("conv_nobody", metadata={})),
        (openai.NotFoundError, conversations.delete("conv_nobody")),
        (openai.NotFoundError, items.create("conv_nobody", items=said("Hi"))),
        (openai.NotFoundError, items.retrieve("msg_nobody's", conversation_id=there)),
        (openai.NotFoundError, items.delete("msg_nobody's", conversation_id=there)),
        (openai.NotFoundError, items.list(there, after="msg_nobody's").__aiter__().__anext__()),
        (openai.NotFoundError, client.get("/models", cast_to=object)),
        (openai.BadRequestError, items.list(there, limit=101).__aiter__().__anext__()),
        (openai.BadRequestError, items.list(there, order="up").__aiter__().__anext__()),  # type: ignore[arg-type]
        (openai.BadRequestError, items.list(there, include=["all"]).__aiter__().__anext__()),  # type: ignore[list-item]
        (openai.BadRequestError, items.create(there, items=[])),
        (openai.BadRequestError, items.create(there, items=[*said("no part of a batch"), {}])),  # type: ignore[list-item]
        (openai.BadRequestError, items.create(there, items=["text"])),  # type: ignore[list-item]
        (openai.BadRequestError, conversations.create(metadata={str(number): "" for number in range(17)})),
        (openai.BadRequestError, conversations.create(metadata={"a": "x" * 513})),
        (openai.BadRequestError, conversations.create(extra_body={"model": "gpt-5"})),
        (openai.APIStatusError, conversations.create(items=said("x" * 100_001))),
        (openai.AuthenticationError, connect(token="no token").conversations.create()),
        (openai.PermissionDeniedError, connect("read").conversations.create()),
        (openai.PermissionDeniedError, connect("write").conversations.delete(there)),
    ]
    for kind, asked in tries:
        with pytest.raises(kind) as refused:
            await asked
        error = refused.value
        assert kind is not openai.APIStatusError or error.status_code == 413
        assert isinstance(error.body, dict)
        assert set(error.body) == {"message", "type", "param", "code"}
        assert error.body["message"]
        assert error.type
        assert error.code
    assert await words(client, there) == []


async def test_a_prefix_hides_what_is_of_others(connect: Connect, client: AsyncOpenAI) -> None:
    ada, bob = connect("write", "ada:"), connect("write", "bob:")
    conversation = await ada.conversations.create(items=said("secret"))
    assert await words(ada, conversation.id) == ["secret"] == await words(client, conversation.id)
    for asked in (
        bob.conversations.retrieve(conversation.id),
        bob.conversations.items.create(conversation.id, items=said("Hi")),
        words(bob, conversation.id),
        words(ada, (await client.conversations.create()).id),
    ):
        with pytest.raises(openai.NotFoundError):
            await asked


async def test_a_repeated_request_does_nothing_more(client: AsyncOpenAI) -> None:
    def key(name: str) -> dict[str, str]:
        return {"idempotency-key": name}

    made = [await client.conversations.create(items=said("a"), extra_headers=key("1")) for _ in range(2)]
    assert made[0] == made[1]
    there, items = made[0].id, client.conversations.items
    for other in (said("another"), []):
        with pytest.raises(openai.ConflictError):
            await client.conversations.create(items=other, extra_headers=key("1"))
    empty = [await client.conversations.create(extra_headers=key("empty")) for _ in range(2)]
    with pytest.raises(openai.ConflictError):
        await client.conversations.create(items=said("a"), extra_headers=key("empty"))
    assert await words(client, empty[0].id) == []
    first = await items.create(there, items=said("b", "c"), extra_headers=key("2"))
    await items.create(there, items=said("d"))
    assert await items.create(there, items=said("b", "c"), extra_headers=key("2")) == first
    for _ in range(2):
        await items.delete(first.last_id, conversation_id=there, extra_headers=key("3"))
    assert await words(client, there) == ["a", "b", "d"]
    assert await items.create(there, items=said("b", "c"), extra_headers=key("2")) == first


async def test_an_item_is_taken_out_wherever_it_stands(client: AsyncOpenAI, host: SessionHost) -> None:
    conversation = await client.conversations.create(items=said("a", "b", "c"))
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "out"}
    items = client.conversations.items
    called = await items.create(conversation.id, items=[call, output, *said("d")])  # type: ignore[list-item]
    own = await host.load(conversation.id)
    await own.append(Message("assistant", (text("e"), tool_use("g", "g"))))

    async def delete(item_id: str | None) -> list[str]:
        await items.delete(item_id or "", conversation_id=own.id)
        with pytest.raises(openai.NotFoundError):
            await items.retrieve(item_id or "", conversation_id=own.id)
        return [item.id or "" async for item in items.list(own.id, order="asc")]

    before = [item.id or "" async for item in items.list(own.id, order="asc")]
    assert await delete(before[1]) == [before[0], *before[2:]]
    left = await delete(called.data[1].id)
    assert left == [before[0], before[2], before[3], before[5], before[6], before[7]]
    left = await delete(before[7])  # the call in the answer that something else wrote
    assert await words(client, own.id) == ["a", "c", "d", "e"]
    for item_id in reversed(left):
        await delete(item_id)
    assert await words(client, own.id) == []
    assert [plain_text(each.content) for each in (await own.all_messages())[:3]] == ["a", "b", "c"]
    await items.create(own.id, items=said("anew"))
    assert [plain_text(each.content) for each in await own.messages()] == ["anew"]


async def test_the_server_describes_its_refusals_in_that_form(client: AsyncOpenAI) -> None:
    async with httpx2.AsyncClient(base_url=str(client.base_url), headers=client.auth_headers) as http:
        described = (await http.get("/../../openapi.json")).json()
    operation = described["paths"]["/openai/v1/conversations/{session_id}/items"]["get"]
    schema = operation["responses"]["404"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/OpenAIRefusal"}
    (include,) = (each for each in operation["parameters"] if each["name"] == "include[]")
    assert include["explode"] is True


async def test_the_program_of_the_guide_runs(client: AsyncOpenAI) -> None:
    (sample,) = (each for each in samples_of(PROJECT / "docs" / "frameworks.md") if "converse(" in each.code)
    assert len(sample.code.splitlines()) <= 30
    names: dict[str, Any] = {}
    exec(sample.compiled(), names)  # noqa: S102  # the page of this very checkout
    there = await names["converse"](str(client.base_url).removesuffix("/openai/v1/"), client.api_key)
    assert await words(client, there) == ["Where is my parcel?"]
