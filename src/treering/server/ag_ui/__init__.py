"""AG-UI: a session as the run of an agent that a web page shows, by the events of the protocol of this name.

A server of sessions has no model. A run here is a turn of whoever answers in the session: what the page sends is
appended, and what is written is streamed until nobody is at work any more. `history` turns entries into messages and
back; `run` turns what happens into events.
"""
