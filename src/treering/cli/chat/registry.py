"""The slash commands of a chat, in the order of the help."""

from __future__ import annotations

from . import about, branches, sessions
from .slash import Slashes


def all_commands() -> Slashes:
    """Return the slash commands of `treering chat`."""
    return Slashes(
        [
            sessions.sessions,
            sessions.sessions_all,
            sessions.session_info,
            sessions.session_export,
            sessions.session_archive,
            sessions.resume,
            sessions.new,
            sessions.rename,
            branches.tree,
            branches.branch,
            branches.retry,
            branches.label,
            branches.compact,
            about.debug_context,
            about.model,
            about.usage,
            about.help_,
            about.exit_,
        ]
    )
