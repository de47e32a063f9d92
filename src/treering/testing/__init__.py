"""Tools for tests: a conformance suite for stores, disks that fail and lose power, randomly generated sessions.

What a program does with a model is tested with one that follows a script::

    from treering import AgentSession
    from treering.testing.models import ScriptedModel

    agent = AgentSession(ScriptedModel(["Hello to you."]), session=session)
    turn = await agent.respond("Hello")

`stores` is the conformance suite for stores and needs pytest with anyio's plugin. `strategies` needs hypothesis.
`disks` and `clocks` are for hosts that a test creates. `models` is a model that follows a script; `model_server`
answers model clients over real connections. `simulation` runs a whole host deterministically from a seed and needs
trio. Nothing else in treering imports this package.
"""
