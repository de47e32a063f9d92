"""`treering compact` and `treering debug context`: compacting a session, and showing what a model would be sent."""

import json
from importlib.util import find_spec

import pytest

from treering import SyncHost
from treering.entries import Provider
from treering.testing.model_server import ModelServer

from .conftest import Cli


@pytest.fixture
def long(cli: Cli) -> str:
    """A session with twenty turns."""
    return cli.create(*(f"Question {number}: " + "why and how? " * 40 for number in range(20)), session_id="long")


@pytest.mark.feature("N-117")
def test_a_dry_run_reports_and_writes_nothing(cli: Cli, long: str) -> None:
    before = cli.files()
    report = cli.json("compact", "long", "--keep-tokens", "1000")
    entries = [json.loads(line)["id"] for line in cli.lines("entries", "long", "--json")]
    cut = entries.index(report["first_kept_entry_id"])
    assert (report["summarized_count"], report["kept_count"]) == (cut, len(entries) - cut)
    assert 0 < cut < len(entries)
    assert report["tokens_before"] > report["tokens_after"] > 0
    assert (report["entry_id"], report["summary"]) == (None, "")
    result = cli("compact", "long", "--keep-tokens", "1000")
    first, second, _ = result.stdout.splitlines()
    shown = report["first_kept_entry_id"][:8]
    assert first == f"would summarize {cut} messages, and would keep {len(entries) - cut} messages from {shown} on"
    assert second.startswith(f"tokens before {report['tokens_before']:,}, after about {report['tokens_after']:,}")
    assert result.stderr == "nothing was written: pass --apply to compact\n"
    assert cli.files() == before


@pytest.mark.feature("N-118")
def test_compacting_appends_one_compaction_entry(cli: Cli, long: str) -> None:
    before = (cli.root / "long.jsonl").read_bytes()
    would = cli.json("compact", "long", "--keep-tokens", "1000")
    result = cli("compact", "long", "--keep-tokens", "1000", "--apply", "--model", "echo", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    done = json.loads(result.stdout)
    after = (cli.root / "long.jsonl").read_bytes()
    assert after.startswith(before)
    (line,) = after[len(before) :].splitlines()
    entry = json.loads(line)
    assert (entry["type"], entry["id"]) == ("compaction", done["entry_id"])
    assert entry["compaction"]["first_kept_entry_id"] == done["first_kept_entry_id"] == would["first_kept_entry_id"]
    assert entry["compaction"]["tokens_before"] == would["tokens_before"] > done["tokens_after"]
    assert len(cli.json("context", "long")["messages"]) == would["kept_count"] + 1
    assert len(cli.lines("entries", "long", "--json")) == 41  # the originals are kept


@pytest.mark.skipif(find_spec("openai") is None, reason="the client of that interface is not installed")
def test_the_summary_comes_from_the_given_model(cli: Cli, long: str) -> None:
    with ModelServer() as server:
        server.says("Twenty questions were asked.")
        args = ["--apply", "--model", "ollama:small", "--base-url", server.openai_url]
        result = cli("compact", "long", "--keep-tokens", "1000", *args)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].startswith("summarized ")
    assert "Twenty questions were asked." in cli("context", "long").stdout


@pytest.mark.skipif(find_spec("openai") is None, reason="the client of that interface is not installed")
def test_a_compaction_whose_model_fails_changes_nothing(cli: Cli, long: str) -> None:
    before = cli.files()
    with ModelServer() as server:
        args = ["--apply", "--model", "ollama:small", "--base-url", server.openai_url]
        cli.error("compact", "long", "--keep-tokens", "1000", *args)
    assert cli.files() == before


def test_a_short_session_is_not_compacted(cli: Cli) -> None:
    cli.create("Hello", session_id="short")
    for args in ([], ["--apply", "--model", "echo"]):
        result = cli("compact", "short", *args)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith("nothing to compact: ")


def test_compacting_requires_a_model(cli: Cli, long: str) -> None:
    assert "--apply needs --model" in cli.error("compact", "long", "--apply", status=2)
    assert cli("compact", "long", "--apply", "--model", "nobody:x").exit_code == 1


def test_debug_context_shows_what_would_be_sent_and_fits_the_window(cli: Cli, long: str) -> None:
    before = cli.files()
    result = cli("debug", "context", "long", "--window", "100000")
    assert result.exit_code == 0
    assert result.stderr == "nothing was sent: this is what would be sent now\n"
    lines = result.stdout.splitlines()
    assert lines[0] == "strategy  full-history"
    assert lines[2] == "messages  40 messages would be sent, of 40 in the context: 40 as they are"
    shown = cli.json("debug", "context", "long", "--window", "100000")
    context = cli.json("context", "long")
    assert [(each["entry_id"], each["content"]) for each in shown["messages"]] == [
        (each["entry_id"], each["content"]) for each in context["messages"]
    ]
    assert (shown["strategy"], shown["counts"]["included"], shown["token_budget"]) == ("full-history", 40, 75_000)
    tight = cli.json("debug", "context", "long", "--window", "2000")
    assert tight["strategy"] != "full-history"
    assert tight["tokens_used"] <= tight["token_budget"] == 1500
    assert "failed    full-history" in cli("debug", "context", "long", "--window", "2000").stdout
    assert cli.files() == before


@pytest.mark.parametrize("provider", [None, Provider("ollama", "qwen3:8b")])
def test_without_a_known_window_the_full_history_would_be_sent(cli: Cli, long: str, provider: Provider | None) -> None:
    if provider is not None:
        with SyncHost(cli.root) as host:
            host.load("long").update_metadata(provider=provider)
    result = cli("debug", "context", "long")
    assert result.exit_code == 0
    assert result.stderr.endswith("the model's window is unknown, so nothing is left out: set it with --window\n")
    lines = result.stdout.splitlines()
    assert lines[0] == "strategy  full-history"
    assert lines[2] == "messages  40 messages would be sent, of 40 in the context: 40 as they are"
    assert " of " not in lines[1]
