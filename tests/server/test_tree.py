"""Operations on the tree, contexts, usage and search over HTTP give what the library gives."""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from treering import ContextBuilder, SessionHost, tool_result, tool_use
from treering.contexts import calculate_budget
from treering.projections import UsageProjection
from treering.sessions import Hit, Search

from .conftest import Client, Json, Serve


def as_json(value: object) -> Json:
    return msgspec.json.decode(msgspec.json.encode(value))


async def filled(client: Client, host: SessionHost) -> list[str]:
    """Make a session of five turns with a tool call, and return the ids of its entries."""
    session = await host.create("a", cwd="/work/p")
    ids = [await session.append_message("user", "Where does the timeout come from?")]
    ids.append(
        await session.append_message("assistant", (tool_use("c1", "grep", {"q": "timeout"}),), model="m", provider="p")
    )
    ids.append(await session.append_message("tool", (tool_result("c1", "net.py:7: timeout = 3"),), tool_name="grep"))
    for turn in range(4):
        ids.append(await session.append_message("user", f"And {turn}? " + "x" * 400))
        ids.append(await session.append_message("assistant", f"It is {turn}. " + "y" * 400, model="m", provider="p"))
    return ids


@pytest.mark.feature("S-5")
async def test_operations_on_the_tree_are_those_of_the_library(client: Client, host: SessionHost) -> None:
    ids = await filled(client, host)
    session, url = await host.load("a"), "/v1/sessions/a"
    labelled = await client.ask("PUT", f"{url}/labels/{ids[2]}", {"label": "found"})
    assert session.label(ids[2]) == "found"
    assert labelled["leaf"] == session.leaf_id
    assert (await client.ask("GET", f"{url}/labels"))["labels"] == [{"entry_id": ids[2], "label": "found"}]
    await client.ask("PUT", f"{url}/labels/nobody", {"label": "x"}, status=404)
    await client.ask("DELETE", f"{url}/labels/{ids[2]}")
    assert session.labels() == []
    head = session.cursor.seq
    assert (await client.ask("DELETE", f"{url}/labels/{ids[2]}"))["entry_id"] is None
    assert session.cursor.seq == head  # what is so already is not written again

    assert (await client.ask("PUT", f"{url}/leaf", {"entry_id": ids[2]}))["leaf"] == ids[2] == session.leaf_id
    branch = await client.ask(
        "POST", f"{url}/branch", {"entry_id": ids[0], "summary": "It was the timeout."}, status=201
    )
    assert branch["entry_id"] == session.leaf_id
    assert session.path() == [ids[0], branch["entry_id"]]
    assert (await client.ask("POST", f"{url}/branch", {"entry_id": ids[-1]}))["leaf"] == ids[-1]
    assert (await client.ask("PUT", f"{url}/leaf", {"entry_id": None}))["leaf"] is None
    await client.ask("PUT", f"{url}/leaf", {"entry_id": "nobody"}, status=404)
    assert (await client.ask("GET", f"{url}/leaf"))["leaf"] is None
    await client.ask("PUT", f"{url}/leaf", {"entry_id": ids[-1]})
    assert (await client.ask("GET", f"{url}/tree"))["tree"] == as_json(session.tree())

    cut = await client.ask("POST", f"{url}/truncate", {"keep_last": 2, "summary": "Earlier turns."})
    assert cut["entry_id"] == session.leaf_id
    assert len((await session.context()).messages) == 2
    assert session.summary == "Earlier turns."
    await client.ask("PUT", f"{url}/leaf", {"entry_id": ids[-1]})
    unsafe = {"summary": "s", "first_kept_entry_id": ids[2], "tokens_before": 9}
    assert (await client.ask("POST", f"{url}/compact", unsafe, status=422))["error"] == "UnsafeCut"
    compacted = await client.ask("POST", f"{url}/compact", {**unsafe, "first_kept_entry_id": ids[3]}, status=201)
    assert compacted["entry_id"] == session.leaf_id
    assert (await client.ask("PATCH", url, {"title": "Timeout"}))["title"] == session.title == "Timeout"
    part = await client.ask("POST", f"{url}/fork", {"entry_id": ids[2]}, status=201)
    assert (await host.load(part["id"])).message_count == 3


