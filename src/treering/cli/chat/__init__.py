"""`treering chat`: a person talks with a model, and everything is kept as it is said.

Two threads, and each waits for what it is good at. The main thread belongs to the person: it reads lines, prints, and gets
the signals. The event loop runs in a thread of its own, with the host, the session and the model's client, and never
waits for a terminal. What the loop has to show goes through a queue (`front`); a line that was read becomes one job in
the loop (`talk`).

`command` is what click sees, `opening` how a session is chosen, `conversation` the session with its model, `slash` the
registry of what begins with a slash, `reader` and `screen` the two sides of the terminal, `desk` holds them together.
"""
