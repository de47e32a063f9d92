"""`treering compact` and `treering debug context`: compacting a session, and showing what a model would be sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import Result

from treering import Provider, SyncHost
from treering.testing.model_server import ModelServer

Treering = Callable[..., Result]
CreateSession = Callable[..., str]


@pytest.fixture
def long(create_session: CreateSession) -> str:
    """A session with twenty turns."""
    return create_session(*(f"Question {number}: " + "why and how? " * 40 for number in range(20)), session_id="long")


def files(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.glob("*.jsonl*")}


@pytest.mark.feature("N-117")
def test_a_dry_run_reports_and_writes_nothing(treering: Treering, long: str, root: Path) -> None:
    before = files(root)
    report = json.loads(treering("compact", "long", "--keep-tokens", "1000", "--json").stdout)
    entries = [json.loads(line)["id"] for line in treering("entries", "long", "--json").stdout.splitlines()]
    cut = entries.index(report["first_kept_entry_id"])
    assert (report["summarized_count"], report["kept_count"]) == (cut, len(entries) - cut)
    assert 0 < cut < len(entries)
    assert report["tokens_before"] > report["tokens_after"] > 0
    assert (report["entry_id"], report["summary"]) == (None, "")

    result = treering("compact", "long", "--keep-tokens", "1000")
    first, second, _ = result.stdout.splitlines()
    shown = report["first_kept_entry_id"][:8]
    assert first == f"would summarize {cut} messages, and would keep {len(entries) - cut} messages from {shown} on"
    assert second.startswith(f"tokens before {report['tokens_before']:,}, after about {report['tokens_after']:,}")
    assert result.stderr == "nothing was written: pass --apply to compact\n"
    assert files(root) == before


@pytest.mark.feature("N-118")
def test_compacting_appends_one_compaction_entry(treering: Treering, long: str, root: Path) -> None:
    before = (root / "long.jsonl").read_bytes()
    would = json.loads(treering("compact", "long", "--keep-tokens", "1000", "--json").stdout)
    result = treering("compact", "long", "--keep-tokens", "1000", "--apply", "--model", "echo", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    done = json.loads(result.stdout)
    after = (root / "long.jsonl").read_bytes()
    assert after.startswith(before)
    (line,) = after[len(before) :].splitlines()
    entry = json.loads(line)
    assert (entry["type"], entry["id"]) == ("compaction", done["entry_id"])
    assert entry["compaction"]["first_kept_entry_id"] == done["first_kept_entry_id"] == would["first_kept_entry_id"]
    assert entry["compaction"]["tokens_before"] == would["tokens_before"] > done["tokens_after"]
    assert len(json.loads(treering("context", "long", "--json").stdout)["messages"]) == would["kept_count"] + 1
    assert len(treering("entries", "long", "--json").stdout.splitlines()) == 41  # the originals are kept


@pytest.mark.skipif(find_spec("openai") is None, reason="the client of that interface is not installed")
def test_the_summary_comes_from_the_given_model(treering: Treering, long: str) -> None:
    with ModelServer() as server:
        server.says("Twenty questions were asked.")
        args = ["--apply", "--model", "ollama:small", "--base-url", server.openai_url]
        result = treering("compact", "long", "--keep-tokens", "1000", *args)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].startswith("summarized ")
    assert "Twenty questions were asked." in treering("context", "long").stdout


@pytest.mark.skipif(find_spec("openai") is None, reason="the client of that interface is not installed")
def test_a_compaction_whose_model_fails_changes_nothing(treering: Treering, long: str, root: Path) -> None:
    before = files(root)
    with ModelServer() as server:
        args = ["--apply", "--model", "ollama:small", "--base-url", server.openai_url]
        result = treering("compact", "long", "--keep-tokens", "1000", *args)
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert files(root) == before


def test_a_short_session_is_not_compacted(treering: Treering, create_session: CreateSession) -> None:
    create_session("Hello", session_id="short")
    for args in ([], ["--apply", "--model", "echo"]):
        result = treering("compact", "short", *args)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith("nothing to compact: ")


def test_compacting_requires_a_model(treering: Treering, long: str) -> None:
    result = treering("compact", "long", "--apply")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--apply needs --model" in result.stderr
    assert treering("compact", "long", "--apply", "--model", "nobody:x").exit_code == 1


# -- debug context


def test_debug_context_shows_what_would_be_sent_and_fits_the_window(treering: Treering, long: str, root: Path) -> None:
    before = files(root)
    result = treering("debug", "context", "long", "--window", "100000")
    assert result.exit_code == 0
    assert result.stderr == "nothing was sent: this is what would be sent now\n"
    lines = result.stdout.splitlines()
    assert lines[0] == "strategy  full-history"
    assert lines[2] == "messages  40 messages would be sent, of 40 in the context: 40 as they are"
    shown = json.loads(treering("debug", "context", "long", "--window", "100000", "--json").stdout)
    context = json.loads(treering("context", "long", "--json").stdout)
    assert [(each["entry_id"], each["content"]) for each in shown["messages"]] == [
        (each["entry_id"], each["content"]) for each in context["messages"]
    ]
    assert (shown["strategy"], shown["counts"]["included"], shown["token_budget"]) == ("full-history", 40, 75_000)

    tight = json.loads(treering("debug", "context", "long", "--window", "2000", "--json").stdout)
    assert tight["strategy"] != "full-history"
    assert tight["tokens_used"] <= tight["token_budget"] == 1500
    assert "failed    full-history" in treering("debug", "context", "long", "--window", "2000").stdout
    assert files(root) == before


@pytest.mark.parametrize("provider", [None, Provider("ollama", "qwen3:8b")])
def test_without_a_known_window_the_full_history_would_be_sent(
    treering: Treering, long: str, root: Path, provider: Provider | None
) -> None:
    if provider is not None:
        with SyncHost(root) as host:
            host.load("long").update_metadata(provider=provider)
    result = treering("debug", "context", "long")
    assert result.exit_code == 0
    assert result.stderr.endswith("the model's window is unknown, so nothing is left out: set it with --window\n")
    lines = result.stdout.splitlines()
    assert lines[0] == "strategy  full-history"
    assert lines[2] == "messages  40 messages would be sent, of 40 in the context: 40 as they are"
    assert " of " not in lines[1]
