"""The client for JavaScript in Chromium: each event once over every cut, and replicas that equal views."""

import random
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
import pytest
from playwright.async_api import Page
from tests.remote.proxy import HoldingProxy

from treering import Entry, Header, MessageEntry, Session, SessionHost, Snapshot, Usage, plain_text
from treering.projections.usage import UsageProjection

from .chromium import until
from .conftest import Json, Serving, Site
from .cutting import cutting

pytestmark = pytest.mark.browser

CUT = "net::ERR"
"""What Chromium's console says of connections that are cut."""

START = """async (options) => {
  const { connect } = await import(new URL("client.js", document.baseURI));
  window.server = connect(document.baseURI, { timing: { first: 20, most: 100, ...options } });
}"""

FOLLOW = """(id) => {
  window.seen = [];
  window.failed = null;
  (async () => {
    for await (const { event, data } of server.session(id).follow({ since: "start" })) seen.push([event, data.seq]);
  })().catch((error) => (window.failed = String(error)));
}"""

REPLICAS = """(id) => {
  window.replicas = {};
  const apply = (words, [word, count]) => ({ ...words, [word]: count });
  replicas.first_words = server.session(id).replica("first_words", { apply });
  for (const name of ["context", "tree", "labels", "usage"]) replicas[name] = server.session(id).replica(name);
}"""

VALUES = """async (cursors) => {
  const found = {};
  for (const [name, replica] of Object.entries(replicas)) {
    await replica.ready;
    await new Promise((resolve) => {
      // A replica that began anew meanwhile is further than the last change of its view.
      const look = () => (parseInt(replica.cursor) >= parseInt(cursors[name]) || replica.error) && resolve();
      replica.on(look);
      look();
    });
    if (replica.error) throw replica.error;
    found[name] = name === "labels" ? Object.fromEntries(replica.value) : replica.value;
  }
  return found;
}"""


async def open_client(page: Page, url: str, **timing: float) -> None:
    await page.goto(f"{url}client.js")  # a page that does nothing by itself
    await page.evaluate(START, timing)


class FirstWords:
    """A view of the program's own: how often messages begin with each word; a change is a word and its number."""

    name = "first_words"

    def initial(self, header: Header) -> dict[str, int]:
        return {}

    def apply(self, value: dict[str, int], entry: Entry) -> tuple[dict[str, int], tuple[str, int] | None]:
        words = plain_text(entry.message.content).split() if isinstance(entry, MessageEntry) else []
        if not words:
            return value, None
        change = words[0], value.get(words[0], 0) + 1
        return {**value, change[0]: change[1]}, change

    def dump(self, value: dict[str, int]) -> bytes:
        return msgspec.json.encode(value)

    def load(self, blob: bytes) -> dict[str, int]:
        return msgspec.json.decode(blob, type=dict[str, int])


def as_json(value: object) -> Json:
    return msgspec.json.decode(msgspec.json.encode(value))


async def write_at_random(session: Session, count: int, seed: int) -> None:
    """Write a history with everything that views show: messages, branches, labels, summaries, models, usage."""
    choose = random.Random(seed)
    ids: list[str] = []
    for number in range(count):
        match choose.randrange(10) if ids else 0:
            case 0 | 1 | 2:
                ids.append(await session.append_message("user", f"question {number} \u2028 ü"))
            case 3 | 4:
                usage = Usage(input_tokens=number, total_tokens=number, cost=number / 7)
                model = choose.choice(["m1", "m2"])
                ids.append(await session.append_message("assistant", f"answer {number}", model=model, usage=usage))
            case 5:
                await session.set_label(choose.choice(ids), choose.choice(["", "a", "b", f"l{number}"]))
            case 6:
                await session.branch(choose.choice(ids))
            case 7:
                await session.append_model_change("provider", choose.choice(["m1", "m2"]))
            case 8:
                path = [each for each in session.path() if each in ids]
                if path:
                    ids.append(await session.append_compaction(f"summary {number}", choose.choice(path), 1000))
            case _:
                ids.append(await session.branch_with_summary(choose.choice(ids), f"left at {number}"))