@pytest.mark.feature("S-6")
async def test_contexts_are_those_of_the_library(client: Client, host: SessionHost) -> None:
    ids = await filled(client, host)
    session, url = await host.load("a"), "/v1/sessions/a/context"
    assert (await client.ask("GET", url))["context"] == as_json(await session.context())
    assert (await client.ask("GET", f"{url}?leaf={ids[4]}"))["context"] == as_json(await session.context(ids[4]))
    await client.ask("GET", f"{url}?leaf=nobody", status=404)
    head = session.cursor
    for window in (4000, 700, 500):
        body = {"model_context_window": window, "system_prompt": "Be brief.", "reserve_for_response": 50}
        built = await client.ask("POST", url, body)
        expected = await session.build_context(
            calculate_budget(window, "Be brief.", reserve_for_response=50), ContextBuilder()
        )
        for name in ("strategy", "tokens_used", "included_message_count", "masked_message_count", "messages", "budget"):
            assert built[name] == as_json(getattr(expected, name)), name
    assert (await client.ask("POST", url, {"model_context_window": 20}, status=422))["error"] == "ContextOverflow"
    await client.ask("POST", url, {"model_context_window": 0}, status=400)
    assert session.cursor == head
    assert (await client.ask("GET", "/v1/sessions/a/views/usage"))["usage"] == as_json(
        await session.view(UsageProjection())
    )
    assert (await client.ask("GET", "/v1/sessions/a/views/stats"))["stats"] == as_json(await session.stats())


async def test_the_report_of_a_context_is_that_of_the_library(client: Client, host: SessionHost) -> None:
    ids = await filled(client, host)
    session, url = await host.load("a"), "/v1/sessions/a/context/report"
    whole = await client.ask("GET", url)
    assert whole["report"] == as_json(await session.context_report())
    assert (whole["report"]["window"], whole["report"]["parts"]["free"]) == (None, None)
    tag = (await client.reply("GET", url)).headers["etag"]
    assert (await client.reply("GET", url, headers={"if-none-match": tag})).status_code == 304
    query = f"{url}?entry={ids[-1]}&window=700&reserve_for_response=50&system_tokens=20&tool_tokens=30"
    report = (await client.ask("GET", query))["report"]
    parts = report["parts"]
    assert (report["is_answer"], report["leaf_id"], report["previous_call"]) == (True, ids[-2], ids[-3])
    assert (parts["system"], parts["tools"], parts["reserve"]) == (20, 30, 50)
    assert sum(parts[name] for name in parts if name != "excess") - parts["excess"] == 700
    assert {item["fate"] for item in report["items"]} == {"sent", "summarized"}
    await client.ask("GET", f"{url}?entry=nobody", status=404)
    assert (await client.ask("GET", f"{url}?window=20", status=422))["error"] == "ContextOverflow"
    # a part of the messages, by default the last ones, with the figures of all
    part = await client.ask("GET", f"{query}&limit=2")
    assert part["start"] == len(report["items"]) - 2
    assert part["report"] == {**report, "items": report["items"][-2:]}
    fates = [item["fate"] for item in report["items"]]
    assert part["counts"] == {fate: fates.count(fate) for fate in ("sent", "masked", "summarized", "cut")}
    part = await client.ask("GET", f"{query}&start=1&limit=2")
    assert (part["start"], part["report"]["items"]) == (1, report["items"][1:3])
    assert (await client.ask("GET", f"{query}&start=1000"))["report"]["items"] == []
    await client.ask("GET", f"{query}&limit=0", status=400)


