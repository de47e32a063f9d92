"""The listing as pages show it: from any place, by state, text, prefix and time, with how many are in which state."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.programs.homes import GROVE, OVEN, Machine, append, claude_line, mirrored, until
from tests.stores.finding_store import FindingStore

from treering import SessionHost, Usage, tool_use
from treering.testing.clocks import ManualClock

from .conftest import Client, Serve

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = NOON

    def __call__(self) -> datetime:
        return self.time


async def said(client: Client, query: str) -> tuple[list[str], dict[str, int], int]:
    """Return the ids of a page, the counts and the total."""
    page = await client.ask("GET", f"/v1/sessions?count=true&{query}")
    return [row["id"] for row in page["items"]], page["counts"], page["total"]


async def test_the_listing_is_read_from_any_place_by_state_and_text(tmp_path: Path, served: Serve) -> None:
    clock = Clock()
    async with SessionHost(tmp_path / "root", clock=clock) as host:
        for number, key in enumerate(("a:asleep", "a:Parser", "b:waits", "b:failed", "b:idle")):
            clock.time = NOON + timedelta(hours=number)
            session = await host.create(key.partition(":")[2], key=None, cwd="/src/one")
            await session.append_message("user", f"Task {number}")
    async with SessionHost(tmp_path / "root", clock=clock) as host, served(host) as client:
        for name, tool in (("waits", "ask_user"), ("failed", "bash"), ("Parser", "bash")):
            session = await host.load(name)
            clock.time += timedelta(minutes=1)
            await session.append_message("assistant", [tool_use("c1", tool, {"command": "make"})], model="m")
            if name == "failed":
                await session.append_tool_execution("c1", tool, {}, "boom", is_error=True)
        await (await host.load("idle")).append_message("assistant", "Done.", model="m")
        counts = {"error": 1, "waits": 1, "working": 1, "idle": 1, "asleep": 1}
        every = ["failed", "waits", "Parser", "idle", "asleep"]
        assert await said(client, "order=attention") == (every, counts, 5)
        assert await said(client, "order=attention&start=1&limit=2") == (every[1:3], counts, 5)
        assert await said(client, "order=attention&start=9") == ([], counts, 5)
        assert await said(client, "groups=working,error&order=attention") == (["failed", "Parser"], counts, 2)
        assert (await said(client, "text=PARS"))[0] == ["Parser"]
        assert (await said(client, "since=2026-03-09T16:00:00Z&groups=asleep"))[0] == []
        assert (await said(client, "until=2026-03-09T12:30:00Z"))[0] == ["asleep"]
        marked = await host.load("idle")
        for label in ("first", "last"):
            await marked.set_label(await marked.append_message("user", "Look"), label)
        rows = {each["id"]: each["labels"] for each in (await client.ask("GET", "/v1/sessions"))["items"]}
        assert rows == {"failed": [], "waits": [], "Parser": [], "idle": ["last", "first"], "asleep": []}
        await client.ask("GET", "/v1/sessions?start=1&page=x", status=422)
        await client.ask("GET", "/v1/sessions?groups=sleeping", status=400)
        await client.ask("GET", "/v1/sessions?since=2026-03-09", status=400)


async def test_usage_is_added_up_by_day_model_project_and_session(tmp_path: Path, served: Serve) -> None:
    clock = Clock()
    async with SessionHost(tmp_path / "root", clock=clock) as host:
        for number, (hours, model, cost) in enumerate(((0, "one", 1.5), (13, "two", 0.25), (13, "one", 0.5))):
            clock.time = NOON + timedelta(hours=hours)
            session = await host.create(f"s{number}", cwd=f"/src/p{number // 2}")
            await session.append_message(
                "assistant", "Hi", model=model, provider="x", usage=Usage(10, 1, total_tokens=11, cost=cost)
            )
        clock.time += timedelta(hours=2, minutes=40)
        await session.append_message("assistant", "More", model="two", usage=Usage(5, 1, total_tokens=6, cost=2.0))
    async with SessionHost(tmp_path / "root", clock=clock) as host, served(host) as client:

        async def sums(query: str) -> dict[str | None, float]:
            reply = await client.ask("GET", f"/v1/usage?{query}")
            assert reply["counted"] == bool(reply["rows"])
            return {row["name"]: row["usage"]["cost"] for row in reply["rows"]}

        assert await sums("by=day") == {"2026-03-09": 1.5, "2026-03-10": 2.75}
        assert await sums("by=day&tz_minutes=-120") == {"2026-03-09": 2.25, "2026-03-10": 2.0}
        assert await sums("by=model") == {"x/one": 2.0, "x/two": 0.25, "two": 2.0}
        assert await sums("by=project") == {"/src/p0": 1.75, "/src/p1": 2.5}
        assert await sums("by=session") == {"s2": 2.5, "s0": 1.5, "s1": 0.25}
        for since in ("02:00:00Z", "03:35:00Z", "09:05:00%2B05:30"):  # the hour in which it begins counts in any zone
            assert await sums(f"by=day&since=2026-03-10T{since}") == {"2026-03-10": 2.0}
        assert await sums("by=day&until=2026-03-10T02:00:00Z&project=/src/p1") == {"2026-03-10": 0.5}
        assert await sums("by=day&text=nothing") == await sums("by=day&groups=error") == {}
        assert (await client.ask("GET", "/v1/sessions?count=true"))["counts"]["asleep"] == 3, "nobody was woken up"
        far = tmp_path / "root" / "s0.jsonl"
        far.write_text(far.read_text().replace("2026-03-09T12:00:00Z", "9999-12-31T23:00:00-14:00"))
        assert await sums("by=day") == {"1970-01-01": 1.5, "2026-03-10": 2.75}


async def test_usage_adds_up_whole_sessions_alone_and_tells_how_many_are_not(tmp_path: Path, served: Serve) -> None:
    machine = Machine(tmp_path / "home")
    machine.fill()
    message = {"role": "assistant", "model": "claude-sonnet-4-5", "content": [{"type": "text", "text": "Planted."}]}
    for number in range(3, 23):
        counts = {"input_tokens": 100, "output_tokens": 10}
        answer = message | {"id": f"msg_{number}", "usage": counts}
        append(machine.growing, claude_line(number, "", "assistant", message=answer))
    async with (
        mirrored(machine, tmp_path / "root", whole_max=1) as mirror,
        served(mirror.host, programs=mirror, read_only=True) as client,
    ):
        await until(mirror, lambda lines: len(lines) == 7)

        async def sums() -> tuple[dict[str, int], int, int, bool]:
            reply = await client.ask("GET", "/v1/usage?by=session")
            rows = {row["name"]: row["usage"]["total_tokens"] for row in reply["rows"]}
            return rows, reply["sessions"], reply["partial"], reply["counted"]

        assert await sums() == ({}, 0, 7, False)
        await client.ask("GET", f"/v1/sessions/{GROVE}")
        assert await sums() == ({GROVE: 20 * 110}, 1, 6, True)
        await client.ask("GET", f"/v1/sessions/{OVEN}")  # only one is held whole
        rows, *numbers = await sums()
        assert (GROVE in rows, numbers[:2]) == (False, [1, 6])


async def test_a_store_that_finds_rows_is_asked_for_those_of_a_page_alone(served: Serve) -> None:
    store = FindingStore()
    clock = ManualClock(step=timedelta(seconds=1))
    async with SessionHost(store=store, clock=clock) as host:
        for number in range(30):
            session = await host.create(f"{'abc'[number % 3]}-{number:02}")
            await session.append_message("user", f"Task {number}")
    async with SessionHost(store=FindingStore(store.shelf), clock=clock) as host, served(host) as client:
        await (await host.load("b-04")).append_message("assistant", "Done.", model="m")
        store.found.taken = 0
        page = await client.ask("GET", "/v1/sessions?order=attention&count=true&limit=4")
        assert [row["id"] for row in page["items"]] == ["b-04", "c-29", "b-28", "a-27"]
        assert page["counts"] == {"error": 0, "waits": 0, "working": 0, "idle": 1, "asleep": 29}
        page = await client.ask("GET", f"/v1/sessions?order=attention&limit=4&page={page['next']}")
        assert [row["id"] for row in page["items"]] == ["c-26", "b-25", "a-24", "c-23"]
        page = await client.ask("GET", "/v1/sessions?groups=asleep&text=b-&order=title&start=7&limit=4&count=true")
        assert ([row["id"] for row in page["items"]], page["total"], page["next"]) == (
            ["b-28", "b-07"],
            9,
            None,
        )  # by title, as texts
        assert store.found.taken < 30