@pytest.mark.feature("S-14")
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
async def test_replicas_equal_the_librarys_views_after_a_random_history(
    host: SessionHost, serving: Serving, page: Page, allowed: list[str], seed: int
) -> None:
    allowed.append(CUT)
    session = await host.create("one")
    await write_at_random(session, 30, seed)
    words = FirstWords()
    async with serving(host, projections=[words]) as site, cutting(site.port, seed) as proxy:
        await open_client(page, proxy.url)
        await page.evaluate(REPLICAS, "one")
        await page.evaluate("Promise.all(Object.values(replicas).map((replica) => replica.ready))")
        proxy.cuts = (0, 20_000)
        for part in range(5):
            await write_at_random(session, 40, seed * 100 + part)
            await page.evaluate("new Promise((resolve) => setTimeout(resolve, 30))")
        proxy.cuts = None
        for part in range(5, 10):  # in which changes are applied to what is there already, uncut
            await page.evaluate("new Promise((resolve) => setTimeout(resolve, 30))")
            await write_at_random(session, 40, seed * 100 + part)
        end = await session.append_message("assistant", "the end", model="m1", usage=Usage(total_tokens=1))
        cursors = {"usage": str(session.cursor), "first_words": str(session.cursor)}
        await session.set_label(end, "the end")
        cursors |= dict.fromkeys(["context", "tree", "labels"], str(session.cursor))
        await page.evaluate(VALUES, cursors)
        leaf = session.tree().leaf  # the tree takes a label in three changes, of which this one is the last
        await until(page, "(leaf) => replicas.tree.value.leaf === leaf", leaf)
        found = await page.evaluate(VALUES, cursors)
    context = as_json(await session.context())
    assert {name: found["context"][name] for name in context} == context
    assert found["tree"] == as_json(session.tree())
    assert found["first_words"] == await session.view(words)
    assert found["labels"] == dict(session.labels())
    async with session.subscribe(UsageProjection()) as steps:
        first = await anext(steps)
    assert isinstance(first, Snapshot)
    usage = first.value
    assert found["usage"]["total"] == msgspec.structs.asdict(usage.total)
    assert [(each["provider"], each["model"], each["usage"]) for each in found["usage"]["by_model"]] == [
        (each.provider, each.model, msgspec.structs.asdict(each.usage)) for each in usage.by_model
    ]


async def test_a_stream_that_is_cut_at_random_gives_each_entry_once_and_in_order(
    host: SessionHost, site: Site, page: Page, allowed: list[str]
) -> None:
    allowed.append(CUT)
    session = await host.create("one")
    await session.append_message("user", "the first")
    async with cutting(site.port) as proxy:
        await open_client(page, proxy.url)
        await page.evaluate(FOLLOW, "one")
        proxy.cuts = (0, 40_000)

        async def write(writer: int) -> None:
            for number in range(25):
                await session.append_message("user", f"{writer} {number} " + "x" * (writer * 37))
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as writers:
            for writer in range(20):
                writers.start_soon(write, writer)
        await until(page, "failed !== null || seen.length >= 501")
    assert await page.evaluate("failed") is None
    assert await page.evaluate("seen") == [["entry", seq] for seq in range(1, 502)]
    assert proxy.cut


MANY = """(ids) => {
  window.seen = {};
  window.failed = null;
  window.gathering = server.followMany(Object.fromEntries(ids.map((id) => [id, {}])));
  (async () => {
    for await (const { event, session, data } of gathering) {
      (seen[session] ??= []).push([event, data.seq ?? data.status]);
    }
  })().catch((error) => (window.failed = String(error)));
}"""


