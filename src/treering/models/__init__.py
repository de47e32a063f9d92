"""Clients of real models, each on its provider's own library, which an extra brings and which is imported lazily.

They are models of the agent loop (`actors.agents.model`), and summarizers by way of `summarizer_of`.
"""
