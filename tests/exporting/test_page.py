"""The HTML page in a real browser: details fold, their state persists, and no script in the session's content runs."""

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
  const report = [];
  const page = document.getElementById("page");
  const record = (what) => {
    const all = [...page.contentDocument.querySelectorAll("main details")];
    const button = page.contentDocument.getElementById("toggle");
    report.push(`${what}: ${all.filter((each) => each.open).length}/${all.length} ${button.textContent}`);
  };
  const steps = [
    () => {
      record("closed");
      page.contentDocument.getElementById("toggle").click();
      record("opened");
      page.contentWindow.location.reload();
    },
    () => {
      record("remembered");
      page.contentDocument.getElementById("toggle").click();
      record("closed again");
      page.src = page.src + "#e2";
      page.contentWindow.location.reload();
    },
    () => {
      record("led to");
      report.push(`ran: ${page.contentWindow.canary ?? "nothing"}`);
      document.getElementById("report").textContent = report.join("; ");
    },
  ];
  page.addEventListener("load", () => steps.shift()?.());
  page.src = "page.html";
});
</script>
<p id="report">nothing</p><iframe id="page"></iframe>
"""


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    return found


def dom_after_scripts(chromium: str, page: Path, profile: Path) -> str:
    """Return the page's DOM after its scripts have run."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--allow-file-access-from-files"]
    options = [f"--user-data-dir={profile}", "--virtual-time-budget=8000", "--dump-dom"]
    command = [chromium, *flags, *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


async def test_the_page_folds_persists_its_state_and_runs_no_script_of_its_content(
    session: Session, tmp_path: Path, chromium: str
) -> None:
    attack = "window.canary = 'a script'; top.document.title = 'taken'"
    hostile = [content.replace("\ud800", "").replace("alert(1)", attack) for content in HOSTILE]
    first = await session.append_message("user", hostile)
    await session.append_message(
        "assistant", [thinking("inside"), *(tool_use(content, content, {content: content}) for content in hostile)]
    )
    await session.append_message("tool", [tool_result(content, content) for content in hostile])
    await session.branch(first)
    await session.append_message("user", "another way")
    (tmp_path / "probe.html").write_text(PROBE)
    await session.export("html", tmp_path / "page.html")
    shown = dom_after_scripts(chromium, tmp_path / "probe.html", tmp_path / "profile")
    report = re.findall(r'<p id="report">(.*?)</p>', shown)
    count = 1 + 1 + 2 * len(hostile)
    assert [each.split("; ") for each in report] == [
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