async def test_many_sessions_over_one_stream_whose_set_changes_while_it_is_cut(
    host: SessionHost, site: Site, page: Page, allowed: list[str]
) -> None:
    allowed += [CUT, "404", "409"]  # a change of a stream that is gone
    choose = random.Random(5)
    sessions = [await host.create(f"s{number}") for number in range(40)]
    for session in sessions:
        await session.append_message("user", "the first")
    ids = [session.id for session in sessions]
    async with cutting(site.port) as proxy:
        await open_client(page, proxy.url)
        await page.evaluate(MANY, [*ids[:20], "nobody"])
        proxy.cuts = (0, 2000)
        written = 1
        while written < 16 or not proxy.cut:  # on a quick machine all of it may be written before anything is cut
            written += 1
            async with anyio.create_task_group() as writers:
                for session in sessions:
                    writers.start_soon(session.append_message, "user", "hello")
            removed, added = choose.sample(ids, 8), choose.sample(ids, 12)
            await page.evaluate(
                "([removed, added, cursors]) => { cursors = gathering.cursors; gathering.remove(removed);"
                " window.kept = { ...window.kept, ...cursors };"
                " gathering.add(Object.fromEntries(added.map((id) => [id, { since: kept[id] ?? 'start' }]))); }",
                [removed, added, {}],
            )
        proxy.cuts = None
        await page.evaluate(
            "(ids) => gathering.add(Object.fromEntries(ids.map((id) => [id, { since: kept[id] ?? 'start' }])))", ids
        )
        await until(page, "([ids, count]) => failed || ids.every((id) => seen[id]?.length >= count)", [ids, written])
    assert await page.evaluate("failed") is None
    seen = await page.evaluate("seen")
    assert seen.pop("nobody") == [["problem", 404]]
    assert seen == {each: [["entry", seq] for seq in range(1, written + 1)] for each in ids}


async def test_a_stream_goes_on_after_a_restart_and_says_how_it_does(
    tmp_path: Path, serving: Serving, page: Page, allowed: list[str]
) -> None:
    allowed += [CUT, "503"]  # a server that stops says so
    root = tmp_path / "root"
    async with SessionHost(root) as host, serving(host) as site:
        session = await host.create("one")
        for number in range(10):
            await session.append_message("user", f"before {number}")
        await open_client(page, site.url)
        await page.evaluate("() => { window.states = []; server.onState(({ state }) => states.push(state)); }")
        await page.evaluate(FOLLOW, "one")
        await until(page, "seen.length === 10")
        port = site.port
    await until(page, "states.at(-1) === 'waiting'")
    async with SessionHost(root) as host, serving(host, port=port) as site:
        session = await host.load("one")
        await session.append_message("user", "after")
        await until(page, "failed !== null || seen.length >= 11")
        await until(page, "states.at(-1) === 'open'")
        assert await page.evaluate("seen") == [["entry", seq] for seq in range(1, 12)]
        assert (await page.evaluate("states"))[:3] == ["closed", "connecting", "open"]
        reply = await page.evaluate(
            "server.get('sessions/none').then(String, ({ name, status, error, retry }) => [name, status, error, retry])"
        )
        assert reply == ["Problem", 404, "SessionNotFound", False]
        allowed.append("404")


async def test_streams_end_soon_where_something_hands_on_only_whole_replies(
    host: SessionHost, serving: Serving, page: Page, allowed: list[str]
) -> None:
    allowed += [CUT]  # streams of which nothing came are given up
    session = await host.create("one")
    await session.append_message("user", "before")
    async with serving(host) as site, HoldingProxy(("127.0.0.1", site.port)).running() as proxy:
        await open_client(page, f"{proxy.url}/", opening=1000, whole=1000)  # one given up sooner may not be sent
        await page.evaluate(FOLLOW, "one")
        for seq in (1, 2, 3):
            await until(page, "([count]) => failed !== null || seen.length >= count", [seq])
            await session.append_message("user", "meanwhile")
        assert await page.evaluate("[seen.slice(0, 3), failed]") == [[["entry", seq] for seq in (1, 2, 3)], None]
        assert proxy.preferred[:5] == [None, None, "wait=1", "wait=1", "wait=1"]
