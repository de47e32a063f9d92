"""The real programs: where they are, which versions, and how they are run against a model on this machine.

They are in `.node/programs` in the checkout, made once from the registry and kept; TREERING_PROGRAMS names another
folder. Their versions are pinned: with `TREERING_PROGRAMS_NEWEST=1`, the newest ones are installed beside them.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[2]
_RUNS_AT_MOST_S = 180


class Package(NamedTuple):
    """What is installed for a program: the package, its version, and the name of its command."""

    name: str
    version: str
    command: str


PACKAGES = {
    "claude-code": Package("@anthropic-ai/claude-code", "2.1.197", "claude"),
    "codex": Package("@openai/codex", "0.169.0", "codex"),
    "gemini": Package("@google/gemini-cli", "0.61.0", "gemini"),
    "opencode": Package("opencode-ai", "1.18.33", "opencode"),
    "pi": Package("@mariozechner/pi-coding-agent", "0.73.1", "pi"),
    "copilot": Package("@github/copilot", "1.0.102", "copilot"),
    "kimi": Package("@moonshot-ai/kimi-code", "2.1.0", "kimi"),
    "qwen": Package("@qwen-code/qwen-code", "0.15.10", "qwen"),
}


def installed() -> Path:
    """Return the folder of the programs' commands, after installing them if they are not there."""
    newest = bool(os.environ.get("TREERING_PROGRAMS_NEWEST"))
    named = os.environ.get("TREERING_PROGRAMS")
    folder = Path(named) if named else PROJECT / ".node" / ("newest" if newest else "programs")
    wanted = [f"{each.name}@{'latest' if newest else each.version}" for each in PACKAGES.values()]
    ready = folder / "ready.json"
    if not named and (not ready.exists() or json.loads(ready.read_text()) != wanted):
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(folder)]
        subprocess.run(["npm", "install", *options, *wanted], check=True)
        ready.write_text(json.dumps(wanted))
    return folder / "node_modules" / ".bin"