async def test_a_tree_comes_in_columns_with_the_words_of_the_entries_in_view(client: Client, host: SessionHost) -> None:
    ids = await filled(client, host)
    session, url = await host.load("a"), "/v1/sessions/a/tree"
    await session.set_label(ids[3], "here")
    await session.set_label(ids[4], "gone")
    await session.set_label(ids[4], None)
    await session.branch(ids[0])
    await session.append_message("tool", tool_result("c9", "exit 1", is_error=True))
    await session.append_message("assistant", "It may be", stop_reason="error")
    tree = (await client.ask("GET", f"{url}/columns"))["tree"]
    nodes = sorted(session.tree().nodes, key=lambda node: node.seq)
    assert tree["ids"] == [node.id for node in nodes]
    assert tree["seqs"] == [node.seq for node in nodes]
    assert tree["parents"] == [node.parent_seq for node in nodes]
    assert [tuple(tree["types"][kind]) for kind in tree["kinds"]] == [(node.type, node.role) for node in nodes]
    assert (tree["labels"], tree["leaf"]) == ({ids[3]: "here"}, session.tree().leaf)
    words = (await client.ask("GET", f"{url}/words?seqs=2,1,{tree['leaf'] - 1},{tree['leaf']}"))["items"]
    assert [(each["seq"], each["text"], each["error"]) for each in words] == [
        (2, "grep timeout", False),
        (1, "Where does the timeout come from?", False),
        (tree["leaf"] - 1, "exit 1", True),
        (tree["leaf"], "It may be", True),
    ]
    await client.ask("GET", f"{url}/words?seqs=999", status=404)
    for wrong in ("", "?seqs=", "?seqs=0", f"?seqs={','.join(map(str, range(1, 502)))}"):
        await client.ask("GET", f"{url}/words{wrong}", status=400)


class Endless(SessionHost):
    """A host whose searches find one entry, and then go on until they are left."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = anyio.Event()
        self.left = anyio.Event()

    def search(self, query: str, **_: object) -> Search:
        async def hits(_: object) -> AsyncGenerator[Hit]:
            try:
                async for hit in super(Endless, self).search(query):
                    yield hit
                self.begun.set()
                await anyio.sleep_forever()
            finally:
                self.left.set()

        return Search(hits)


@pytest.mark.feature("S-24")
async def test_search_finds_what_the_library_finds_in_the_same_order_and_ends_when_its_client_leaves(
    client: Client, host: SessionHost, served: Serve
) -> None:
    await filled(client, host)
    other = await host.create("b", cwd="/work/q")
    await other.append_message("user", "No timeout, ever: timeout, TIMEOUT")

    def shown(hit: Hit) -> Json:
        return {name: value for name, value in as_json(hit).items() if name != "ref"}

    for query, filters in (
        ("timeout", {}),
        ('"it is 2"', {}),
        ("timeout", {"project": "/work/p"}),
        ("timeout", {"role": "tool"}),
        ("y x", {"limit": 3}),
    ):
        expected = [shown(hit) async for hit in host.search(query, **filters)]
        named = "".join(f"&{name}={value}" for name, value in filters.items())
        page = await client.ask("GET", f"/v1/search?q={query}{named}")
        assert page["items"] == expected
        paged: list[Any] = []
        word = ""
        for _ in range(20):
            part = await client.ask("GET", f"/v1/search?q={query}{named.replace('&limit=3', '')}&limit=1{word}")
            paged += part["items"]
            if part["next"] is None:
                break
            word = f"&page={part['next']}"
        assert paged[: len(expected)] == expected
    one = await client.ask("GET", "/v1/sessions/b/search?q=timeout")
    assert [hit["session_id"] for hit in one["items"]] == ["b"]
    assert one["items"][0]["ranges"] == [[3, 10], [18, 25], [27, 34]]
    await client.ask("GET", "/v1/search?q=", status=400)
    async with Endless() as endless, served(endless) as waiting:
        for _ in range(2):
            await (await endless.get_or_create("key")).append_message("user", "a needle")
        page = await waiting.ask("GET", "/v1/search?q=needle&limit=1")  # is not kept waiting for more than it asked
        assert len(page["items"]) == 1
        async with await anyio.connect_tcp(*waiting.address) as stream:
            await stream.send(b"GET /v1/search?q=needle HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await endless.begun.wait()
        await endless.left.wait()
        while "abandoned_total 1.0" not in waiting.application.service.metrics.text().decode():
            await anyio.lowlevel.checkpoint()
