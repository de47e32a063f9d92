"""What becomes of a line that a person says: a command is carried out, all else is said to the model and answered.

Runs in the event loop; what it has to show goes to the front.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ...actors.agents.events import AgentEvent, Compacted, MessageEnd, NotCompacted, Recovered, Retrying, Turn
from ...actors.agents.hooks import LeftWork
from ...actors.agents.model import TextDelta
from ...actors.agents.streaming import TurnStream
from ...actors.open_calls import Recovery
from ...events.errors import ModelError, TreeringError
from ...events.wording import counted
from ..home import Home
from ..picking import Picked
from .conversation import Conversation
from .front import Front
from .opening import choose
from .reader import Reader
from .screen import Screen, one_line
from .slash import Slashes, is_command


class Talk:
    """Takes what a person says, line by line.

    Args:
        conversation: The session and its model.
        home: Where sessions are.
        front: The way to the person's thread.
        screen: Where things are shown.
        reader: Where answers to questions come from.
        commands: What lines that begin with a slash can mean.
        interactive: Whether a person sits there.

    Attributes:
        leaving: Whether the person asked to leave.
        failed: Whether something that was asked for failed.
        turn: The last turn that ended; None before.
    """

    def __init__(
        self,
        conversation: Conversation,
        home: Home,
        front: Front,
        screen: Screen,
        reader: Reader,
        commands: Slashes,
        *,
        interactive: bool,
    ) -> None:
        self.conversation = conversation
        self.home = home
        self.commands = commands
        self.interactive = interactive
        self.leaving = False
        self.failed = False
        self.turn: Turn | None = None
        self._front = front
        self._screen = screen
        self._reader = reader
        self._speaking = False

    # -- what is said

    async def take(self, line: str) -> None:
        """Carry out a line; errors are told, and end nothing."""
        self._speaking = False
        try:
            if is_command(line):
                command, rest = self.commands.find(line)
                await command.run(self, rest)
            elif line.strip():
                await self._say(line.removeprefix("/") if line.startswith("//") else line)
        except (TreeringError, OSError) as error:
            self._tell(error)

    async def say(self, said: str) -> None:
        """Say something to the model, whatever it begins with, and show its answer as it comes; errors are told."""
        try:
            await self._say(said)
        except (TreeringError, OSError) as error:
            self._tell(error)

    async def _say(self, said: str) -> None:
        await self.conversation.make_current()
        await self.stream(self.conversation.answer(said))

    def _tell(self, error: TreeringError | OSError) -> None:
        self.failed = True
        self._front.show(partial(self._screen.error, error))
        if isinstance(error, ModelError) and self.interactive:
            self.note("what you said is kept: /retry has it answered again")

    async def stream(self, turn: TurnStream) -> None:
        """Show a turn as it runs."""
        self._speaking = False
        async with turn as events:
            async for event in events:
                self._show(event)
        self.turn = turn.turn
        if self.turn.stop_reason not in (None, "stop"):
            self.note(f"(the answer ended: {self.turn.stop_reason})")
        self._front.show(self._screen.end_answer)

    def _show(self, event: AgentEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._speaking = True
                self._front.show(partial(self._screen.piece, text))
            case MessageEnd():
                self._speaking = False
            case Retrying(error=error, delay_s=delay_s):
                void = " what was said is void," if self._speaking else ""
                self._speaking = False
                self.note(f"({one_line(error)};{void} trying again in {delay_s:.3g} s)")
            case Compacted(report=report):
                self.note(
                    f"(compacted: a summary stands for {counted(report.summarized_count, 'message')}, "
                    f"{report.tokens_before} tokens became {report.tokens_after})"
                )
            case NotCompacted(error=error):
                self.note(f"(not compacted: {one_line(error)})")
            case Recovered(recovery=recovery):
                self.note(f"(the session was broken off and is put right: {_put_right(recovery)})")
            case _:
                pass

    # -- Ctrl-C, told in the main thread

    def stopped(self) -> None:
        """Tell that what ran was stopped."""
        self._screen.note("(stopped; what was said of it is kept)" if self._speaking else "(stopped)")

    def interrupted(self, *, last: bool) -> None:
        """Tell what Ctrl-C at the prompt does."""
        self._screen.lines([""])
        if not last:
            self._screen.note("(Ctrl-C once more, Ctrl-D or /exit leaves)")

    # -- what is shown and asked

    def lines(self, lines: Iterable[str]) -> None:
        """Show what was asked for."""
        self._front.show(partial(self._screen.lines, list(lines)))

    def note(self, text: str) -> None:
        """Say something beside the conversation."""
        self._front.show(partial(self._screen.note, text))

    async def ask(self, question: str) -> str:
        """Ask the person something that a word answers."""
        return await self._front.ask(partial(self._reader.answer, question))

    async def choose(self) -> Picked:
        """Let the person choose a session on the terminal."""
        return await self._front.ask(partial(choose, self.home))

    async def summary_wanted(self, left: LeftWork) -> bool:
        """Ask whether a branch that is left gets a summary; an answer that is made again gets none.

        Where nobody sits there, the next line is no answer, and there is none either.
        """
        if left.why == "retry":
            return False
        count = counted(left.message_count, "message")
        if not self.interactive:
            self.note(f"({count} left behind, without a summary)")
            return False
        return (await self.ask(f"{count} left behind: take a summary along? [y/N] ")).lower() in ("y", "yes")


def _put_right(recovery: Recovery) -> str:
    """Tell what a crash had left, and what became of it."""
    told: list[str] = []
    if (torn := recovery.torn_tail) is not None:
        kept = "got its newline" if torn.kept_in is None else f"is unfinished, and is kept in {torn.kept_in}"
        told.append(f"the last line {kept}")
    if recovery.closed_calls:
        told.append(f"{counted(len(recovery.closed_calls), 'call')} without a result closed")
    return ", ".join(told)
