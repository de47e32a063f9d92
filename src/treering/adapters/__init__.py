"""Sessions under the frameworks that agents are written with: one module for each, which imports its framework.

    from agents import Agent, Runner
    from treering.adapters.openai_agents import TreeringSession

    session = TreeringSession("support-42", "~/sessions")
    await Runner.run(agent, "Where is my parcel?", session=session)

What a framework stores becomes entries like all others: they are searched, followed, branched and exported, and shown
in the viewer. What an entry has no place for is kept beside it, and given back as it came. Nothing else in the library
knows of these modules; each uses what every program can use.
"""
