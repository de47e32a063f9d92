"""The HTML page in a real browser: it folds, it remembers, and nothing that is said in it runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from treering import Session, thinking, tool_result, tool_use

from .test_html import HOSTILE

PROBE = """
<script>
localStorage.setItem("treering.details", "closed");
addEventListener("load", () => {
  const told = [];
  const page = document.getElementById("page");
  const tell = (what) => {
    const all = [...page.contentDocument.querySelectorAll("main details")];
    const button = page.contentDocument.getElementById("toggle");
    told.push(`${what}: ${all.filter((each) => each.open).length}/${all.length} ${button.textContent}`);
  };
  const steps = [
    () => {
      tell("closed");
      page.contentDocument.getElementById("toggle").click();
      tell("opened");
      page.contentWindow.location.reload();
    },
    () => {
      tell("remembered");
      page.contentDocument.getElementById("toggle").click();
      tell("closed again");
      page.src = page.src + "#e2";
      page.contentWindow.location.reload();
    },
    () => {
      tell("led to");
      told.push(`ran: ${page.contentWindow.canary ?? "nothing"}`);
      document.getElementById("told").textContent = told.join("; ");
    },
  ];
  page.addEventListener("load", () => steps.shift()?.());
  page.src = "page.html";
});
</script>
<p id="told">nothing</p><iframe id="page"></iframe>
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop is enough here: the page does not depend on it."""
    return "asyncio"


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no chromium is here: apt-get install chromium")
    return found


def dumped(chromium: str, page: Path, profile: Path) -> str:
    """Return the page as it is after its scripts have run."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--allow-file-access-from-files"]
    command = [
        chromium,
        *flags,
        f"--user-data-dir={profile}",
        "--virtual-time-budget=8000",
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


async def test_it_folds_and_remembers_and_runs_nothing_of_what_is_said(
    session: Session, tmp_path: Path, chromium: str
) -> None:
    attack = "window.canary = 'a script'; top.document.title = 'taken'"
    hostile = [said.replace("\ud800", "").replace("alert(1)", attack) for said in HOSTILE]
    first = await session.append_message("user", hostile)
    await session.append_message(
        "assistant", [thinking("inside"), *(tool_use(said, said, {said: said}) for said in hostile)]
    )
    await session.append_message("tool", [tool_result(said, said) for said in hostile])
    await session.branch(first)
    await session.append_message("user", "another way")
    (tmp_path / "probe.html").write_text(PROBE)
    await session.export("html", tmp_path / "page.html")
    shown = dumped(chromium, tmp_path / "probe.html", tmp_path / "profile")
    told = re.findall(r'<p id="told">(.*?)</p>', shown)
    count = 1 + 1 + 2 * len(hostile)
    assert [each.split("; ") for each in told] == [
        [
            f"closed: 0/{count} Expand all",
            f"opened: {count}/{count} Collapse all",
            f"remembered: {count}/{count} Collapse all",
            f"closed again: 0/{count} Expand all",
            f"led to: 1/{count} Expand all",
            "ran: nothing",
        ]
    ]
    assert "<title>taken" not in shown
