"""The benchmarks of the server: what they ask is answered, and what it costs is counted for the right process."""

import os
import sys
import time
from pathlib import Path

import pytest
from bench import serving_peers
from bench.process import processor_seconds


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell the time of another process")
def test_the_time_of_a_process_is_that_of_the_processor() -> None:
    before, begun = processor_seconds(os.getpid()), time.process_time()
    while time.process_time() - begun < 0.1:
        pass
    used = processor_seconds(os.getpid()) - before
    assert 0.05 < used <= time.process_time() - begun + 0.05


async def test_a_server_is_asked_as_often_as_its_figures_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_peers, "why_absent", lambda _: "not installed")
    (mine,) = await serving_peers.measure_peers(tmp_path, rounds=1, sessions=3)
    assert mine.side == "treering"
    assert min(mine.appends_per_s, mine.reads_per_s) > 0
    files = sorted((tmp_path / "served-0").glob("*.jsonl"))
    assert [path.name for path in files] == ["s0.jsonl", "s1.jsonl", "s2.jsonl"]
    assert [path.read_bytes().count(b'"message"') > 0 and path.read_bytes().count(b"\n") for path in files] == [11] * 3
