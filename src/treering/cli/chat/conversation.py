"""The conversation: the current session and the model that answers in it. It runs in the event loop."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Self

from ...actors.agents.agent import AgentSession
from ...actors.agents.events import SentContext
from ...actors.agents.model import Model
from ...actors.agents.options import AgentHooks, AgentOptions, LeavePolicy
from ...actors.agents.streaming import TurnStream
from ...actors.host.host import SessionHost
from ...actors.session.branching import BranchReport
from ...actors.session.compaction import CompactionReport
from ...actors.session.session import Session
from ...events.arguments import is_text
from ...events.errors import Closed
from ...projections.building.budget import ContextBudget, UsedTokens, calculate_budget
from ...projections.tokens import ByteEstimator
from .models import Models, summarizer_for


class Conversation:
    """A session and the model that answers in it; both can be switched.

    Use it as `async with Conversation(...) as conversation`, and call `start`, `resume` or `resume_latest` first.

    Args:
        host: The host of the sessions.
        project: The directory that new sessions belong to.
        models: The factory of models.
        model: The first model.
        system: The system prompt of every request.
        leaving: Decides whether an abandoned branch gets a summary.
    """

    def __init__(
        self, host: SessionHost, project: str, models: Models, model: Model, system: str, leaving: LeavePolicy
    ) -> None:
        self.host = host
        self.project = project
        self._models = models
        self._system = system
        self._leaving = leaving
        self._session: Session | None = None
        self._current: Session | None = None
        self._sent: SentContext | None = None
        self._equip(model)

    async def __aenter__(self) -> Self:
        await self._enter_model()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leave_model()

    @property
    def session(self) -> Session:
        """The current session.

        Raises:
            Closed: No session was started or resumed yet.
        """
        if self._session is None:
            raise Closed("the conversation has no session: start or resume one first")
        return self._session

    @property
    def model(self) -> Model:
        """The model that answers."""
        return self._model

    @property
    def model_name(self) -> str:
        """The provider and the id of the model."""
        return f"{self._model.provider}/{self._model.model_id}"

    # -- sessions

    async def start(self) -> None:
        """Switch to a new session; its file appears with the first message.

        If the project's path is not valid Unicode, the session has no `cwd`, since the path cannot be written.
        """
        await self._go_to(await self.host.create(cwd=self.project if is_text(self.project) else None))

    async def resume(self, text: str) -> None:
        """Switch to another session; see `SessionHost.resolve`. If that fails, the current one stays.

        Raises:
            SessionNotFound: There is no such session.
            AmbiguousSession: There are several.
            SessionLocked: Another process owns it.
        """
        await self._go_to(await self.host.load(await self.host.resolve(text)))

    async def resume_latest(self) -> bool:
        """Switch to the session that `SessionHost.find_recent` returns for the project; return whether there is one."""
        recent = await self.host.find_recent(cwd=self.project)
        if recent is not None:
            await self._go_to(recent)
        return recent is not None

    async def replaced_model(self) -> str | None:
        """Return the last model of the session if the user chose none and the echo would now replace it."""
        last = (await self.session.context()).model
        if self._models.chosen or last is None or last.provider == self._model.provider:
            return None
        return f"{last.provider}/{last.model_id}"

    async def archive(self) -> str:
        """Archive the session, switch to a new one, and return the id of the archived one."""
        old = self.session
        await self.host.archive(old)
        project = old.metadata.project or self.project
        current = await self.host.current_session(project)
        if current is not None and current.ref == old.ref:  # otherwise the next `-c` would restore it
            await self.host.set_current_session(project, None)
        await self.start()
        return old.id

    async def make_current(self) -> None:
        """Make the session the current one of its project, once, before its first message.

        Raises:
            OSError: The pointer cannot be written.
        """
        if self._current is not self.session:
            self._current = self.session
            await self.host.set_current_session(self.session.metadata.project or self.project, self.session)

    async def _go_to(self, session: Session) -> None:
        old, self._session = self._session, session
        if old is not None:
            if old.ref != session.ref:
                await old.passivate()  # so that another program may open it now
            await old.close()

    # -- turns

    def answer(self, message: str) -> TurnStream:
        """Run a turn with a message of the user."""
        return self._agent.stream(message, session=self.session)

    def answer_again(self) -> TurnStream:
        """Run a turn that answers the last message again; the old answer stays on a side branch."""
        return self._agent.stream_retry(session=self.session)

    async def go_to_entry(self, entry_id: str) -> BranchReport | None:
        """Continue from another entry; see `AgentSession.switch`."""
        return await self._agent.switch(entry_id, session=self.session)

    @property
    def sent(self) -> SentContext | None:
        """The last request of this chat; None before the first one."""
        return self._agent.last_request or self._sent

    # -- the window

    def budget(self) -> ContextBudget | None:
        """Return the budget of the model's window, or None if the window is unknown."""
        window = self._model.context_window
        return None if window is None else calculate_budget(window, self._system, "", ByteEstimator())

    async def used_tokens(self) -> UsedTokens:
        """Return how many tokens the next request takes."""
        return await self.session.used_tokens(overhead=ByteEstimator().count(self._system))

    async def compact(self, *, apply: bool, keep_tokens: int | None = None) -> CompactionReport:
        """Compact the older part of the path, or only report what that would do."""
        budget = self.budget()
        if not apply:
            return await self.session.dry_compact(budget=budget, keep_tokens=keep_tokens)
        return await self.session.compact(summarizer_for(self._model), budget=budget, keep_tokens=keep_tokens)

    # -- models

    async def use_model(self, name: str) -> None:
        """Switch to another model, and record it in the session unless the session is empty.

        Raises:
            InvalidInput: There is no such model; the current one stays.
            ExtraMissing: The library of its client is not installed; the current one stays.
        """
        model = self._models.named(name)
        await self._leave_model()
        self._sent = self.sent
        self._equip(model)
        await self._enter_model()
        if self.session.leaf_id is not None:
            await self.session.append_model_change(model.provider, model.model_id)

    def _equip(self, model: Model) -> None:
        self._model = model
        self._agent = AgentSession(
            model,
            system_prompt=self._system,
            hooks=AgentHooks(leaving=self._leaving),
            options=AgentOptions(summarizer=summarizer_for(model)),
        )

    async def _enter_model(self) -> None:
        """Enter the model if it is a context manager, so that it keeps its connections."""
        if isinstance(self._model, AbstractAsyncContextManager):
            await self._model.__aenter__()

    async def _leave_model(self) -> None:
        if isinstance(self._model, AbstractAsyncContextManager):
            await self._model.__aexit__(None, None, None)
