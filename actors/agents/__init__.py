"""Agents: what drives a model, turn by turn, and keeps what was said in a session.

A model is a protocol here; clients of real ones are in `treering.models`. The agent loop knows sessions by the three
methods of `ConversationSession`, and does without one where it is given none.
"""
