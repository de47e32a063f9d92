"""Agents: drive a model turn by turn, and store the conversation in a session.

A model is a protocol here; clients of real models are in `treering.models`. The agent loop needs only the three methods
of `ConversationSession` from a session, works without one, and does more when it is given a `Session`.

`agent` holds the public class. `turns` runs one turn, `answers` normalizes each answer before it is stored and
executed, `turn_storage` and `live_turn` store the messages, `calling` executes tool calls, `streaming` streams events,
`leaving` moves the leaf. `validation` checks the arguments. `model`, `tool`, `hooks`, `options`, `events` and
`sent_requests` define the types that they share. No lower layer imports this package.
"""
