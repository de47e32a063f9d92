"""Agents: drive a model turn by turn, and store the conversation in a session.

A model is a protocol here; clients of real models are in `treering.models`. The agent loop needs only the three methods
of `ConversationSession` from a session, works without one, and does more when it is given a `Session`.

`agent` holds the public class. `turns` runs one turn, `turn_gate` lets the turns of a session run one after the other,
`turn_storage` and `live_turn` store the messages, `calling` executes tool calls, `streaming` streams events.
`validation` checks arguments and answers. `model`, `tool`, `options` and `events` define the types that they share. No
lower layer imports this package.
"""
