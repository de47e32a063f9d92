"""Clients of real models, each on its provider's own library, which an extra installs and which is imported lazily.

They are models for the agent loop (`actors.agents.model`), and summarizers through `summarizer_of`.
"""
