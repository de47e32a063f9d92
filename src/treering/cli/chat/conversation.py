"""The conversation: one session at a time, and the model that answers in it. Lives in the event loop; no terminal is here."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from ...actors.agents.agent import AgentSession
from ...actors.agents.hooks import AgentHooks, LeavePolicy
from ...actors.agents.model import Model
from ...actors.agents.options import AgentOptions
from ...actors.agents.sent import SentContext
from ...actors.agents.streaming import TurnStream
from ...actors.branch_summaries import BranchReport
from ...actors.compaction import CompactionReport
from ...actors.host import SessionHost
from ...actors.naming import is_text
from ...actors.session import Session
from ...events.errors import Closed
from ...projections.building.budget import ContextBudget, calculate_budget
from ...projections.building.measured import UsedTokens
from ...projections.tokens import ByteEstimator
from .models import Models, summarizer_for


class Conversation:
    """A session and the model that answers in it; either can be changed for another.

    Use it as `async with Conversation(...) as conversation`, and begin with `start`, `resume` or `resume_latest`.

    Args:
        host: Where sessions live.
        project: The folder that new sessions belong to.
        models: Makes models.
        model: The first one.
        system: What the system says, in every request.
        leaving: Decides whether a branch that is left gets a summary.
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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave_model()

    @property
    def session(self) -> Session:
        """The session.

        Raises:
            Closed: The conversation has not begun.
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
        """Who serves the model, and what it is called there."""
        return f"{self._model.provider}/{self._model.model_id}"

    # -- which session

    async def start(self) -> None:
        """Go on in a new session; its file appears with the first thing that is said.

        Where the project's name is no text, the session does not say where it is: that could not be written down.
        """
        await self._go_to(await self.host.create(cwd=self.project if is_text(self.project) else None))

    async def resume(self, text: str) -> None:
        """Go on in another session; see `SessionHost.load`. Where that fails, this one stays.

        Raises:
            SessionNotFound: There is no such session.
            AmbiguousSession: There are several.
            SessionLocked: Another process owns it.
        """
        await self._go_to(await self.host.load(text))

    async def resume_latest(self) -> bool:
        """Go on in the session of this project that was used last, or say that there is none."""
        found = await self.host.find_recent(cwd=self.project)
        if found is not None:
            await self._go_to(found)
        return found is not None

    async def model_before(self) -> str | None:
        """Return who answered in the session last, where it was no echo and nobody said who is to answer now."""
        last = (await self.session.context()).model
        if self._models.chosen or last is None or last.provider == self._model.provider:
            return None
        return f"{last.provider}/{last.model_id}"

    async def archive(self) -> str:
        """Archive the session, go on in a new one, and return the id of the one that was archived."""
        old = self.session
        await self.host.archive(old)
        project = old.metadata.project or self.project
        current = await self.host.current_session(project)
        if current is not None and current.ref == old.ref:  # or the next `-c` would bring it back
            await self.host.set_current_session(project, None)
        await self.start()
        return old.id

    async def make_current(self) -> None:
        """Let the session be the current one of its project, which is done once, before something is said in it.

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
                await old.passivate()  # so that another program may take it up now
            await old.close()

    # -- turns

    def answer(self, said: str) -> TurnStream:
        """Have something answered."""
        return self._agent.stream(said, session=self.session)

    def answer_anew(self) -> TurnStream:
        """Have the last question answered again; the answer so far stays on a side branch."""
        return self._agent.stream_retry(session=self.session)

    async def go_to_entry(self, entry_id: str) -> BranchReport | None:
        """Go on from another entry; see `AgentSession.switch`."""
        return await self._agent.switch(entry_id, session=self.session)

    @property
    def sent(self) -> SentContext | None:
        """What a model was sent last in this chat; None before the first request."""
        return self._agent.last_request or self._sent

    # -- the window

    def budget(self) -> ContextBudget | None:
        """Return how the model's window is divided; None where it is not known."""
        window = self._model.context_window
        return None if window is None else calculate_budget(window, self._system, "", ByteEstimator())

    async def used_tokens(self) -> UsedTokens:
        """Tell how much of the window the next request takes."""
        return await self.session.used_tokens(overhead=ByteEstimator().count(self._system))

    async def compact(self, *, apply: bool, keep_tokens: int | None = None) -> CompactionReport:
        """Let a summary stand for the older part of the path, or only tell what that would do."""
        budget = self.budget()
        if not apply:
            return await self.session.dry_compact(budget=budget, keep_tokens=keep_tokens)
        return await self.session.compact(summarizer_for(self._model), budget=budget, keep_tokens=keep_tokens)

    # -- which model

    async def use_model(self, name: str) -> None:
        """Have another model answer from here on, and note it in the session, where something was said in it.

        Raises:
            InvalidInput: The name names no model; the one before stays.
            ExtraMissing: What its client needs is not installed; the one before stays.
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
        """Have the model keep its connections, where it has any."""
        if isinstance(self._model, AbstractAsyncContextManager):
            await self._model.__aenter__()

    async def _leave_model(self) -> None:
        if isinstance(self._model, AbstractAsyncContextManager):
            await self._model.__aexit__(None, None, None)
