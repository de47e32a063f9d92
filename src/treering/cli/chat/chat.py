"""The chat: send a message to the model and show the answer, ask the person, report errors.

This runs in the event loop; output goes through the job runner.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import partial

from ...actors.agents.events import AgentEvent, Compacted, MessageEnd, NotCompacted, Recovered, Retrying, Turn
from ...actors.agents.model import TextDelta
from ...actors.agents.options import LeftWork
from ...actors.agents.streaming import TurnStream
from ...actors.session.open_calls import Recovery
from ...events.errors import ModelError, TreeringError
from ...events.texts import counted
from ..home import Home
from .conversation import Conversation
from .job_runner import JobRunner
from .picker import Picked
from .terminal import Reader, Screen, one_line


class Chat:
    """What slash commands and turns act on: the conversation, and the person at the terminal.

    Args:
        conversation: The session and its model.
        home: The root and the project.
        runner: Runs the jobs and shows their output in the main thread.
        screen: Where output goes.
        reader: Where answers to questions come from.
        interactive: Whether a person is at the terminal.

    Attributes:
        leaving: Whether the person asked to leave.
        failed: Whether a command or a turn failed.
        turn: The last turn that ended, or None.
    """

    def __init__(
        self,
        conversation: Conversation,
        home: Home,
        runner: JobRunner,
        screen: Screen,
        reader: Reader,
        *,
        interactive: bool,
    ) -> None:
        self.conversation = conversation
        self.home = home
        self.interactive = interactive
        self.leaving = False
        self.failed = False
        self.turn: Turn | None = None
        self._runner = runner
        self._screen = screen
        self._reader = reader
        self._answering = False

    # -- input

    @contextmanager
    def showing_errors(self) -> Generator[None]:
        """Show an error, so that it does not end the chat."""
        self._answering = False
        try:
            yield
        except (TreeringError, OSError) as error:
            self._report(error)

    async def say(self, text: str) -> None:
        """Send a text to the model, and show the answer."""
        await self.conversation.make_current()
        await self.stream(self.conversation.answer(text))

    def _report(self, error: TreeringError | OSError) -> None:
        self.failed = True
        self._runner.show(partial(self._screen.error, error))
        if isinstance(error, ModelError) and self.interactive:
            self.note("your message is stored: /retry asks for the answer again")

    async def stream(self, turn: TurnStream) -> None:
        """Show a turn as it runs."""
        self._answering = False
        async with turn as events:
            async for event in events:
                self._show(event)
        self.turn = turn.turn
        if self.turn.stop_reason not in (None, "stop"):
            self.note(f"(the answer ended: {self.turn.stop_reason})")
        self._runner.show(self._screen.end_answer)

    def _show(self, event: AgentEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._answering = True
                self._runner.show(partial(self._screen.piece, text))
            case MessageEnd():
                self._answering = False
            case Retrying(error=error, delay_s=delay_s):
                discarded = " discarding the partial answer," if self._answering else ""
                self._answering = False
                self.note(f"({one_line(error)};{discarded} retrying in {delay_s:.3g} s)")
            case Compacted(report=report):
                self.note(
                    f"(compacted: a summary replaces {counted(report.summarized_count, 'message')}, "
                    f"{report.tokens_before} tokens became {report.tokens_after})"
                )
            case NotCompacted(error=error):
                self.note(f"(not compacted: {one_line(error)})")
            case Recovered(recovery=recovery):
                self.note(f"(the session was interrupted and has been repaired: {_repairs(recovery)})")
            case _:
                pass

    # -- Ctrl-C, handled in the main thread

    def stopped(self) -> None:
        """Note that the running job was stopped."""
        self._screen.note("(stopped; the partial answer is kept)" if self._answering else "(stopped)")

    def interrupted(self, *, last: bool) -> None:
        """Note what another Ctrl-C at the prompt does."""
        if not last:
            self._screen.note("(press Ctrl-C again, Ctrl-D, or type /exit to leave)")

    # -- output and questions

    def lines(self, lines: Iterable[str]) -> None:
        """Show result lines."""
        self._runner.show(partial(self._screen.lines, list(lines)))

    def note(self, text: str) -> None:
        """Show a note on the conversation."""
        self._runner.show(partial(self._screen.note, text))

    async def ask(self, question: str) -> str:
        """Ask the person a question, and return the answer."""
        return await self._runner.ask(partial(self._reader.answer, question))

    async def choose(self) -> Picked:
        """Let the person choose a session with the picker."""
        from .picker_screen import choose

        return await self._runner.ask(partial(choose, self.home))

    async def summary_wanted(self, left: LeftWork) -> bool:
        """Ask whether an abandoned branch gets a summary; a retried answer gets none.

        A script is not asked, since its next line is not an answer, and gets none either.
        """
        if left.why == "retry":
            return False
        count = counted(left.message_count, "message")
        if not self.interactive:
            self.note(f"({count} left behind, without a summary)")
            return False
        return (await self.ask(f"{count} left behind: keep a summary of them? [y/N] ")).lower() in ("y", "yes")


def _repairs(recovery: Recovery) -> str:
    """Describe what a crash left, and how it was repaired."""
    repairs: list[str] = []
    if (torn := recovery.torn_tail) is not None:
        repair = "got its newline" if torn.kept_in is None else f"is unfinished, and was moved to {torn.kept_in}"
        repairs.append(f"the last line {repair}")
    if recovery.closed_calls:
        repairs.append(f"{counted(len(recovery.closed_calls), 'call')} without a result closed")
    return ", ".join(repairs)
