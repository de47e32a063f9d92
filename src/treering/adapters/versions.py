"""Which releases of a framework an adapter takes: its oldest one, and the newest that it was tried with.

`make interop` runs each adapter's tests with the oldest and with the newest release that there is. An older one is
refused by name; one that came out since is taken, and noted once in the log as `framework_untried`.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from msgspec import Struct

from ..events.errors import ExtraMissing
from ..events.telemetry import logger


class Releases(Struct, frozen=True):
    """The releases of a framework that an adapter takes.

    Attributes:
        package: The framework's package.
        extra: The extra that installs it.
        oldest: The oldest release.
        newest: The newest one that the adapter was tried with.
    """

    package: str
    extra: str
    oldest: str
    newest: str

    def check(self) -> None:
        """Refuse an older release, and note a newer one.

        Raises:
            ExtraMissing: The release that is installed is older than the adapter takes.
        """
        try:
            found = version(self.package)
        except PackageNotFoundError:
            return  # it comes from somewhere else than a package
        if _numbers(found) < _numbers(self.oldest):
            raise ExtraMissing(
                f"this adapter needs {self.package} {self.oldest} or newer, and {found} is installed:"
                f" pip install -U 'treering[{self.extra}]'"
            )
        if _numbers(found) > _numbers(self.newest):
            logger().info("framework_untried", package=self.package, version=found, tried=self.newest)


def _numbers(release: str) -> tuple[int, ...]:
    """Return the numbers of a release, without what follows them."""
    found = re.match(r"\d+(\.\d+)*", release)
    return () if found is None else tuple(map(int, found[0].split(".")))


CLAUDE_AGENT_SDK = Releases("claude-agent-sdk", "claude-agent-sdk", "0.2.82", "0.2.189")
LANGGRAPH = Releases("langgraph-checkpoint", "langgraph", "4.0.0", "4.3.2")
OPENAI_AGENTS = Releases("openai-agents", "openai-agents", "0.7.0", "0.24.0")

FRAMEWORKS = (CLAUDE_AGENT_SDK, LANGGRAPH, OPENAI_AGENTS)
"""The frameworks that there are adapters for."""
