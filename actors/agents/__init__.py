"""Agents: what drives a model, turn by turn, and keeps what was said in a session.

A model is a protocol here; clients of real ones are in `treering.models`. The agent loop knows sessions by the three
methods of `ConversationSession`, does without one where it is given none, and does more for a `Session`.

`agent` is what programs hold. `turns` runs one turn, `answers` has each answer in the form that is kept and run, `keeping`
and `live` keep the messages, `calling` carries tools out, `streaming` shows events, `leaving` moves the leaf. `model`, `tool`, `hooks`, `options`, `events` and `sent` are the words
that they have in common. Nothing below knows of this room.
"""
