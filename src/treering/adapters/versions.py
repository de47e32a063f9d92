"""Which releases of a framework an adapter takes: its oldest one, and the newest that it was tried with.

`make interop` runs each adapter's tests with the oldest and with the newest release that there is. An older one is
refused by name; one that came out since is taken, and said once in the log, as `framework_untried`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from importlib.metadata import PackageNotFoundError, version

from msgspec import Struct

from ..events.errors import ExtraMissing
from ..events.telemetry import logger


class Releases(Struct, frozen=True):
    """The releases of a framework that an adapter takes.

    Attributes:
        package: The framework's package.
        modules: The modules by which it is missed.
        extra: The extra that installs it.
        oldest: The oldest release.
        newest: The newest one that the adapter was tried with.
    """

    package: str
    modules: Collection[str]
    extra: str
    oldest: str
    newest: str

    def missing(self, error: ImportError, needed: str) -> ImportError | ExtraMissing:
        """Return why the framework could not be imported: it is missing or too old, or else the error itself.

        Args:
            error: What its import raised.
            needed: What needs it, in words.
        """
        found = self._installed()
        if found is not None and self._is_older(found):
            return self._too_old(found)
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in self.modules:
            return ExtraMissing(f"{needed}: pip install 'treering[{self.extra}]'")
        return error

    def check(self) -> None:
        """Refuse an older release, and say of a newer one that the adapter was not tried with it.

        Raises:
            ExtraMissing: The release that is installed is older than the adapter takes.
        """
        found = self._installed()
        if found is None:  # it comes from something else than a package
            return
        if self._is_older(found):
            raise self._too_old(found)
        if _numbers(found) > _numbers(self.newest):
            logger().warning("framework_untried", package=self.package, version=found, tried=self.newest)

    def _installed(self) -> str | None:
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None

    def _is_older(self, found: str) -> bool:
        return _numbers(found) < _numbers(self.oldest)

    def _too_old(self, found: str) -> ExtraMissing:
        return ExtraMissing(
            f"{self.package} {found} is older than {self.oldest}, which this adapter needs:"
            f" pip install -U 'treering[{self.extra}]'"
        )


def _numbers(release: str) -> tuple[int, ...]:
    """Return the numbers of a release, without what follows them."""
    found = re.match(r"\d+(\.\d+)*", release)
    return () if found is None else tuple(map(int, found[0].split(".")))


AGENT_FRAMEWORK = Releases("agent-framework-core", ("agent_framework",), "agent-framework", "1.22.0", "1.23.0")
CLAUDE_AGENT_SDK = Releases("claude-agent-sdk", ("claude_agent_sdk",), "claude-agent-sdk", "0.2.82", "0.2.189")
GOOGLE_ADK = Releases("google-adk", ("google",), "adk", "2.10.0", "2.13.0")
LANGGRAPH = Releases("langgraph-checkpoint", ("langgraph", "langchain_core"), "langgraph", "4.3.0", "4.3.2")
OPENAI_AGENTS = Releases("openai-agents", ("agents",), "openai-agents", "0.22.0", "0.24.0")
PYDANTIC_AI = Releases("pydantic-ai-slim", ("pydantic_ai", "pydantic"), "pydantic-ai", "2.0.0", "2.68.0")
PYDANTIC_AI_HARNESS = Releases(
    "pydantic-ai-harness", ("pydantic_ai_harness",), "pydantic-ai-harness", "0.52.0", "0.62.0"
)
STRANDS = Releases("strands-agents", ("strands",), "strands", "1.20.0", "1.62.0")

FRAMEWORKS = (AGENT_FRAMEWORK, CLAUDE_AGENT_SDK, GOOGLE_ADK, LANGGRAPH, OPENAI_AGENTS, PYDANTIC_AI, STRANDS)
"""Frameworks that there are adapters for."""
