"""Sessions for Google's Agent Development Kit.

    from google.adk.runners import Runner
    from treering.adapters.adk import TreeringSessionService

    runner = Runner(agent=agent, app_name="support", session_service=TreeringSessionService("~/sessions"))
    async for event in runner.run_async(user_id="ann", session_id="42", new_message=content): ...

An event is one entry, and a rewind a branch of the session's tree. The end of a long session is read without its
beginning, and its state is kept, not added up anew. It needs the extra `adk`.
"""

from .service import StaleSessionError, TreeringSessionService

__all__ = ["StaleSessionError", "TreeringSessionService"]