class Program:
    """One program, in a home and a project of its own.

    Args:
        name: Its name among the targets.
        home: The home folder.
        project: The folder in which it runs.
        model: The address of the model.
    """

    def __init__(self, name: str, home: Path, project: Path, model: str) -> None:
        self._name = name
        self._home = home
        self._project = project
        self._model = model
        self._environ = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **self._settings()}

    def run(self, prompt: str, resume: str | None = None) -> None:
        """Have the program answer a prompt, in a new session or in one that it resumes."""
        words = self._words(prompt, resume)
        command = [str(installed() / words[0]), *words[1:]]
        done = subprocess.run(
            command,
            cwd=self._project,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_RUNS_AT_MOST_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def interrupt(self, prompt: str, resume: str | None, is_running: Callable[[], bool]) -> None:
        """Have the program answer a prompt, and interrupt it once something is running.

        As from a terminal, all its processes are interrupted: some programs are two.
        """
        words = self._words(prompt, resume)
        process = subprocess.Popen(
            [str(installed() / words[0]), *words[1:]],
            cwd=self._project,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            end = time.monotonic() + _RUNS_AT_MOST_S
            while not is_running():
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.1)
            os.killpg(process.pid, signal.SIGINT)
            process.wait(_RUNS_AT_MOST_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _words(self, prompt: str, resume: str | None) -> Sequence[str]:
        again = [] if resume is None else ["--resume", resume]
        match self._name:
            case "claude-code":
                return ["claude", "-p", *again, prompt, "--allowedTools", "Bash"]
            case "codex":
                new = ["exec"] if resume is None else ["exec", "resume"]
                return ["codex", *new, "--skip-git-repo-check", *again[1:], prompt]
            case "gemini":
                return ["gemini", "--skip-trust", "--yolo", "-m", "gemini-2.5-flash", *again, "-p", prompt]
            case "copilot":
                return ["copilot", "--allow-all-tools", *again, "-p", prompt]
            case "kimi":
                again = [] if resume is None else ["--session", resume]
                return ["kimi", *again, "-p", prompt]
            case "opencode":
                again = [] if resume is None else ["-s", resume]
                return ["opencode", "run", *again, "-m", "fake/fake", prompt]
            case "qwen":
                return ["qwen", "--yolo", "--auth-type", "openai", "-m", "fake", *again, "-p", prompt]
            case _:
                again = [] if resume is None else ["--session", resume]
                return ["pi", "-p", "--provider", "fake", "--model", "fake", *again, prompt]

    def _settings(self) -> dict[str, str]:
        """Write the program's settings, and return its part of the environment."""
        match self._name:
            case "claude-code":
                quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
                return {"ANTHROPIC_BASE_URL": self._model, "ANTHROPIC_API_KEY": "none", **quiet}
            case "codex":
                settings = ["model = 'gpt-5'", "model_provider = 'fake'", "approval_policy = 'never'"]
                settings += ["sandbox_mode = 'danger-full-access'", "[model_providers.fake]", "name = 'fake'"]
                settings += [f"base_url = '{self._model}/v1'", "wire_api = 'responses'"]
                self._write(".codex/config.toml", "\n".join(settings))
                return {}
            case "gemini":
                found: dict[str, object] = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
                found |= {"general": {"disableAutoUpdate": True}, "privacy": {"usageStatisticsEnabled": False}}
                self._write(".gemini/settings.json", json.dumps(found))
                return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": self._model}
            case "copilot":
                own = {"COPILOT_PROVIDER_BASE_URL": f"{self._model}/v1", "COPILOT_PROVIDER_API_KEY": "none"}
                return {"COPILOT_OFFLINE": "true", "COPILOT_MODEL": "gpt-5-mini", **own}
            case "kimi":
                settings = ["default_model = 'fake'", "telemetry = false", "[providers.fake]", "type = 'openai'"]
                settings += [f"base_url = '{self._model}/v1'", "api_key = 'none'", "[models.fake]", "provider = 'fake'"]
                settings += ["model = 'fake'", "max_context_size = 100000", "capabilities = ['tool_use']"]
                self._write(".kimi-code/config.toml", "\n".join(settings))
                return {}
            case "opencode":
                takes = {"input": ["text", "image"], "output": ["text"]}
                known = {"fake": {"name": "fake", "attachment": True, "reasoning": True, "modalities": takes}}
                options = {"baseURL": f"{self._model}/v1", "apiKey": "none"}
                provider = {"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": options, "models": known}
                found = {"provider": {"fake": provider}, "model": "fake/fake", "autoupdate": False, "share": "disabled"}
                self._write(".config/opencode/opencode.json", json.dumps(found))
                return {}
            case "qwen":
                takes_images = {"generationConfig": {"modalities": {"image": True}}}
                found = {"model": takes_images, "general": {"enableAutoUpdate": False, "disableAutoUpdate": True}}
                found |= {"privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}}
                self._write(".qwen/settings.json", json.dumps(found))
                once = {"QWEN_CODE_NO_RELAUNCH": "1"}  # else it starts itself again, with more memory
                return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{self._model}/v1", **once}
            case _:
                model = {"id": "fake", "name": "fake", "input": ["text", "image"], "contextWindow": 100_000}
                cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
                models = [{**model, "reasoning": True, "cost": cost, "maxTokens": 1000}]
                provider = {"baseUrl": f"{self._model}/v1", "api": "openai-completions", "apiKey": "none"}
                found = {"providers": {"fake": {**provider, "models": models}}}
                self._write(".pi/agent/models.json", json.dumps(found))
                return {"PI_OFFLINE": "1"}

    def _write(self, name: str, content: str) -> None:
        path = self._home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def node_version() -> int:
    """Return the major version of node; 0 if there is none."""
    node = shutil.which("node")
    if node is None:
        return 0
    shown = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(shown.removeprefix("v").partition(".")[0])


def are_installable() -> bool:
    """Return whether there is what installs and runs the programs."""
    return shutil.which("node") is not None and shutil.which("npm") is not None
